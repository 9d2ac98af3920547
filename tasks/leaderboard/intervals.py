"""95 % intervals, by the sandwich (the default) or by bootstrap, and ranks that respect them."""

from collections.abc import Iterator

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, log_expit

from tasks.leaderboard.bradley_terry import fixed_models, laplacian, log_strengths
from tasks.leaderboard.connected import Structure
from tasks.leaderboard.votes import LOST, TIED, WON, Mask, Matrix, Numbers, Vector

NORMAL95 = 1.959963984540054
"""97.5 % quantile of the normal distribution."""
_DROP95 = NORMAL95**2 / 2
"""How far the log-likelihood falls from its maximum to the ends of a 95 % profile-likelihood interval."""
_FAR = 60.0
"""Log-odds beyond which a chance is 0 or 1 in double precision."""


def resampled(counts: Matrix, rounds: int, seed: int) -> Iterator[Matrix]:
    """Counts (pairs, 3) of as many votes drawn with replacement, round by round: these are multinomial."""
    generator = np.random.default_rng(seed)
    total = int(counts.sum())
    for _ in range(rounds):
        yield generator.multinomial(total, counts.ravel() / counts.sum()).reshape(counts.shape).astype(np.float64)


def bootstrap_strengths(pairs: Numbers, counts: Matrix, point: Vector, rounds: int, seed: int) -> Matrix:
    """Log-strengths float64 (rounds, models) of resampled votes; NaN where a model was in none of a round's."""
    rounds_of_counts = resampled(counts, rounds, seed)
    return np.array([log_strengths(pairs, drawn, len(point), point) for drawn in rounds_of_counts])


def quantiles95(samples: Matrix, point: Vector) -> tuple[Vector, Vector]:
    """Quantiles at (rounds + 1) p, p = 0.025 and 0.975, over the rounds (first axis) that have a value.

    The quantiles that NumPy takes by default are too narrow by about one in a hundred rounds (Davison and Hinkley,
    "Bootstrap Methods and their Application", 1997, sec. 5.2). Where no round has a value, the point.
    """
    filled = np.where(np.isnan(samples).all(axis=0), point, samples)
    low, high = np.nanquantile(filled, [0.025, 0.975], axis=0, method="weibull")
    return low, high


def sandwich_covariance(pairs: Numbers, counts: Matrix, point: Vector, core: Mask) -> Matrix:
    """Covariance float64 (models, models) of the core's log-strengths: H^-1 (sum of g g') H^-1; 0 for other models.

    Holds when battles do not follow the model exactly (White, "Maximum likelihood estimation of misspecified
    models", 1982); g is the gradient of one vote. Their number less that of parameters divides, as in HC1 (MacKinnon
    and White 1985): without it intervals of a few hundred votes are too narrow.
    """
    inside = core[pairs].all(axis=1)
    pairs, counts = pairs[inside], counts[inside]
    votes, models = counts.sum(), len(point)
    chance = expit(point[pairs[:, 0]] - point[pairs[:, 1]])
    squares = counts[:, LOST] * chance**2 + counts[:, TIED] * (0.5 - chance) ** 2 + counts[:, WON] * (1 - chance) ** 2
    curvature = laplacian(pairs, counts.sum(axis=1) * chance * (1 - chance), models)
    bread = np.linalg.pinv(curvature, hermitian=True)
    return np.asarray(bread @ laplacian(pairs, squares, models) @ bread * few_votes_factor(votes, core.sum() - 1))


def few_votes_factor(votes: float, parameters: int) -> float:
    """What HC1 multiplies a covariance by: n / (n - p), at most 2."""
    return float(votes / max(votes - parameters, votes / 2, 1))


def placed_deviation(covariance: Matrix, known: Structure, anchor: int | None) -> Vector:
    """Standard deviation (models,) of strengths after the mean of each group's fixed models has been fixed."""
    models = len(known.group)
    shift = np.zeros((models, models))
    for members, fixed in fixed_models(known, anchor):
        shift[np.ix_(members, fixed)] = 1 / len(fixed)
    placed = (np.eye(models) - shift) @ covariance @ (np.eye(models) - shift).T
    return np.asarray(np.sqrt(placed.diagonal().clip(0)))


def open_intervals(
    ends: Numbers, wins: Vector, games: Vector, extra: Vector, strengths: Vector, known: Structure
) -> tuple[Vector, Vector]:
    """Ends (models,) of the log-strengths of models outside the core; NaN for an end that does not exist.

    The finite end is that of the profile likelihood, all other strengths held. Each row of `ends` (rows, 2) has been
    won `wins` of `games` times by its first model; `extra` (rows,) is what else adds to its log-odds.
    """
    low, high = np.full((2, len(strengths)), np.nan)
    log_odds = strengths[ends[:, 0]] - strengths[ends[:, 1]] + extra
    for model in np.flatnonzero(~known.core & (known.group >= 0)):
        sign = (ends[:, 0] == model).astype(np.float64) - (ends[:, 1] == model)
        met = np.flatnonzero(sign)
        offset, won = sign[met] * log_odds[met] - strengths[model], np.where(sign > 0, wins, games - wins)[met]
        if known.bounded_below[model]:
            low[model] = _profile_end(offset, won, games[met], -1)
        if known.bounded_above[model]:
            high[model] = _profile_end(offset, won, games[met], 1)
    return low, high


def _profile_end(offset: Vector, wins: Vector, games: Vector, side: int) -> float:
    """The lower (side -1) or upper (1) strength at which the likelihood of a model's battles has fallen far enough."""

    def likelihood(strength: float) -> float:
        return float(wins @ log_expit(strength + offset) + (games - wins) @ log_expit(-strength - offset))

    def slope(strength: float) -> float:
        return float((wins - games * expit(strength + offset)).sum())

    least, most = -float(offset.max()) - _FAR, -float(offset.min()) + _FAR
    rises, falls = slope(most) >= 0, slope(least) <= 0
    best = most if rises else least if falls else brentq(slope, least, most)
    top = likelihood(best)
    start, end = (least, best) if side < 0 else (best, most)
    return float(brentq(lambda at: top - likelihood(at) - _DROP95, start, end))


def rank_upper_bound(low: Vector, high: Vector, known: Structure) -> list[int | None]:
    """1 + number of models whose interval lies wholly above one's own (FastChat's final_ranking).

    Models outside the core have no rank and count in no other model's. Models that no battles connect are not ranked
    against each other.
    """
    comparable = (known.group[None, :] == known.group[:, None]) & known.core[None, :]
    ranks = 1 + ((low[None, :] > high[:, None]) & comparable).sum(axis=1)
    return [int(rank) if inside else None for rank, inside in zip(ranks, known.core, strict=True)]
