"""`curate judge`: models answer benchmarks, judges compare answers, boards and submissions."""
