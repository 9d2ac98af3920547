"""Battles -> votes as arrays: each vote is a pair of models, the score of the first one, and a weight."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.errors import BadInput, known_values
from schemas.rating import BothBad
from tasks.runtime.untrusted import read_yaml

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_LABELS: dict[str, list[str]] = read_yaml(Path(__file__).with_name("battle_files.yaml"))["winner"]
OUR_WINNERS = {label: winner for winner, labels in _LABELS.items() for label in labels}
"""Winner labels of published arenas and judges -> ours; other labels are an error."""
_STRONG, STRONG_WEIGHT = ("A>>B", "B>>A"), 3.0
"""Five-way verdicts that count as three votes, as in Arena-Hard and WildVision-Bench."""
_SCORES = {"model_a": 1.0, "model_b": 0.0, "tie": 0.5, "tie_bothbad": 0.5}
_SIDES = ("model_a", "model_b")


@dataclass(frozen=True)
class Votes:
    """Votes on pairs of models. The models of a pair are ordered by number, whichever side they were on."""

    models: list[str]
    """Sorted names; a model's number is its index."""
    pairs: Numbers
    """int64 (pairs, 2): the smaller and the larger model number of every pair with votes, sorted."""
    pair: Numbers
    """int64 (rows,): row of `pairs`."""
    score: Vector
    """float64 (rows,): of the first model of the pair: 1 won, 0.5 tied, 0 lost, or a soft preference between."""
    weight: Vector
    """float64 (rows,): weight of each vote."""
    swapped: Mask
    """bool (rows,): whether the first model of the pair was model_b."""
    times: Vector
    """float64 (rows,): how many equal votes the row stands for."""
    cluster: Numbers | None = None
    """int64 (rows,): number of the vote's cluster, from 0; None when votes are independent."""
    by_weight: bool = False
    """Whether `number` and `battles` are effective numbers of votes: (sum of weights)^2 / sum of squared weights."""

    def sums(self, times: Vector | None = None) -> tuple[Vector, Vector]:
        """Weighted scores of the first model, and weights, of each pair: float64 (pairs,). Ties are half a win."""
        weight = self.weight * (self.times if times is None else times)
        won, games = (np.bincount(self.pair, mass, len(self.pairs)) for mass in (weight * self.score, weight))
        return np.asarray(won, np.float64), np.asarray(games, np.float64)

    def counts(self) -> Vector:
        """float64 (models,): number of votes on each model, whatever their weights."""
        return self._by_model(self.times)

    def battles(self) -> Vector:
        """float64 (models,): number of votes on each model; an effective number if `by_weight`."""
        if not self.by_weight:
            return self.counts()
        return _effective(self._by_model(self.times * self.weight), self._by_model(self.times * self.weight**2))

    def number(self, rows: Mask) -> float:
        """Number of votes of the chosen rows, bool (rows,); an effective number if `by_weight`."""
        times, weight = self.times[rows], self.weight[rows]
        if not self.by_weight:
            return float(times.sum())
        return float(_effective(np.array([times @ weight]), np.array([times @ weight**2]))[0])

    def in_effective_votes(self) -> Self:
        """The same votes, of which some have a weight above 0, on the scale where weights sum up to their `number`."""
        total, squares = self.times @ self.weight, self.times @ self.weight**2
        return replace(self, weight=self.weight * (total / squares), by_weight=True)

    def _by_model(self, value: Vector) -> Vector:
        """float64 (models,): sum of `value` (rows,) over the votes on each model."""
        return np.asarray(np.bincount(self.pairs[self.pair].ravel(), value.repeat(2), len(self.models)), np.float64)

    def only(self, rows: Mask | Numbers) -> Self:
        """The chosen rows, as a mask or as indices, without models that have no vote among them."""
        met, pair = _renumbered(self.pair[rows])
        numbers, ends = _renumbered(self.pairs[met])
        chosen: dict[str, Any] = {name: getattr(self, name)[rows] for name in ("score", "weight", "swapped", "times")}
        cluster = None if self.cluster is None else _renumbered(self.cluster[rows])[1]
        models = [self.models[number] for number in numbers]
        return replace(self, models=models, pairs=ends, pair=pair, cluster=cluster, **chosen)

    def grouped(self) -> Self:
        """The same votes with one row for all that are equal, sorted; sides are forgotten."""
        keys = ["pair", "score", "weight", *(["cluster"] if self.cluster is not None else [])]
        table = pl.DataFrame({name: getattr(self, name) for name in (*keys, "times")})
        rows = table.group_by(keys).agg(pl.col("times").sum()).sort(keys)
        arrays: dict[str, Any] = {column.name: column.to_numpy() for column in rows}
        return replace(self, **arrays, swapped=np.zeros(rows.height, bool))


def _effective(total: Vector, squares: Vector) -> Vector:
    return np.divide(total**2, squares, out=np.zeros(len(total)), where=squares > 0)


