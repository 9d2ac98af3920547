"""The commands about agreement: `curate judge agree`, `votes` and `metrics`, and `curate correlate`.

In: files or a store, as options. Out: tables for people on stdout, or one JSON object a line; notes on stderr.
"""
