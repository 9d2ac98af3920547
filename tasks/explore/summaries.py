"""Summaries of a listing: leaderboards by slice, who beats whom, and what was dropped with its reasons and evidence."""

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from tasks.explore.listing import BATTLE, SIDE
from tasks.explore.source import Reason, Source
from tasks.storage.queries.bench import best_first

OVERALL = "overall"
MODELS_MAX = 30
"""Most models in the table of pairs: the best of the board."""
_MARGIN = 0.04
_SLICES = {"category": "tags", "language": "language", "month": "day"}
"""Kind of slice -> column of the listing that has its value."""


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


def slices(ratings: pl.DataFrame) -> list[str]:
    """All slices of the boards; the overall board first."""
    if ratings.is_empty():
        return []
    return sorted(ratings["slice"].unique(), key=lambda name: (name != OVERALL, ":" in name, name))


def shown_board(ratings: pl.DataFrame, name: str) -> list[Rated]:
    """The board of a slice, best model first."""
    rows = best_first(ratings.filter(slice=name))
    if rows.is_empty():
        return []
    ends = rows.select(low=pl.min_horizontal("rating", "ci95_low"), high=pl.max_horizontal("rating", "ci95_high"))
    low, high = float(ends["low"].min()), float(ends["high"].max())  # type: ignore[arg-type]
    width = max(high - low, 1.0)

    def place(value: float | None, end: float) -> float:
        return 1000 * (_MARGIN + (1 - 2 * _MARGIN) * ((end if value is None else value) - low) / width)

    return [
        Rated(
            model=row["model"],
            rank=row["rank"],
            rating=row["rating"],
            low=row["ci95_low"],
            high=row["ci95_high"],
            battles=row["battles"],
            flags=tuple(row["flags"]),
            at=place(row["rating"], low),
            at_low=place(row["ci95_low"], low),
            at_high=place(row["ci95_high"], high),
        )
        for row in rows.iter_rows(named=True)
    ]


def judged_board(ratings: pl.DataFrame, name: str) -> list[Rated]:
    """A judge's board of a slice, best model first: scores with their intervals, and verdicts in place of battles."""
    if ratings.is_empty():
        return []
    counts = ("much_better", "better", "tie", "worse", "much_worse")
    scores = ratings.drop_nulls("score").drop("rating", "ci95_low", "ci95_high").with_columns(
        rating="score", ci95_low="score_ci95_low", ci95_high="score_ci95_high", battles=pl.sum_horizontal(counts)
    )  # fmt: skip
    return shown_board(scores, name)


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


def pair_counts(listing: pl.DataFrame, name: str) -> dict[tuple[str, str], Pair]:
    """(model, opponent) -> votes of the slice's battles that are kept, in both orders."""
    outcome = pl.col("outcome").cast(pl.String)
    votes = listing.filter(
        pl.col("kind").cast(pl.String) == BATTLE, outcome.is_null() | (outcome == "kept"), _in_slice(name)
    ).select(
        a=pl.col("models").list.get(0, null_on_oob=True).cast(pl.String),
        b=pl.col("models").list.get(1, null_on_oob=True).cast(pl.String),
        vote=pl.col("vote").cast(pl.String),
    )
    counted = votes.group_by("a", "b").agg(
        won=(pl.col("vote") == "model_a").sum(), lost=(pl.col("vote") == "model_b").sum(), votes=pl.len()
    )
    found: dict[tuple[str, str], Pair] = {}
    for a, b, won, lost, every in counted.iter_rows():
        for one, other, wins, losses in ((a, b, won, lost), (b, a, lost, won)):
            before = found.get((one, other), Pair(0, 0, 0))
            found[one, other] = Pair(before.wins + wins, before.losses + losses, before.ties + every - won - lost)
    return found


def _in_slice(name: str) -> pl.Expr:
    """Battles of a slice; slices that are no value of a facet, such as style_control, have all."""
    kind, _, value = name.partition(":")
    if kind == "category":
        return pl.col("tags").cast(pl.List(pl.String)).list.contains(value)
    if kind in _SLICES:
        return pl.col(_SLICES[kind]).cast(pl.String).str.starts_with(value)
    return pl.lit(True)


EXAMPLES = 3
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
    each = listing.select("reasons").with_row_index("row").explode("reasons").drop_nulls()
    each = each.with_columns(pl.col("reasons").cast(pl.String))
    rows = {reason.reason: each.filter(reasons=reason.reason)["row"] for reason in reasons}
    chosen = {reason: listing[some.head(EXAMPLES)].to_dicts() for reason, some in rows.items()}
    shown = {(str(row["kind"]), str(row["id"])) for some in chosen.values() for row in some}
    evidence = source.evidence(sorted(shown))
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
    return [each for each in sentences if f"{reason}:" in each] or sentences[:2]
