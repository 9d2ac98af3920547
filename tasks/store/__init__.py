"""Access to a store beside its tables: locks, tombstones, run records, storage errors, joins larger than memory."""
