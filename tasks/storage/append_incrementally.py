"""Rows of a table that arrive one by one, such as answers of a paid service: stored while more are awaited."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import polars as pl

from schemas.tables import TABLES
from tasks.storage.tables import Store, frame_schema

ROWS_A_PART, SECONDS_A_PART = 32, 10.0
"""A part is written after so many rows, or when the next row comes after so long; a killed run loses no more."""


class AppendRows(Protocol):
    """Stores rows soon."""

    def __call__(self, rows: Sequence[dict[str, Any]]) -> None:
        """Keep these rows, given as dicts of the table's columns."""
        ...


@contextmanager
def append_incrementally(store: Store, table: str) -> Iterator[AppendRows]:
    """Inside it, rows are appended in small parts, also when an exception ends it; at the end the parts are merged."""
    before, waiting, last = store.parts(table), list[dict[str, Any]](), time.monotonic()

    def write() -> None:
        nonlocal last
        store.append(table, pl.DataFrame(waiting, schema=frame_schema(TABLES[table].row)))
        waiting.clear()
        last = time.monotonic()

    def keep(rows: Sequence[dict[str, Any]]) -> None:
        waiting.extend(rows)
        if len(waiting) >= ROWS_A_PART or (waiting and time.monotonic() - last >= SECONDS_A_PART):
            write()

    try:
        yield keep
    finally:
        write()
    new = store.parts(table)[len(before) :]
    if len(new) > 1:
        merged = store.write_part(table, pl.concat([store.read_part(table, part) for part in new]))
        store.list_parts(table, [*before, merged])
