"""What a release says of items that people wrote: families, licences, captions and references that may be public.

In: the tables about written items, the released benchmark. Out: `written/items.parquet`, and its problems.
"""
