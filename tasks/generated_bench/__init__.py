"""Benchmarks made on demand (AutoBench-V, arXiv 2410.21259). In: a capability. Out: items with questions and keys.

`aspects -> descriptions with check questions -> drawings -> alignments -> questions -> items`, each a table. Images are
taken in by ingest; items are screened and decided on like conversations.
"""
