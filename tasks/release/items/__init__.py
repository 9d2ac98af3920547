"""Files that written and generated benchmarks, and judges, add to a release.

In: the tables of a store. Out: one `ReleasePart` each with its files, checks and sections of card and explorer; and
sections of the report. The core imports none of this: `flows/products.py` gives it.
"""
