"""Prints rows, as aligned columns for people or one JSON object a line, and notes beside them."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

from schemas.board import BoardRow, shown_columns
from schemas.rating import Fragility
from schemas.row import Row
from tasks.runtime.untrusted import json_text, one_line

_FILE_WIDTH = 160
"""Columns where the output is no terminal."""
_DIGITS = {"score": 2, "win_rate": 1, "reward": 1, "mean_tokens": 0, "rating": 1, "rating_style": 1, "evidence": 1}
_DIGITS |= {"rating_late": 1, "moved": 1, "moved_by_chance": 1, "votes_a_model": 1, "expected_maximum": 1, "bias": 1}
_DIGITS |= {"left_density": 5, "right_density": 5, "elo": 1, "seconds": 1, "difference": 1}
_DIGITS |= {"needed_fraction": 5, "deviation": 1, "effective_battles": 1}
"""Decimals of a column; others have three."""


def note(text: str) -> None:
    """Print a line on stderr, beside the results on stdout."""
    print(f"curate: {text}", file=sys.stderr)


def print_rows(
    name: str, rows: Sequence[Row | Mapping[str, Any]], as_json: bool = False, *, titled: bool = False,
    err: bool = False, width: int = _FILE_WIDTH,
) -> None:  # fmt: skip
    """Print rows of one table; boards have their interval in one column.

    `titled`: where a command prints several tables, with the name above each, or as `table` in each JSON object.
    `width`: columns where the output is no terminal.
    """
    if as_json:
        for row in rows:
            values = row.model_dump(mode="json") if isinstance(row, Row) else dict(row)
            print(json_text({"table": name} | values if titled else values))
        return
    out = sys.stderr if err else sys.stdout
    title = name.replace("_", " ")
    if not rows:
        print(f"{title}: no rows", file=out)
        return
    printed_rows = [_shown(row) for row in rows]
    if name != "vote_shares" and {row.get("slice", "overall") for row in printed_rows} <= {"overall", name}:
        printed_rows = [{column: value for column, value in row.items() if column != "slice"} for row in printed_rows]
    columns = list(dict.fromkeys(column for row in printed_rows for column in row))
    headings = ["" if column == "flags" else column for column in columns]
    is_number = [not any(_is_text(row.get(column)) for row in printed_rows) for column in columns]
    cells = [[_cell(column, row.get(column)) for column in columns] for row in printed_rows]
    print_cells(headings, cells, is_number, title=title if titled else None, err=err, width=width)


def print_cells(
    headings: Sequence[str], rows: Sequence[Sequence[str]], is_number: Sequence[bool] = (), *,
    title: str | None = None, err: bool = False, width: int = _FILE_WIDTH,
) -> None:  # fmt: skip
    """Print cells, in which nothing steers a terminal, as aligned columns; those of numbers end at the same place."""
    out = sys.stderr if err else sys.stdout
    table = Table(box=None, pad_edge=False, header_style="bold", title=title, title_justify="left")
    for place, heading in enumerate(headings):
        justify: Literal["left", "right"] = "right" if is_number and is_number[place] else "left"
        table.add_column(one_line(heading), justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(markup=False, highlight=False, width=None if out.isatty() else width, file=out).print(table)


def _shown(row: Row | Mapping[str, Any]) -> Mapping[str, Any]:
    """The columns for people, in order."""
    if isinstance(row, BoardRow):
        return shown_columns(row)
    if isinstance(row, Fragility):  # ids are for programs
        return row.model_dump(mode="json", exclude={"needed_ids"})
    return row.model_dump(mode="json") if isinstance(row, Row) else row


def _is_text(value: object) -> bool:
    return isinstance(value, str | list) and " to " not in str(value) and " / " not in str(value)


def _cell(column: str, value: object) -> str:
    """The text of a cell. Names are untrusted and must not contain terminal control characters."""
    if value is None:
        return "-"
    if isinstance(value, float) and column.startswith("p_"):
        return f"{value:.2g}"
    if isinstance(value, float):
        return f"{value:,.{_DIGITS.get(column, 3)}f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return one_line(" ".join(map(str, value)) if isinstance(value, list) else str(value))
