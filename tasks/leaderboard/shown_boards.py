"""Boards as pages draw them: slices, rows with their places on a scale, and what moved since an earlier board."""

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from schemas.board import BoardColumns
from schemas.rating import OVERALL, Rating
from tasks.storage.queries.bench import best_first

_MARGIN = 0.04


class Rated(NamedTuple):
    """One row of a board. Places are per mille of the board's width."""

    model: str
    rank: int | None
    rating: float
    low: float | None
    high: float | None
    battles: int
    flags: tuple[str, ...]
    at: float
    at_low: float
    at_high: float


def slices(ratings: pl.DataFrame) -> list[str]:
    """All slices of the boards; the overall board first."""
    if ratings.is_empty():
        return []
    return sorted(ratings["slice"].unique(), key=lambda name: (name != OVERALL, ":" in name, name))


def shown_board(ratings: pl.DataFrame, name: str, columns: BoardColumns = Rating.board) -> list[Rated]:
    """The board of a slice, best model first; models without a value are left out.

    `ratings`: rows of a board with slice, model, rank, flags and the columns that `columns` names.
    """
    if ratings.is_empty():
        return []
    rows = best_first(ratings.filter(slice=name).drop_nulls(columns.value), columns.value)
    if rows.is_empty():
        return []
    rows = rows.with_columns(comparisons=pl.sum_horizontal(columns.battles))
    ends = rows.select(
        low=pl.min_horizontal(columns.value, columns.low), high=pl.max_horizontal(columns.value, columns.high)
    )
    low, high = float(ends["low"].min()), float(ends["high"].max())  # type: ignore[arg-type]
    width = max(high - low, 1.0)

    def place(value: float | None, end: float) -> float:
        return 1000 * (_MARGIN + (1 - 2 * _MARGIN) * ((end if value is None else value) - low) / width)

    return [
        Rated(
            model=row["model"],
            rank=row["rank"],
            rating=row[columns.value],
            low=row[columns.low],
            high=row[columns.high],
            battles=row["comparisons"],
            flags=tuple(row["flags"]),
            at=place(row[columns.value], low),
            at_low=place(row[columns.low], low),
            at_high=place(row[columns.high], high),
        )
        for row in rows.iter_rows(named=True)
    ]


def moved_models(before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
    """Models of two overall boards in the order of the later one: rank, rating and battles on both.

    Columns of the earlier board end in `_before`. No rows where a board is missing.
    """
    if before.is_empty() or after.is_empty():
        return pl.DataFrame()
    columns = ["model", "rank", "rating", "battles"]
    now, then = (best_first(board.filter(slice=OVERALL)).select(columns) for board in (after, before))
    return now.join(then, on="model", how="full", coalesce=True, suffix="_before", maintain_order="left")


def grouped(names: Sequence[str]) -> dict[str, list[str]]:
    """Slices by their kind, the word before the colon; those without one are under an empty name."""
    groups: dict[str, list[str]] = {}
    for name in names:
        kind, colon, _ = name.partition(":")
        groups.setdefault(kind if colon else "", []).append(name)
    return groups
