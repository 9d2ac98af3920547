"""Votes -> one leaderboard: ratings, intervals, ranks and what may mislead."""

import numpy as np

from schemas.errors import BadInput, known_values
from schemas.rating import Rating
from tasks.rate.bradley_terry import Matrix, Vector, groups, log_strengths, ratings, win_matrix
from tasks.rate.intervals import bootstrap_strengths, interval95, rank_upper_bound
from tasks.rate.votes import Votes

FEW_BATTLES = 100
"""Boards mark models with fewer battles, as VisionArena Fig. 7 does."""


def leaderboard(
    votes: Votes,
    slice_name: str,
    *,
    bootstraps: int = 100,
    seed: int = 0,
    anchor_model: str | None = None,
    anchor_rating: float = 1000.0,
) -> list[Rating]:
    """Ratings of every model in the votes, best first; empty when there are no votes.

    Raises BadInput when the anchor is not among the models.
    """
    if not len(votes.score):
        return []
    anchor = _anchor(votes.models, anchor_model)
    count = len(votes.models)
    wins = win_matrix(votes.first, votes.second, votes.score, count)
    codes = np.stack([votes.first, votes.second, (2 * votes.score).astype(np.int64)], axis=1)
    cells, counts = np.unique(codes, axis=0, return_counts=True)
    samples = bootstrap_strengths(cells, counts.astype(np.float64), count, bootstraps, seed)
    point = ratings(log_strengths(wins), anchor, anchor_rating)
    low, high = interval95(ratings(samples, anchor, anchor_rating))
    return board(votes.models, slice_name, point, low, high, wins)


def board(models: list[str], slice_name: str, point: Vector, low: Vector, high: Vector, wins: Matrix) -> list[Rating]:
    """Rows of a leaderboard, best first, from ratings, intervals and the win matrix."""
    games = (wins + wins.T).sum(axis=1)
    apart = groups(wins)
    rank = rank_upper_bound(low, high, apart)
    largest = np.bincount(apart).argmax()
    rows = [
        Rating(
            slice=slice_name,
            model=models[n],
            rating=float(point[n]),
            ci95_low=float(low[n]),
            ci95_high=float(high[n]),
            rank=int(rank[n]),
            battles=round(float(games[n])),
            flags=_flags(wins, n, games[n], apart[n] != largest),
        )
        for n in range(len(models))
    ]
    return sorted(rows, key=lambda row: (-row.rating, row.model))


def _flags(wins: Matrix, model: int, games: float, apart: bool) -> list[str]:
    marks = {
        "few_battles": games < FEW_BATTLES,
        "only_wins": wins[:, model].sum() == 0,
        "only_losses": wins[model].sum() == 0,
        "separate_group": apart,
    }
    return [name for name, holds in marks.items() if holds]


def _anchor(models: list[str], anchor_model: str | None) -> int | None:
    if anchor_model is None:
        return None
    if anchor_model not in models:
        raise BadInput(f"anchor model {known_values(anchor_model, models)}")
    return models.index(anchor_model)
