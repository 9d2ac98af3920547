"""Running work: threads, processes and shards, progress, timing, the budget for paid services, safe text output."""
