"""The order of models on every board, by rank, then by rating; and what changes it.

A model's interval may be so wide that it has a better rank than one with a higher rating. Boards are read by rank, so
rank comes first everywhere: in tables, cards, reports and pages.
"""

from collections.abc import Sequence
from typing import Any

import polars as pl

APART = "separate_group"
"""Flag of models that no chain of decisive votes joins to the others."""
RANK_RULE = (
    "Rank is 1 + the number of models whose 95 % interval lies entirely above; equal ranks are in the order of the "
    "ratings."
)


def best_first(board: pl.DataFrame, value: str = "rating", within: Sequence[str] = ()) -> pl.DataFrame:
    """Rows of boards in the order in which people read them, for each combination of `within`.

    Models apart from the others come last, before them those without a rank. `board` has `rank`, `model`, `flags` and
    the column `value`.
    """
    apart = pl.col("flags").list.contains(APART).fill_null(value=False)
    descending = [*[False] * len(within), False, False, True, False]
    return board.sort(*within, apart, "rank", value, "model", descending=descending, nulls_last=True)


def place_on_board(flags: Sequence[str], rank: int | None, value: float | None, model: str) -> tuple[object, ...]:
    """Sort key of one row in the order of `best_first`."""
    return APART in flags, rank is None, rank or 0, value is None, -(value or 0.0), model


def contests(fragility: pl.DataFrame) -> pl.DataFrame:
    """One row a contest of each board of which something is told, in order, overall first, with what both changes need.

    Columns: slice, contest, place, model, rival, difference, of, unit, removed, removed_fraction, reversed and
    reversed_fraction. First place has two rows where the changes need different rivals.
    """
    about = ["slice", "contest", "place", "model", "rival", "difference", "of", "unit"]
    wide = (
        fragility.drop_nulls("rival")
        .group_by(about, maintain_order=True)
        .agg(
            pl.col(column).filter(change=change).first().alias(f"{change}{column.removeprefix('needed')}")
            for change in ("removed", "reversed")
            for column in ("needed", "needed_fraction")
        )
    )
    return wide.sort(
        pl.col("slice") != "overall", "slice", pl.col("contest") != "first_place", "place", maintain_order=True
    )


def checked_votes(checks: pl.DataFrame) -> list[dict[str, Any]]:
    """Rows of `vote_checks` that found a vote: those that do not count in full first, then in order of their names."""
    found = checks.filter(pl.col("votes") > 0)
    return found.sort(pl.col("check") != "not_in_full", "check").to_dicts()
