"""The only code that reads and writes tables, local or on an object store, and what belongs to a store beside them.

Tables and Parquet files, content ids and user ids, locks and leases, tombstones of takedowns, run records, storage
errors, joins larger than memory. `queries/` has read-only queries that several stages share. Imports no stage.
"""
