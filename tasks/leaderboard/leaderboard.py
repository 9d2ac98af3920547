"""Votes -> leaderboards of slices: ratings, intervals, ranks, and flags for what may mislead."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import polars as pl

from schemas.errors import BadInput, known_values
from schemas.rating import Interval, Rating, RatingMethod
from tasks.leaderboard.bradley_terry import SCALE, log_strengths, place, wins_and_games
from tasks.leaderboard.connected import Structure, structure
from tasks.leaderboard.intervals import (
    NORMAL95,
    bootstrap_strengths,
    open_intervals,
    placed_deviation,
    quantiles95,
    rank_upper_bound,
    sandwich_covariance,
)
from tasks.leaderboard.votes import LOST, TIED, WON, Mask, Matrix, Numbers, Vector, Votes
from tasks.runtime.blas_threads import one_blas_thread

FEW_BATTLES = 100
"""Boards mark models with fewer battles, as VisionArena Fig. 7 does."""
OVERALL = "overall"
CATEGORY = "category:"
"""Prefix of the bool columns that name categories, and of their slices."""


class Counted(NamedTuple):
    """Counts of votes on the models of one board."""

    models: list[str]
    pairs: Numbers
    """int64 (pairs, 2): numbers of models."""
    counts: Matrix
    """float64 (pairs, 3): votes that the first model of a pair lost, tied and won."""
    known: Structure


class Fitted(NamedTuple):
    """Log-strengths of the models of one board, and what their intervals are made of."""

    strengths: Vector
    spread: Matrix
    """Covariance (models, models), or with the bootstrap strengths (rounds, models)."""
    opened: tuple[Vector, Vector]
    """`open_intervals`."""


def slice_masks(battles: pl.DataFrame) -> dict[str, Mask]:
    """Slice name -> bool (battles,), of every slice the columns allow; slices without battles are left out.

    `battles` is as `rateable` gives it, with bool columns `category:<name>`, language, refusal, is_preset and tstamp
    where known. A battle with a null there stays in overall and in the exclusions, but is in no slice of the column.
    """
    slices = {OVERALL: pl.lit(True), "exclude_ties": ~pl.col("winner").is_in(["tie", "tie_bothbad"])}
    for name, without in (("exclude_refusal", "refusal"), ("exclude_preset", "is_preset")):
        if without in battles.columns:
            slices[name] = ~pl.col(without).fill_null(False)
    slices |= {name: pl.col(name).fill_null(False) for name in battles.columns if name.startswith(CATEGORY)}
    month = pl.col("tstamp").dt.strftime("%Y-%m")
    for prefix, column, values in (("language", "language", pl.col("language")), ("month", "tstamp", month)):
        if column in battles.columns:
            for value in sorted(battles.select(values.drop_nulls().unique()).to_series()):
                slices[f"{prefix}:{value}"] = (values == value).fill_null(False)
    masks = {name: battles.select(chosen.alias("chosen")).to_series() for name, chosen in slices.items()}
    whole = {name: np.resize(mask.to_numpy(), battles.height) for name, mask in masks.items()}
    return {name: mask for name, mask in whole.items() if mask.any()}


@one_blas_thread()
def slice_boards(votes: Votes, slices: Mapping[str, Mask], method: RatingMethod) -> list[Rating]:
    """A leaderboard of every slice, all on one scale; a slice without votes has none.

    The scale is the overall board's: in a slice the anchor has its rating, and where the slice lacks the anchor, or
    none is chosen, its models have the mean that they have overall. Raises BadInput for an anchor nobody voted on.
    """
    if method.anchor_model is not None and method.anchor_model not in votes.models:
        raise BadInput(f"anchor model {known_values(method.anchor_model, votes.models)}")
    if not votes.models:
        return []
    counts = votes.counts()
    overall = rate(votes.models, votes.pairs, counts, OVERALL, method)
    level = {row.model: row.rating for row in overall}
    rows = []
    for name, chosen in slices.items():
        of_slice = votes.counts(chosen)
        if (of_slice == counts).all():
            rows += [row.model_copy(update={"slice": name}) for row in overall]
        else:
            rows += rate(votes.models, votes.pairs, of_slice, name, method, level)
    return rows


def leaderboard(votes: Votes, slice_name: str = OVERALL, method: RatingMethod | None = None) -> list[Rating]:
    """Ratings of every model in the votes, best first; empty when there are no votes."""
    return slice_boards(votes, {slice_name: np.ones(len(votes.pair), bool)}, method or RatingMethod())


def rate(
    names: list[str],
    pairs: Numbers,
    counts: Matrix,
    slice_name: str,
    method: RatingMethod,
    level: Mapping[str, float] | None = None,
) -> list[Rating]:
    """Rows of one board, best first, from counts (pairs, 3); `level` is the mean to keep, model by model."""
    told = counted(names, pairs, counts)
    return board(told, _fitted(told, method), slice_name, method, level) if told.models else []


def counted(names: list[str], pairs: Numbers, counts: Matrix) -> Counted:
    """The counts without pairs and models that have no votes."""
    used = counts.sum(axis=1) > 0
    numbers, ends = np.unique(pairs[used], return_inverse=True)
    pairs, counts = ends.reshape(-1, 2), counts[used]
    return Counted([names[number] for number in numbers], pairs, counts, structure(pairs, counts, len(numbers)))


def _fitted(told: Counted, method: RatingMethod) -> Fitted:
    _, pairs, counts, known = told
    strengths = log_strengths(pairs, counts, len(told.models), known=known)
    if method.interval is Interval.SANDWICH:
        spread = sandwich_covariance(pairs, counts, strengths, known.core)
    else:
        spread = bootstrap_strengths(pairs, counts, strengths, method.bootstraps, method.seed)
    opened = open_intervals(pairs, *wins_and_games(counts), np.zeros(len(pairs)), strengths, known)
    return Fitted(strengths, spread, opened)


def board(
    told: Counted, fitted: Fitted, slice_name: str, method: RatingMethod, level: Mapping[str, float] | None
) -> list[Rating]:
    """Rows of a leaderboard, best first; `level` is the mean to keep, model by model, by default 1000."""
    known, (strengths, spread, opened) = told.known, fitted
    anchor = told.models.index(method.anchor_model) if method.anchor_model in told.models else None
    wanted = np.array([level[name] for name in told.models]) if level else np.full(len(told.models), 1000.0)
    if anchor is not None:
        wanted[anchor] = method.anchor_rating
    point = place(strengths, known, anchor, wanted)
    if method.interval is Interval.SANDWICH:
        half = NORMAL95 * SCALE * placed_deviation(spread, known, anchor)
        ends = point - half, point + half
    else:
        ends = quantiles95(place(spread, known, anchor, wanted), point)
    low, high = (
        np.where(known.core, end, point + SCALE * (open_end - strengths))
        for end, open_end in zip(ends, opened, strict=True)
    )
    rank, battles = rank_upper_bound(low, high, known), np.bincount(told.pairs.ravel(), told.counts.sum(1).repeat(2))
    flags = _flags(told, method.anchor_model is not None and anchor is None)
    rows = [
        Rating(
            slice=slice_name,
            model=model,
            rating=float(point[n]),
            ci95_low=_known(low[n]),
            ci95_high=_known(high[n]),
            rank=rank[n],
            battles=round(float(battles[n])),
            flags=flags[n],
        )
        for n, model in enumerate(told.models)
    ]
    return sorted(rows, key=lambda row: (-row.rating, row.model))


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _flags(told: Counted, no_anchor: bool) -> list[list[str]]:
    """Why the rating of each model may mislead; see `Rating.flags`."""
    models, (first, second), counts = len(told.models), told.pairs.T, told.counts
    won = np.bincount(first, counts[:, WON], models) + np.bincount(second, counts[:, LOST], models)
    lost = np.bincount(first, counts[:, LOST], models) + np.bincount(second, counts[:, WON], models)
    tied = np.bincount(first, counts[:, TIED], models) + np.bincount(second, counts[:, TIED], models)
    marks = {
        "few_battles": won + lost + tied < FEW_BATTLES,
        "only_wins": lost + tied == 0,
        "only_losses": won + tied == 0,
        "unbounded": ~told.known.core,
        "separate_group": told.known.group != 0,
        "anchor_missing": np.full(models, no_anchor),
    }
    return [[name for name, holds in marks.items() if holds[n]] for n in range(models)]
