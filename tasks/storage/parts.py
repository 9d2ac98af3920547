"""Changes tables by parts: rewrites those with certain rows, and appends rows that arrive one by one."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import polars as pl

from schemas.tables import TABLES
from tasks.storage.parquet import conform
from tasks.storage.tables import Store, frame_schema

ROWS = 65_536
"""Parts with more rows are read, changed and written as several parts, so that memory does not grow with them."""


def names_any(table: str, column: str, ids: Collection[str]) -> pl.Expr:
    """Whether a row's `column`, or one value of a list column, is one of `ids`."""
    wanted = pl.lit(pl.Series(sorted(ids), dtype=pl.String).implode())
    if isinstance(frame_schema(TABLES[table].row)[column], pl.List):
        return pl.col(column).list.set_intersection(wanted).list.len() > 0
    return pl.col(column).is_in(wanted)


def rows_without(store: Store, table: str, parts: Sequence[str], unwanted: pl.Expr) -> list[str]:
    """Names of the parts of a table after deleting the rows for which `unwanted` is true."""
    return rewritten(store, table, parts, unwanted, lambda rows: rows.filter(~unwanted.fill_null(False)))


def rewritten(
    store: Store, table: str, parts: Sequence[str], touched: pl.Expr, change: Callable[[pl.DataFrame], pl.DataFrame]
) -> list[str]:
    """Names of the parts of a table after `change` was applied to every part with a row for which `touched` holds.

    To find these parts, only the columns of `touched` are read. All other parts are kept as they are. New parts are
    written but not listed, and no part is deleted. A part of another version keeps its own columns.
    """
    return changed_parts(store, table, parts, parts_with(store, table, parts, touched), change)


def changed_parts(
    store: Store,
    table: str,
    parts: Sequence[str],
    affected: Container[str],
    change: Callable[[pl.DataFrame], pl.DataFrame],
    into: str | None = None,
) -> list[str]:
    """The same, with `change` applied to the `affected` parts. `into`: table that gets them, by default the same.

    Rows that have the columns of today after the change are written as such, others as their part was.
    """
    into = into or table
    today = frame_schema(TABLES[into].row) if into in TABLES else None
    kept: list[str] = []
    for part in parts:
        if part not in affected:
            kept.append(part)
            continue
        own = store.part_schema(table, part)
        for rows in store.slices_as_written(table, part, ROWS):
            left = change(rows)
            if left.height:
                kept.append(store.write_part(into, left if left.schema == today else conform(left, own)))
    return list(dict.fromkeys(kept))


def parts_with(store: Store, table: str, parts: Sequence[str], touched: pl.Expr) -> dict[str, int]:
    """Part -> number of rows for which `touched` holds, for the parts that have any."""
    columns, counted = sorted(set(touched.meta.root_names())), touched.fill_null(False).sum()
    slices = ((part, rows) for part in parts for rows in store.part_slices(table, part, columns, ROWS))
    found = Counter[str]()
    for part, rows in slices:
        found[part] += int(rows.select(counted).item())
    return dict(+found)


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
