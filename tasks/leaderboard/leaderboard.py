"""Votes -> leaderboards of slices: ratings, intervals, ranks, and flags for misleading rows."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import polars as pl

from schemas.errors import BadInput, known_values
from schemas.rating import Interval, Rating, RatingMethod
from tasks.leaderboard.bradley_terry import SCALE, Structure, log_strengths, place, structure, wins_and_games
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
"""Models with fewer battles are flagged, as in VisionArena Fig. 7."""
OVERALL = "overall"
CATEGORY = "category:"
"""Prefix of the bool columns of categories, and of their slices."""


class Counted(NamedTuple):
    """Counts of votes on the models of one board."""

    models: list[str]
    pairs: Numbers
    """int64 (pairs, 2): numbers of models."""
    counts: Matrix
    """float64 (pairs, 3): votes that the first model of a pair lost, tied and won."""
    known: Structure


class Fitted(NamedTuple):
    """Log-strengths of the models of one board, and the inputs of their intervals."""

    strengths: Vector
    spread: Matrix
    """Sandwich: covariance (models, models). Bootstrap: log-strengths (rounds, models)."""
    opened: tuple[Vector, Vector]
    """`open_intervals`."""


def slice_masks(battles: pl.DataFrame) -> dict[str, Mask]:
    """Slice name -> bool (battles,) for every slice that the columns allow, without empty slices.

    `battles` comes from `rateable`, with optional columns `category:<name>` (bool), language, refusal, is_preset and
    tstamp. A battle with a null is in no slice of that column; it stays in overall and in the exclude_* slices.
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
    """One leaderboard per slice that has votes, all on the scale of the overall board.

    In each slice the anchor keeps its rating. Without an anchor, or in a slice without it, the mean rating of the
    slice's models is their mean on the overall board. Raises BadInput for an anchor without votes.
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
    """The board of all votes, best model first; empty without votes."""
    return slice_boards(votes, {slice_name: np.ones(len(votes.pair), bool)}, method or RatingMethod())


def rate(
    names: list[str],
    pairs: Numbers,
    counts: Matrix,
    slice_name: str,
    method: RatingMethod,
    level: Mapping[str, float] | None = None,
) -> list[Rating]:
    """Rows of one board, best first, from counts (pairs, 3); `level` gives ratings whose mean is kept."""
    of_board = counted(names, pairs, counts)
    return board(of_board, _fitted(of_board, method), slice_name, method, level) if of_board.models else []


def counted(names: list[str], pairs: Numbers, counts: Matrix) -> Counted:
    """Drop pairs and models without votes."""
    used = counts.sum(axis=1) > 0
    numbers, ends = np.unique(pairs[used], return_inverse=True)
    pairs, counts = ends.reshape(-1, 2), counts[used]
    return Counted([names[number] for number in numbers], pairs, counts, structure(pairs, counts, len(numbers)))


def _fitted(of_board: Counted, method: RatingMethod) -> Fitted:
    models, pairs, counts, known = of_board
    strengths = log_strengths(pairs, counts, len(models), known=known)
    if method.interval is Interval.SANDWICH:
        spread = sandwich_covariance(pairs, counts, strengths, known.core)
    else:
        spread = bootstrap_strengths(pairs, counts, strengths, method.bootstraps, method.seed)
    opened = open_intervals(pairs, *wins_and_games(counts), np.zeros(len(pairs)), strengths, known)
    return Fitted(strengths, spread, opened)


def board(
    of_board: Counted, fitted: Fitted, slice_name: str, method: RatingMethod, level: Mapping[str, float] | None
) -> list[Rating]:
    """Rows of a leaderboard, best first; `level` gives ratings whose mean is kept, by default 1000 each."""
    known, (strengths, spread, opened) = of_board.known, fitted
    anchor = of_board.models.index(method.anchor_model) if method.anchor_model in of_board.models else None
    wanted = np.array([level[name] for name in of_board.models]) if level else np.full(len(of_board.models), 1000.0)
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
    rank, battles = (
        rank_upper_bound(low, high, known),
        np.bincount(of_board.pairs.ravel(), of_board.counts.sum(1).repeat(2)),
    )
    flags = _flags(of_board, method.anchor_model is not None and anchor is None)
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
        for n, model in enumerate(of_board.models)
    ]
    return sorted(rows, key=lambda row: (-row.rating, row.model))


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _flags(of_board: Counted, no_anchor: bool) -> list[list[str]]:
    """`Rating.flags` of each model."""
    models, (first, second), counts = len(of_board.models), of_board.pairs.T, of_board.counts
    won = np.bincount(first, counts[:, WON], models) + np.bincount(second, counts[:, LOST], models)
    lost = np.bincount(first, counts[:, LOST], models) + np.bincount(second, counts[:, WON], models)
    tied = np.bincount(first, counts[:, TIED], models) + np.bincount(second, counts[:, TIED], models)
    marks = {
        "few_battles": won + lost + tied < FEW_BATTLES,
        "only_wins": lost + tied == 0,
        "only_losses": won + tied == 0,
        "unbounded": ~of_board.known.core,
        "separate_group": of_board.known.group != 0,
        "anchor_missing": np.full(models, no_anchor),
    }
    return [[name for name, holds in marks.items() if holds[n]] for n in range(models)]
