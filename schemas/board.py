"""How a board is shown, whatever ranks its models: votes, a judge, a written benchmark, right answers.

Each row type of a board says it once, in `board`; the printer, the explorer, the report and the card of a release read
it. A new board is a row type with a `board`.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from schemas.row import Row


@dataclass(frozen=True)
class Together:
    """Columns that stand in one, such as five counts of verdicts."""

    heading: str
    columns: tuple[str, ...]
    """Their values stand with ` / ` between them."""


@dataclass(frozen=True)
class BoardColumns:
    """The columns of a row type that a board shows, beside those that every board has: slice, rank, model, flags."""

    value: str
    """What models are ranked by; equal ranks are in its order."""
    low: str
    """Lower end of its 95 % interval."""
    high: str
    """Upper end of its 95 % interval."""
    unit: str
    """What the value is, for the axis of a figure."""
    digits: int = 0
    """Decimals of the ends in a text."""
    no_end: str = "∞"
    """What stands for an end that is null, where the other is not: a rating has no bound, another value no interval."""
    battles: tuple[str, ...] = ()
    """Columns whose sum is the number of comparisons that a row rests on."""
    more: tuple[str | Together, ...] = ()
    """Columns between the interval and the flags, in order."""


class BoardRow(Row):
    """One model on a board, with the columns slice, model, rank and flags."""

    board: ClassVar[BoardColumns]


def interval_text(low: float | None, high: float | None, columns: BoardColumns) -> str:
    """`963 to 1041`; `-∞ to 963` for a rating without a lower bound; `-` for no interval."""
    if columns.no_end == "-" and None in (low, high):
        return "-"
    lower, upper = (columns.no_end if end is None else f"{end:.{columns.digits}f}" for end in (low, high))
    return f"{'-' if low is None else ''}{lower} to {upper}"


def shown_columns(row: BoardRow) -> dict[str, Any]:
    """Heading -> value of a row, in the order in which people read a board."""
    board = row.board
    columns = {name: getattr(row, name) for name in ("slice", "rank", "model", board.value)}
    columns["95 % interval"] = interval_text(getattr(row, board.low), getattr(row, board.high), board)
    for column in board.more:
        if isinstance(column, Together):
            columns[column.heading] = " / ".join(str(getattr(row, name)) for name in column.columns)
        else:
            columns[column] = getattr(row, column)
    columns["flags"] = getattr(row, "flags")  # noqa: B009 - every board has it, and its place among fields differs
    return columns
