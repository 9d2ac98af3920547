"""Statistics of votes, without rating models: their counts and lengths, and who wins by difference of length."""

from collections.abc import Iterator

import numpy as np
import polars as pl

from schemas.rating import LengthDifference, VoteStatistics
from tasks.leaderboard.leaderboard import FEW_BATTLES

SIDE_ROWS = 10
"""Rows of `length_differences` on each side of 0, at most, not counting those without a bound."""
_WITHIN = 0.98
"""Share of the votes that those rows hold, at least."""
_SIDES = ("model_a", "model_b")
_ROUND_NUMBERS = (1, 2, 5)


def vote_statistics(battles: pl.DataFrame) -> list[VoteStatistics]:
    """One row over `rateable` battles; none without a battle.

    Lengths are counted where the table has `rounds`, `context_tokens`, `tokens_a` and `tokens_b`.
    """
    if battles.is_empty():
        return []
    counts, named = battles["winner"].value_counts(), int(_column(battles, "named").sum() or 0)
    number = {winner: int(count) for winner, count in counts.iter_rows()}
    rounds = _column(battles, "rounds")
    answers = pl.concat([_column(battles, f"tokens_{side}").cast(pl.Float64) for side in ("a", "b")])
    unequal = decided(battles).filter(pl.col("difference") != 0)
    row = VoteStatistics(
        slice="overall",
        votes=battles.height,
        anonymous=battles.height - named,
        named=named,
        left=number.get("model_a", 0),
        right=number.get("model_b", 0),
        ties=number.get("tie", 0),
        both_bad=number.get("tie_bothbad", 0),
        days=_days(_column(battles, "tstamp")),
        rounds=None if rounds.null_count() else int(rounds.sum()),
        mean_rounds=_mean(rounds),
        mean_input_tokens=_mean(_column(battles, "context_tokens")),
        mean_output_tokens=_mean(answers),
        longer_won_fraction=_mean((unequal["difference"] > 0) == (unequal["winner"] == "model_a")),
    )
    return [row]


def _column(battles: pl.DataFrame, name: str) -> pl.Series:
    return battles.get_column(name, default=pl.Series(name, [None] * battles.height, pl.Float64))


def _mean(counts: pl.Series) -> float | None:
    return float(mean) if isinstance(mean := counts.cast(pl.Float64).mean(), float) else None


def _days(times: pl.Series) -> int | None:
    dated = times.drop_nulls()
    return None if dated.is_empty() else (dated.dt.date().max() - dated.dt.date().min()).days + 1  # type: ignore[operator,union-attr]


def decided(battles: pl.DataFrame) -> pl.DataFrame:
    """`winner` and `difference` (tokens of the left side's answers minus the right's) of votes for one side.

    Votes where a side was not counted are left out; all, where the table has no tokens.
    """
    longer = (_column(battles, "tokens_a") - _column(battles, "tokens_b")).cast(pl.Float64).round()
    differences = battles.select("winner", difference=longer.cast(pl.Int64))
    return differences.filter(pl.col("winner").is_in(_SIDES)).drop_nulls()


def length_differences(battles: pl.DataFrame) -> list[LengthDifference]:
    """Votes for the left and for the right side by the difference of their lengths, smallest first.

    Rows are equally wide, with a round number of tokens, lie evenly about 0 and hold 98 % of the votes; the first and
    the last row hold the rest. None without a decisive vote with counted answers.
    """
    votes = decided(battles)
    if votes.is_empty():
        return []
    difference = votes["difference"].to_numpy()
    width = _width(float(np.quantile(np.abs(difference), _WITHIN)) + 1)
    edges = width * np.arange(-SIDE_ROWS, SIDE_ROWS + 1)
    place = np.searchsorted(edges, difference, side="right")
    counts = [np.bincount(place[(votes["winner"] == side).to_numpy()], minlength=len(edges) + 1) for side in _SIDES]
    flags = ["few_battles"] if votes.height < FEW_BATTLES else []
    left, right = (count.tolist() for count in counts)
    return list(_rows(edges.tolist(), left, right, flags))


def _width(bound: float) -> int:
    """The smallest of 1, 2, 5, 10, 20, … of which `SIDE_ROWS` reach the bound."""
    power = 1
    while True:
        for digit in _ROUND_NUMBERS:
            if digit * power * SIDE_ROWS >= bound:
                return digit * power
        power *= 10


def _rows(edges: list[int], left: list[int], right: list[int], flags: list[str]) -> Iterator[LengthDifference]:
    width = edges[1] - edges[0]
    for low, high, a, b in zip([None, *edges], [*edges, None], left, right, strict=True):
        bounded = low is not None and high is not None
        yield LengthDifference(
            slice="overall",
            low=low,
            high=high,
            left=a,
            right=b,
            left_density=a / sum(left) / width if bounded and any(left) else None,
            right_density=b / sum(right) / width if bounded and any(right) else None,
            flags=flags,
        )
