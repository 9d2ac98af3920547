"""Removes what killed writers left in a store."""

import re

from schemas.tables import TABLES
from tasks.tables import Store

_HALF = re.compile(r"\.\d+\.tmp$")
"""What a file is called on a local folder until all of it is written."""


def sweep(store: Store) -> None:
    """Remove half files, and parts that no list names. Only for the one writer of a store."""
    found = store.fs.find(store.path)
    for path in found:
        if _HALF.search(path):
            store.fs.rm_file(path)
    tables = {path.removeprefix(f"{store.path}/tables/").rsplit("/", 1)[0] for path in found}
    for table in sorted(tables & TABLES.keys()):
        store.purge(table)
