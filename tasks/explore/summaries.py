"""Summaries of a listing: who beats whom, and what was dropped with its reasons and evidence."""

from typing import NamedTuple

import polars as pl

from schemas.rating import FEW_VOTES, OVERALL, RatingMethod
from tasks.leaderboard.shown_boards import Rated, shown_board
from tasks.shown import BATTLE, SIDE, Reason, Source

PAIR_MODELS_MAX = 30
"""Most models in the table of pairs: the best of the board."""
_SLICES = {"category": "tags", "language": "language", "month": "day"}
"""Kind of slice -> column of the listing that has its value."""


SELECTION = "selection"
"""Slice of the board of a selection."""


class Pair(NamedTuple):
    """Wins, losses and ties of one model against another."""

    wins: int
    losses: int
    ties: int

    @property
    def share(self) -> float | None:
        """Share of the decisive votes that the model won; None without any."""
        decisive = self.wins + self.losses
        return self.wins / decisive if decisive else None

    @property
    def tenth(self) -> int:
        """The share in tenths, for its colour; 5 without decisive votes."""
        return 5 if self.share is None else round(10 * self.share)


def pair_counts(listing: pl.DataFrame, name: str) -> dict[tuple[str, str], Pair]:
    """(model, opponent) -> votes of the slice's battles that are kept, in both orders."""
    outcome = pl.col("outcome").cast(pl.String)
    voted = listing.filter(
        pl.col("kind").cast(pl.String) == BATTLE, outcome.is_null() | (outcome == "kept"), _in_slice(name)
    ).select(
        a=pl.col("models").list.get(0, null_on_oob=True).cast(pl.String),
        b=pl.col("models").list.get(1, null_on_oob=True).cast(pl.String),
        vote=pl.col("vote").cast(pl.String),
    )
    counted = voted.group_by("a", "b").agg(
        won=(pl.col("vote") == "model_a").sum(), lost=(pl.col("vote") == "model_b").sum(), number=pl.len()
    )
    pairs: dict[tuple[str, str], Pair] = {}
    for a, b, won, lost, every in counted.iter_rows():
        for one, other, wins, losses in ((a, b, won, lost), (b, a, lost, won)):
            before = pairs.get((one, other), Pair(0, 0, 0))
            pairs[one, other] = Pair(before.wins + wins, before.losses + losses, before.ties + every - won - lost)
    return pairs


def selection_board(rows: pl.DataFrame, ratings: pl.DataFrame) -> tuple[list[Rated], int]:
    """(The board of the kept battles among rows of the listing, best model first; the number of their votes).

    Empty for fewer than `FEW_VOTES`. Each vote counts once. `ratings` are all boards: where the overall one has each
    model, the mean is kept, so that both can be compared.
    """
    from tasks.leaderboard.leaderboard import rate_slice  # imported late: most pages need no scipy
    from tasks.leaderboard.votes import rateable, votes

    outcome = pl.col("outcome").cast(pl.String)
    battles = rows.filter(pl.col("kind").cast(pl.String) == BATTLE, outcome.is_null() | (outcome == "kept")).select(
        model_a=pl.col("models").list.get(0).cast(pl.String),
        model_b=pl.col("models").list.get(1).cast(pl.String),
        winner=pl.col("vote").cast(pl.String),
    )
    rated = rateable(battles.drop_nulls())
    if rated.height < FEW_VOTES:
        return [], rated.height
    of_rows = votes(rated)
    overall = ratings.filter(slice=OVERALL) if ratings.height else ratings
    level = dict(overall.select("model", "rating").iter_rows()) if overall.height else {}
    level = level if level.keys() >= {*of_rows.models} else {}
    board = [row.model_dump() for row in rate_slice(of_rows, SELECTION, RatingMethod(), level or None)]
    return shown_board(pl.DataFrame(board, infer_schema_length=None), SELECTION), rated.height


def _in_slice(name: str) -> pl.Expr:
    """Battles of a slice; slices that are no value of a facet, such as style_control, have all."""
    kind, _, value = name.partition(":")
    if kind == "category":
        return pl.col("tags").cast(pl.List(pl.String)).list.contains(value)
    if kind in _SLICES:
        return pl.col(_SLICES[kind]).cast(pl.String).str.starts_with(value)
    return pl.lit(True)


EXAMPLES_A_REASON = 3
"""Examples of each reason."""


class DroppedExample(NamedTuple):
    """One dropped item."""

    row: dict[str, object]
    """A row of the listing."""
    evidence: list[str]


class Dropped(NamedTuple):
    """One reason, with examples."""

    reason: Reason
    items: int
    """Conversations and battles that have it among their reasons."""
    examples: list[DroppedExample]


def dropped(source: Source) -> list[Dropped]:
    """All reasons, most frequent first; rejected lines have no examples, because nothing of them is kept."""
    reasons = source.reasons()
    listing = source.listing.filter(pl.col("kind").cast(pl.String) != SIDE)
    # a row is one reason of one item, with the number of the item's row in the listing
    item_reasons = listing.select("reasons").with_row_index("row").explode("reasons").drop_nulls()
    item_reasons = item_reasons.with_columns(pl.col("reasons").cast(pl.String))
    rows = {reason.reason: item_reasons.filter(reasons=reason.reason)["row"] for reason in reasons}
    chosen = {reason: listing[row_numbers.head(EXAMPLES_A_REASON)].to_dicts() for reason, row_numbers in rows.items()}
    example_ids = {(str(row["kind"]), str(row["id"])) for example_rows in chosen.values() for row in example_rows}
    evidence = source.evidence(sorted(example_ids))
    return [
        Dropped(
            reason,
            rows[reason.reason].len(),
            [
                DroppedExample(row, _about(evidence.get((row["kind"], row["id"]), []), reason.reason))
                for row in chosen[reason.reason]
            ],
        )
        for reason in reasons
    ]


def _about(sentences: list[str], reason: str) -> list[str]:
    """The sentences about a reason; all of them when none names it."""
    return [sentence for sentence in sentences if f"{reason}:" in sentence] or sentences[:2]
