"""A store: its tables and everything kept beside them, in a local folder or on an object store.

Tables and Parquet files, content ids and user ids, locks and leases, takedown tombstones, run records, storage errors,
and a temporary database for joins larger than memory. `queries/` has read-only queries that several stages share.
No other package reads or writes table files. This package imports no stage.
"""