def rateable(
    battles: pl.DataFrame, both_bad: BothBad = BothBad.TIE, strong_weight: float = STRONG_WEIGHT
) -> pl.DataFrame:
    """Battles between two different models with our winner labels; both-bad votes are kept or dropped as chosen.

    Raises BadInput for unknown winner labels (a guess would bias the ranking) and for missing model names.
    """
    unknown = sorted({str(label) for label in battles["winner"].unique()} - set(OUR_WINNERS))
    if unknown:
        raise BadInput(f"unknown winner label {known_values(', '.join(unknown[:5]), OUR_WINNERS)}")
    if battles["model_a"].null_count() or battles["model_b"].null_count():
        raise BadInput("a battle lacks a model name; every row needs model_a and model_b")
    weights = [pl.col("weight")] if "weight" in battles.columns else []
    if battles["winner"].is_in(_STRONG).any():
        strong = pl.when(pl.col("winner").is_in(_STRONG)).then(strong_weight).otherwise(1.0)
        weights = [(weights[0] * strong if weights else strong).alias("weight")]
    different = battles.filter(pl.col("model_a") != pl.col("model_b")).with_columns(
        pl.col("winner").replace_strict(OUR_WINNERS, return_dtype=pl.String), *weights
    )
    return different.filter(pl.col("winner") != "tie_bothbad") if both_bad is BothBad.EXCLUDE else different


def beyond_day(battles: pl.DataFrame, day_votes_max: int | None) -> pl.Series:
    """Whether a vote, bool (battles,), is later than its voter's first so many of the UTC day.

    Votes without a voter or a time are not limited.
    """
    if day_votes_max is None or not {"judge", "tstamp"} <= {*battles.columns}:
        return pl.repeat(False, battles.height, dtype=pl.Boolean, eager=True)
    row = pl.int_range(pl.len())
    number = row.over("judge", pl.col("tstamp").dt.date(), order_by=["tstamp", row])
    is_limited = pl.col("judge").is_not_null() & pl.col("tstamp").is_not_null()
    return battles.select(is_limited & (number >= day_votes_max)).to_series()


def repeats_counted_once(battles: pl.DataFrame, pair_votes_max: int | None) -> pl.DataFrame:
    """Battles with a weight, if need be, by which a voter's votes on a pair beyond the limit count as one together.

    The earliest votes count in full: by tstamp, or in the order of the table. Votes without a voter are not limited.
    """
    if pair_votes_max is None or "judge" not in battles.columns:
        return battles
    pair = ("judge", pl.min_horizontal(*_SIDES), pl.max_horizontal(*_SIDES))
    row = pl.int_range(pl.len())
    number = row.over(*pair, order_by=["tstamp", row] if "tstamp" in battles.columns else row)
    share = pl.when(number < pair_votes_max).then(1.0).otherwise(1 / (pl.len().over(*pair) - pair_votes_max))
    share = pl.when(pl.col("judge").is_null()).then(1.0).otherwise(share)
    return battles.with_columns(weight=share * (pl.col("weight") if "weight" in battles.columns else 1.0))


def votes(battles: pl.DataFrame, cluster: str | None = None) -> Votes:
    """One vote per row of `rateable` battles, in order; `cluster` is the column that says which votes belong together.

    A vote without a value in that column is a cluster of its own. Raises BadInput when the column is missing.
    """
    models = sorted({*battles["model_a"].unique(), *battles["model_b"].unique()})
    names = pl.Enum(models)
    # A row is one vote: the number of the model on one side.
    left, right = (battles[side].cast(names).to_physical().to_numpy().astype(np.int64) for side in _SIDES)
    swapped = left > right
    met, pair = _renumbered(np.minimum(left, right) * len(models) + np.maximum(left, right))
    winner_score = pl.col("winner").replace_strict(_SCORES, return_dtype=pl.Float64)
    score = pl.coalesce("score", winner_score) if "score" in battles.columns else winner_score
    first = battles.select(score).to_series().to_numpy()
    return Votes(
        models,
        np.stack([met // max(1, len(models)), met % max(1, len(models))], axis=1),
        pair,
        np.where(swapped, 1 - first, first),
        battles["weight"].to_numpy() if "weight" in battles.columns else np.ones(len(pair)),
        swapped,
        np.ones(len(pair)),
        None if cluster is None else _clusters(battles, cluster),
    )


def _renumbered(numbers: Numbers) -> tuple[Numbers, Numbers]:
    """The different numbers, sorted, and `numbers` as places in them."""
    met = np.flatnonzero(np.bincount(numbers.ravel(), minlength=1))
    place = np.zeros(met.max(initial=0) + 1, np.int64)
    place[met] = np.arange(len(met))
    return met, place[numbers]


def _clusters(battles: pl.DataFrame, column: str) -> Numbers:
    if column not in battles.columns:
        raise BadInput(f"the table has no column {column}, so --cluster {column} cannot be used")
    alone = pl.lit("\0") + pl.int_range(pl.len()).cast(pl.String)
    names = battles.select(pl.col(column).cast(pl.String).fill_null(alone)).to_series()
    return (names.rank("dense").cast(pl.Int64) - 1).to_numpy()
