"""Sequential Elo: simple, and dependent on the order of the votes. Kept for comparison with older boards."""

import numpy as np

from schemas.rating import EloRating
from tasks.rate.votes import Votes

_K = 4.0
"""FastChat's."""
_SCALE = 400.0
_START = 1000.0


def elo_ratings(votes: Votes, shuffle_seed: int | None = None, k: float = _K) -> list[EloRating]:
    """Elo ratings after one update a vote, best first; ties and both-bad votes are half a win.

    Votes are taken in their order (online Elo: FastChat, WildVision), or, given a seed, in a random order, as
    VisIT-Bench does. Start 1000; the expectation is 1 / (1 + 10^((r_b - r_a) / 400)).
    """
    order = np.arange(len(votes.pair))
    if shuffle_seed is not None:
        np.random.default_rng(shuffle_seed).shuffle(order)
    ratings = [_START] * len(votes.models)
    ends = votes.pairs[votes.pair[order]].tolist()
    for (first, second), result in zip(ends, votes.result[order].tolist(), strict=True):
        expected = 1 / (1 + 10 ** ((ratings[second] - ratings[first]) / _SCALE))
        change = k * (result / 2 - expected)
        ratings[first] += change
        ratings[second] -= change
    battles = np.bincount(votes.pairs[votes.pair].ravel(), minlength=len(votes.models))
    name = "given" if shuffle_seed is None else "shuffled"
    rows = [
        EloRating(order=name, model=model, rating=ratings[n], battles=int(battles[n]))
        for n, model in enumerate(votes.models)
    ]
    return sorted(rows, key=lambda row: (-row.rating, row.model))
