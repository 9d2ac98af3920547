"""How work runs: on threads, processes or shards, with progress on stderr and timed."""
