"""Changes tables by parts: rewrites those with certain rows, lists new ones in batches, merges small ones.

Also appends rows that arrive one by one.
"""

import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import polars as pl
import pyarrow as pa

from schemas.row import arrow_schema
from schemas.tables import TABLES
from tasks.storage.parquet import conform, part_bytes
from tasks.storage.tables import Store, frame_schema

PART_ROWS_MAX = 65_536
"""Parts with more rows are read, changed and written as several parts, so that memory does not grow with them."""


def names_any(table: str, column: str, ids: Iterable[str]) -> pl.Expr:
    """Whether a row's `column`, or one value of a list column, is one of `ids`."""
    listed_ids = pl.lit(pl.Series([*ids], dtype=pl.String).implode())
    if isinstance(frame_schema(TABLES[table].row)[column], pl.List):
        return pl.col(column).list.set_intersection(listed_ids).list.len() > 0
    return pl.col(column).is_in(listed_ids)


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
        schema = store.part_schema(table, part)
        for rows in store.slices_as_written(table, part, PART_ROWS_MAX):
            changed = change(rows)
            if changed.height:
                kept.append(store.write_part(into, changed if changed.schema == today else conform(changed, schema)))
    return list(dict.fromkeys(kept))


def parts_with(store: Store, table: str, parts: Sequence[str], touched: pl.Expr) -> dict[str, int]:
    """Part -> number of rows for which `touched` holds, for the parts that have any."""
    columns, counted = sorted(set(touched.meta.root_names())), touched.fill_null(False).sum()
    slices = ((part, rows) for part in parts for rows in store.part_slices(table, part, columns, PART_ROWS_MAX))
    touched_rows = Counter[str]()
    for part, rows in slices:
        touched_rows[part] += int(rows.select(counted).item())
    return dict(+touched_rows)


LIST_SECONDS = 30.0
"""New parts are listed after this time; a killed run has to measure no more again."""
PART_BYTES, IMAGE_PART_BYTES = 128 * 1024 * 1024, 512 * 1024 * 1024
"""Parts are merged up to this size."""
SMALL_PARTS = 16
"""So many parts that are not half of it, one after another, are merged."""


ListParts = Callable[[Iterable[tuple[str, str]]], None]
"""Lists these (table, part) pairs soon. They may be listed already."""


@contextmanager
def listed_in_batches(store: Store) -> Iterator[ListParts]:
    """Inside it, written parts are listed some at a time, also when an exception ends it; then small ones are merged.

    The images of a batch are listed after their signals, and the files that they came from last: after a kill in
    between, images are read again.
    """
    waiting, touched, last = dict[str, list[str]](), set[str](), time.monotonic()

    def write() -> None:
        nonlocal last
        for table in sorted(waiting, key=lambda name: (not name.startswith("signals/"), name == "image_files")):
            store.add_parts(table, waiting[table])
            del waiting[
                table
            ]  # not before: what could not be listed stays first in line, and nothing after it is listed
        last = time.monotonic()

    def add(parts: Iterable[tuple[str, str]]) -> None:
        for table, part in parts:
            waiting.setdefault(table, []).append(part)
            touched.add(table)
        if time.monotonic() - last >= LIST_SECONDS:
            write()

    try:
        yield add
    finally:
        write()
    for table in sorted(touched):
        merge_small(store, table)


def merge_small(store: Store, table: str) -> None:
    """Merge many small parts in a row, in order, up to `PART_BYTES`, or `IMAGE_PART_BYTES` for images.

    The merged part is listed in place of the others in one step, then these are deleted; after a kill in between, one
    or the other is unlisted, and the next run deletes it. Parts of another version stay as they are.
    """
    listed = store.parts(table)
    if len(listed) < 2:
        return
    declared = arrow_schema(TABLES[table].row)
    most = IMAGE_PART_BYTES if "bytes" in declared.names else PART_BYTES
    sizes = {part: part_bytes(store.fs, store.at(f"tables/{table}/{part}")) for part in listed}
    parts: list[str] = []
    for run in _runs(listed, sizes, most):
        total = sum(sizes[part] for part in run)
        many = len(run) >= SMALL_PARTS or (len(run) > 1 and total >= most // 2)
        if many and all(store.part_schema(table, part).equals(declared) for part in run):
            parts.append(_merged(store, table, run))
        else:
            parts.extend(run)
    if parts != listed:
        store.list_parts(table, list(dict.fromkeys(parts)))


def _runs(parts: Sequence[str], sizes: Mapping[str, int], most: int) -> Iterator[list[str]]:
    """Parts in order: those of at least half of `most` bytes alone, others together up to `most`."""
    run, total = list[str](), 0
    for part in parts:
        large = sizes[part] >= most // 2
        if run and (large or total + sizes[part] > most):
            yield run
            run, total = [], 0
        if large:
            yield [part]
        else:
            run, total = [*run, part], total + sizes[part]
    if run:
        yield run


def _merged(store: Store, table: str, parts: Sequence[str]) -> str:
    """Name of a new part with the rows of some parts.

    Rows are sorted; those with the same key stay in order. Images stay in the order in which they came, because those
    of one day are read together.
    """
    rows = pa.concat_tables(store.arrow_part(table, part) for part in parts)
    by = [(name, "ascending") for name in TABLES[table].sort]
    return store.write_part(table, rows if "bytes" in rows.column_names else rows.sort_by(by))


ROWS_A_PART, SECONDS_A_PART = 32, 10.0
"""A part is written after so many rows, or when the next row comes after so long; a killed run loses no more."""


AppendRows = Callable[[Sequence[dict[str, Any]]], None]
"""Stores rows soon, given as dicts of the table's columns."""


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
        store.list_parts(table, list(dict.fromkeys([*before, merged])))
