"""Answers to questions in SQL on pages: the first rows, and the ids of items that choose rows of the listing.

In: `AskedTables`, a question. Out: `FirstRows`, or ids. A further column by which an answer names items is one of
`ID_COLUMNS`.
"""

from typing import Any, NamedTuple

import polars as pl

from schemas.errors import BadInput
from tasks.explore.answer_files import as_json, rows_of
from tasks.explore.facets import NoSelection
from tasks.runtime.untrusted import json_text, one_line
from tasks.shown import AskedTables

PAGE_ROWS_MAX = 200
"""Rows of an answer that a page shows."""
_CELL_CHARACTERS = 400
ID_COLUMNS = ("conversation_id", "battle_id", "question_id", "conversation_a", "conversation_b", "item_id")
"""Columns of an answer that hold ids of conversations, battles and prompts."""


class FirstRows(NamedTuple):
    """The first rows of an answer."""

    columns: list[str]
    rows: list[list[str]]
    """Cells as texts on one line."""
    numbers: list[bool]
    """For each column whether it holds numbers alone."""
    is_cut: bool
    """Whether there are more rows."""
    names_items: bool
    """Whether a column holds ids of items."""


def first_rows(tables: AskedTables, question: str) -> FirstRows:
    """The first rows of an answer. Raises BadInput, in one line, for a question that cannot be asked."""
    columns, rows = list[str](), list[dict[str, Any]]()
    for batch in tables.answer(question):
        columns = batch.schema.names
        rows += rows_of(batch.slice(0, PAGE_ROWS_MAX + 1 - len(rows)))
        if len(rows) > PAGE_ROWS_MAX:
            break
    first = rows[:PAGE_ROWS_MAX]
    numbers = [all(isinstance(row[name], int | float | None) for row in first) for name in columns]
    cells = [[_cell(row[name]) for name in columns] for row in first]
    return FirstRows(columns, cells, numbers, len(rows) > PAGE_ROWS_MAX, bool({*columns} & {*ID_COLUMNS}))


def ids_of_answer(tables: AskedTables, question: str) -> pl.Series:
    """String: the distinct ids in the `ID_COLUMNS` of an answer. Raises NoSelection."""
    ids = [pl.Series([], dtype=pl.String)]
    try:
        for batch in tables.answer(question):
            columns = [name for name in batch.schema.names if name in ID_COLUMNS]
            if not columns:
                raise NoSelection(f"The answer names no items: SELECT one of {', '.join(ID_COLUMNS)}")
            ids += [pl.Series(batch.column(name).cast("string")).cast(pl.String) for name in columns]
    except BadInput as error:
        raise NoSelection(str(error)) from None
    return pl.concat(ids).drop_nulls().unique()


def _cell(value: Any) -> str:
    """A value on one line of bounded length; of bytes their number."""
    if value is None:
        return "–"
    if isinstance(value, bytes):
        return f"<{len(value):,} bytes>"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    text = json_text(as_json(value)) if isinstance(value, list | dict) else str(as_json(value))
    return one_line(text, _CELL_CHARACTERS)
