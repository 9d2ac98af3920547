"""Votes -> leaderboards: ratings, intervals, ranks and what may mislead."""

from collections.abc import Mapping

import numpy as np

from schemas.errors import BadInput, known_values
from schemas.rating import Interval, Rating, RatingMethod
from tasks.rate.bradley_terry import SCALE, log_strengths, place
from tasks.rate.connected import Labels, structure
from tasks.rate.intervals import (
    NORMAL95,
    bootstrap_strengths,
    interval95,
    placed_deviation,
    rank_upper_bound,
    sandwich_covariance,
)
from tasks.rate.votes import LOST, TIED, WON, Mask, Matrix, Numbers, Vector, Votes
from tasks.running.blas_threads import one_blas_thread

FEW_BATTLES = 100
"""Boards mark models with fewer battles, as VisionArena Fig. 7 does."""
OVERALL = "overall"


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
        same = (of_slice == counts).all()
        rows += (
            [row.model_copy(update={"slice": name}) for row in overall]
            if same
            else rate(votes.models, votes.pairs, of_slice, name, method, level)
        )
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
    used = counts.sum(axis=1) > 0
    if not used.any():
        return []
    numbers, ends = np.unique(pairs[used], return_inverse=True)
    models, pairs, counts = [names[number] for number in numbers], ends.reshape(-1, 2), counts[used]
    group, core = structure(pairs, counts, len(models))
    anchor = models.index(method.anchor_model) if method.anchor_model in models else None
    wanted = np.array([level[name] for name in models]) if level else None
    strengths = log_strengths(pairs, counts, len(models))
    point = place(strengths, group, anchor, method.anchor_rating, wanted)
    if method.interval is Interval.SANDWICH:
        half = NORMAL95 * SCALE * placed_deviation(sandwich_covariance(pairs, counts, strengths), group, anchor)
        low, high = point - half, point + half
    else:
        samples = bootstrap_strengths(pairs, counts, strengths, method.bootstraps, method.seed)
        low, high = interval95(place(samples, group, anchor, method.anchor_rating, wanted), point)
    missing = method.anchor_model is not None and anchor is None
    flags = board_flags(pairs, counts, group, core, missing)
    return board(models, slice_name, point, (low, high), group, battles_of(pairs, counts, len(models)), flags)


def board(
    models: list[str],
    slice_name: str,
    point: Vector,
    interval: tuple[Vector, Vector],
    group: Labels,
    battles: Vector,
    flags: list[list[str]],
) -> list[Rating]:
    """Rows of a leaderboard, best first."""
    low, high = interval
    rank = rank_upper_bound(low, high, group)
    rows = [
        Rating(
            slice=slice_name,
            model=model,
            rating=float(point[n]),
            ci95_low=float(low[n]),
            ci95_high=float(high[n]),
            rank=int(rank[n]),
            battles=round(float(battles[n])),
            flags=flags[n],
        )
        for n, model in enumerate(models)
    ]
    return sorted(rows, key=lambda row: (-row.rating, row.model))


def battles_of(pairs: Numbers, counts: Matrix, models: int) -> Vector:
    """Battles (models,) of each model."""
    games = counts.sum(axis=1)
    return np.asarray(np.bincount(pairs[:, 0], games, models) + np.bincount(pairs[:, 1], games, models))


def board_flags(pairs: Numbers, counts: Matrix, group: Labels, core: Mask, no_anchor: bool) -> list[list[str]]:
    """Why the rating of each model may mislead; see `Rating.flags`."""
    models = len(group)
    first, second = pairs.T
    won = np.bincount(first, counts[:, WON], models) + np.bincount(second, counts[:, LOST], models)
    lost = np.bincount(first, counts[:, LOST], models) + np.bincount(second, counts[:, WON], models)
    tied = np.bincount(first, counts[:, TIED], models) + np.bincount(second, counts[:, TIED], models)
    marks = {
        "few_battles": won + lost + tied < FEW_BATTLES,
        "only_wins": lost + tied == 0,
        "only_losses": won + tied == 0,
        "unbounded": ~core,
        "separate_group": group != 0,
        "anchor_missing": np.full(models, no_anchor),
    }
    return [[name for name, holds in marks.items() if holds[n]] for n in range(models)]
