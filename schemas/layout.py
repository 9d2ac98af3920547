"""The number of the layout of a store's tables, which says what versions of this software read a store.

`python -m schemas.layout` prints every column of every table; a test compares that with `tests/schemas/layout.txt`.
"""

import sys
from collections.abc import Iterator

from schemas.row import Row, arrow_schema
from schemas.tables import TABLES

LAYOUT = 1
"""Raised with every change after which parts of earlier versions cannot be read: a table or column that is renamed,
merged or of another type, or a column that came to a table in which older parts may not lack one."""


class StoreLayout(Row):
    """A store's statement about itself in `tables/layout.json`."""

    layout: int
    """Number of the layout of its tables."""
    written_by: list[str]
    """Versions of this software that wrote to it, in order."""


def layout_lines() -> Iterator[str]:
    """The layout's number, then every column of every table with its type."""
    yield f"layout {LAYOUT}"
    for name, table in TABLES.items():
        yield from (f"{name}: {field.name} {field.type}" for field in arrow_schema(table.row))


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in layout_lines())
