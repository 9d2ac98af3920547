"""Parts of tables written anew where something of them changes, some rows at a time; others are not read in full."""

from collections.abc import Callable, Collection, Sequence

import polars as pl

from tasks.storage.tables import Store

ROWS = 65_536
"""Rows of a larger part are read, changed and written in parts of so many, so that memory does not grow with it."""


def rewritten(
    store: Store,
    table: str,
    parts: Sequence[str],
    touched: pl.Expr,
    columns: Sequence[str],
    change: Callable[[pl.DataFrame], pl.DataFrame],
) -> list[str]:
    """The parts of a table after `change` of every part that has a row for which `touched` holds.

    `touched` is an expression over `columns`, and only they are read of all parts. Parts without such a row are kept
    as they are. Nothing is listed or removed.
    """
    return written_anew(store, table, parts, parts_with(store, table, parts, touched, columns), change)


def parts_with(
    store: Store, table: str, parts: Sequence[str], touched: pl.Expr, columns: Sequence[str]
) -> dict[str, int]:
    """Part -> rows for which `touched` holds, of the parts that have any."""
    rows = {
        part: sum(
            int(some.select(touched.fill_null(False).sum()).item())
            for some in store.part_slices(table, part, columns, ROWS)
        )
        for part in parts
    }
    return {part: count for part, count in rows.items() if count}


def written_anew(
    store: Store,
    table: str,
    parts: Sequence[str],
    of_them: Collection[str],
    change: Callable[[pl.DataFrame], pl.DataFrame],
) -> list[str]:
    """The parts of a table after `change` of some of them. Nothing is listed or removed."""
    kept: list[str] = []
    for part in parts:
        if part not in of_them:
            kept.append(part)
            continue
        for rows in store.part_slices(table, part, None, ROWS):
            left = change(rows)
            if left.height:
                kept.append(store.write_part(table, left))
    return list(dict.fromkeys(kept))
