"""95 % intervals: by bootstrap (votes drawn again and fitted again) or by the sandwich; and ranks that respect them."""

from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import minimum_spanning_tree

from tasks.rate.bradley_terry import log_strengths, logistic, wins_and_games
from tasks.rate.connected import Labels
from tasks.rate.votes import LOST, TIED, WON, Matrix, Numbers, Vector

NORMAL95 = 1.959963984540054
"""97.5 % quantile of the normal distribution."""
_SPARSE = 6
"""Below so many votes a cell, drawing votes is faster than drawing the counts of cells."""


def resampled(counts: Matrix, rounds: int, seed: int) -> Iterator[Matrix]:
    """Counts (pairs, 3) of as many votes drawn with replacement, round by round.

    Counts of resampled votes are multinomial, so cells are drawn instead of votes where that is less work.
    """
    generator = np.random.Generator(np.random.SFC64(seed))
    flat = counts.ravel()
    cells = np.flatnonzero(flat)
    held = flat[cells].astype(np.int64)
    total, starts = int(held.sum()), np.cumsum(held) - held
    for _ in range(rounds):
        drawn = np.zeros(len(flat))
        if total < _SPARSE * len(cells):
            times = np.bincount(generator.integers(0, total, total), minlength=total)  # votes in the order of cells
            drawn[cells] = np.add.reduceat(times, starts)
        else:
            drawn[cells] = generator.multinomial(total, held / total)
        yield drawn.reshape(counts.shape)


def bootstrap_strengths(pairs: Numbers, counts: Matrix, point: Vector, rounds: int, seed: int) -> Matrix:
    """Log-strengths float64 (rounds, models) of resampled votes; NaN where a model was in none of a round's.

    Each fit starts where one step with the curvature at `point` leads.
    """
    models, known = len(point), np.nan_to_num(point)
    chance = logistic(known[pairs[:, 0]] - known[pairs[:, 1]])
    bread = _bread(pairs, counts, chance, models)
    spine = _spine(pairs, counts, models)
    samples = np.empty((rounds, models))
    for number, drawn in enumerate(resampled(counts, rounds, seed)):
        wins, games = wins_and_games(drawn)
        residual = wins - games * chance
        step = bread @ (np.bincount(pairs[:, 0], residual, models) - np.bincount(pairs[:, 1], residual, models))
        guess = known + step if np.abs(step).max() < 1 else known
        samples[number] = log_strengths(pairs, drawn, models, guess, connected=_holds(spine, drawn, models))
    return samples


def _spine(pairs: Numbers, counts: Matrix, models: int) -> Numbers:
    """Pairs that connect all models both ways, with as many votes each way as can be; fewer where none do.

    They are the maximum spanning tree. While each of them has votes both ways, nothing has come apart.
    """
    both_ways = np.minimum(counts[:, WON], counts[:, LOST]) + counts[:, TIED]
    used = np.flatnonzero(both_ways)
    cost = csr_array((1 / both_ways[used], (pairs[used, 0], pairs[used, 1])), shape=(models, models), dtype=np.float32)
    tree = minimum_spanning_tree(cost).tocoo()
    return np.flatnonzero(np.isin(pairs @ [models, 1], tree.coords[0].astype(np.int64) * models + tree.coords[1]))


def _holds(spine: Numbers, drawn: Matrix, models: int) -> bool:
    """Whether the pairs of the spine have votes both ways, and so keep all models strongly connected."""
    votes = drawn[spine]
    both_ways = np.minimum(votes[:, WON], votes[:, LOST]) + votes[:, TIED]
    return len(spine) == models - 1 and bool(both_ways.all())


def interval95(samples: Matrix, point: Vector) -> tuple[Vector, Vector]:
    """2.5 % and 97.5 % quantiles over the rounds (first axis) that have a value; the point where none has."""
    unknown = np.isnan(samples)
    if not unknown.any():
        low, high = np.quantile(samples, [0.025, 0.975], axis=0)
        return low, high
    filled = np.where(unknown.all(axis=0), point, samples)
    low, high = np.nanquantile(filled, [0.025, 0.975], axis=0)
    return low, high


def sandwich_covariance(pairs: Numbers, counts: Matrix, point: Vector) -> Matrix:
    """Covariance float64 (models, models) of log-strengths with mean zero in each group: H^-1 (sum of g g') H^-1.

    Holds when battles do not follow the model exactly (White, "Maximum likelihood estimation of misspecified
    models", 1982); g is the gradient of one vote.
    """
    known = np.nan_to_num(point)
    chance = logistic(known[pairs[:, 0]] - known[pairs[:, 1]])
    squares = counts[:, LOST] * chance**2 + counts[:, TIED] * (0.5 - chance) ** 2 + counts[:, WON] * (1 - chance) ** 2
    bread = _bread(pairs, counts, chance, len(point))
    return np.asarray(bread @ laplacian(pairs, squares, len(point)) @ bread)


def _bread(pairs: Numbers, counts: Matrix, chance: Vector, models: int) -> Matrix:
    """float64 (models, models): the inverse Hessian, of strengths with mean zero in each group."""
    curvature = counts.sum(axis=1) * chance * (1 - chance)
    return np.asarray(np.linalg.pinv(laplacian(pairs, curvature, models), hermitian=True))


def laplacian(pairs: Numbers, weight: Vector, models: int) -> Matrix:
    """float64 (models, models): the sum of weight (e_i - e_j)(e_i - e_j)' over pairs."""
    first, second = pairs.T
    matrix = np.zeros((models, models))
    matrix[first, second] = matrix[second, first] = -weight
    at = np.arange(models)
    matrix[at, at] = np.bincount(first, weight, models) + np.bincount(second, weight, models)
    return matrix


def placed_deviation(covariance: Matrix, group: Labels, anchor: int | None = None) -> Vector:
    """Standard deviation (models,) of strengths after their group's mean, or the anchor, has been fixed."""
    models = len(group)
    shift = np.zeros((models, models))
    for number in range(group.max(initial=-1) + 1):
        members = np.flatnonzero(group == number)
        if anchor is not None and group[anchor] == number:
            shift[members, anchor] = 1
        else:
            shift[np.ix_(members, members)] = 1 / len(members)
    placed = (np.eye(models) - shift) @ covariance @ (np.eye(models) - shift).T
    return np.asarray(np.sqrt(placed.diagonal().clip(0)))


def rank_upper_bound(low: Vector, high: Vector, group: Labels) -> Numbers:
    """1 + number of models whose interval lies wholly above one's own (FastChat's final_ranking).

    Models that no battles connect (different `group`) are not ranked against each other.
    """
    comparable = group[None, :] == group[:, None]
    ranks: Numbers = 1 + ((low[None, :] > high[:, None]) & comparable).sum(axis=1)
    return ranks
