"""What a release says of items that people wrote, and of those that were made on demand.

In: the tables about such items, the released benchmark. Out: `written/items.parquet`, `generated/items.parquet`.
"""
