"""Flows and commands of judging: models answer benchmarks, judges compare answers, boards, submissions, agreement.

In: files or a store, as options. Out: tables for people on stdout, or one JSON object a line; notes on stderr.
"""
