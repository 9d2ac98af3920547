"""Bootstrap intervals of ratings: votes drawn again, with their multinomial counts, and fitted again."""

import numpy as np
import numpy.typing as npt

from tasks.rate.bradley_terry import Matrix, Vector, log_strengths

ROUNDS_AT_ONCE = 64


def resampled_wins(cells: npt.NDArray[np.int64], counts: Vector, models: int, rounds: int, seed: int) -> Matrix:
    """Win matrices float64 (rounds, models, models) of resampled votes.

    `cells` int64 (cells, 3) holds first model, second model and twice the first one's score (2, 1, 0); `counts`
    how many votes fell there. Drawing the counts is the same as drawing the votes one by one.
    """
    generator = np.random.default_rng(seed)
    total = round(float(counts.sum()))
    drawn = generator.multinomial(total, counts / counts.sum(), rounds).astype(np.float64)
    first, second, score = cells[:, 0], cells[:, 1], cells[:, 2] / 2
    wins = np.zeros((rounds, models * models))
    for row, votes in zip(wins, drawn, strict=True):
        row += np.bincount(first * models + second, votes * score, models * models)
        row += np.bincount(second * models + first, votes * (1 - score), models * models)
    return wins.reshape(rounds, models, models)


def bootstrap_strengths(cells: npt.NDArray[np.int64], counts: Vector, models: int, rounds: int, seed: int) -> Matrix:
    """Log-strengths float64 (rounds, models), mean zero, of resampled votes."""
    wins = resampled_wins(cells, counts, models, rounds, seed)
    return np.concatenate([log_strengths(wins[at : at + ROUNDS_AT_ONCE]) for at in range(0, rounds, ROUNDS_AT_ONCE)])


def interval95(samples: Matrix) -> tuple[Vector, Vector]:
    """2.5 % and 97.5 % quantiles over the first axis."""
    low, high = np.quantile(samples, [0.025, 0.975], axis=0)
    return low, high


def rank_upper_bound(low: Vector, high: Vector, group: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """1 + number of models whose interval lies wholly above one's own (FastChat's final_ranking).

    Models that no battles connect (different `group`) are not ranked against each other.
    """
    comparable = group[None, :] == group[:, None]
    ranks: npt.NDArray[np.int64] = 1 + ((low[None, :] > high[:, None]) & comparable).sum(axis=1)
    return ranks
