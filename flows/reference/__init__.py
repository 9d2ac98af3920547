"""Pages of docs/ that are written from the code: every command, every key, table, column and figure.

`make docs` writes them, and `make check` fails when one is out of date.
"""
