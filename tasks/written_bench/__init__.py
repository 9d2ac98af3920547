"""Benchmarks that people write: items with captions and references, and what people found about them.

In: files of items, filled-in sheets, the tables of a store. Out: rows for ingest to read, and the tables `bench_items`,
`captions`, `references` and `reviews`.
"""
