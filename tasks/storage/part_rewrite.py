"""Changes rows of a table by rewriting only the parts that contain such rows."""

from collections.abc import Callable, Sequence

import polars as pl

from tasks.storage.tables import Store

ROWS = 65_536
"""Parts with more rows are read, changed and written as several parts, so that memory does not grow with them."""


def rewritten(
    store: Store,
    table: str,
    parts: Sequence[str],
    touched: pl.Expr,
    columns: Sequence[str],
    change: Callable[[pl.DataFrame], pl.DataFrame],
) -> list[str]:
    """Names of the parts of a table after `change` was applied to every part with a row for which `touched` holds.

    `touched` is an expression over `columns`; only these are read to find the parts. All other parts are kept as they
    are. New parts are written but not listed, and no part is deleted.
    """
    affected = parts_with(store, table, parts, touched, columns)
    kept: list[str] = []
    for part in parts:
        if part not in affected:
            kept.append(part)
            continue
        for rows in store.part_slices(table, part, None, ROWS):
            left = change(rows)
            if left.height:
                kept.append(store.write_part(table, left))
    return list(dict.fromkeys(kept))


def parts_with(
    store: Store, table: str, parts: Sequence[str], touched: pl.Expr, columns: Sequence[str]
) -> dict[str, int]:
    """Part -> number of rows for which `touched` holds, for the parts that have any."""
    rows = {
        part: sum(
            int(some.select(touched.fill_null(False).sum()).item())
            for some in store.part_slices(table, part, columns, ROWS)
        )
        for part in parts
    }
    return {part: count for part, count in rows.items() if count}
