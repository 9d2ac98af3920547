"""95 % intervals, by sandwich covariance (the default) or bootstrap, and ranks from the intervals of differences."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import expit, log_expit

from schemas.rating import FEW_VOTES
from tasks.leaderboard.bradley_terry import Fixed, Structure, laplacian, log_strengths
from tasks.leaderboard.votes import Mask, Matrix, Numbers, Vector, Votes

NORMAL95 = 1.959963984540054
"""97.5 % quantile of the normal distribution."""
_UNSEEN = 3
"""Decisive votes, at even odds, that are added to a board before its ties are counted: where n votes are all ties, a
share of 3 / n may be decisive (rule of three: Hanley and Lippman-Hand 1983)."""
_DROP95 = NORMAL95**2 / 2
"""Drop of the log-likelihood from its maximum to the ends of a 95 % profile-likelihood interval."""
_FAR = 60.0
"""Log-odds beyond which a probability is 0 or 1 in double precision."""


def draws(votes: Votes, rounds: int, seed: int) -> Iterator[Vector]:
    """Bootstrap samples: float64 (rows,), how many votes of each row were drawn with replacement.

    With clusters, whole clusters are drawn, because votes on one prompt or by one person are not independent (Cameron,
    Gelbach and Miller, "Bootstrap-based improvements for inference with clustered errors", 2008).
    """
    generator = np.random.default_rng(seed)
    for _ in range(rounds):
        if votes.cluster is None:
            total = votes.times.sum()
            yield generator.multinomial(int(total), votes.times / total).astype(np.float64)
        else:
            clusters = int(votes.cluster.max()) + 1
            drawn = np.bincount(generator.integers(0, clusters, clusters), minlength=clusters)
            yield drawn[votes.cluster] * votes.times


def bootstrap_strengths(votes: Votes, point: Vector, rounds: int, seed: int) -> Matrix:
    """Log-strengths float64 (rounds, models) of resampled votes; NaN where a round drew no vote on a model."""
    sums = (votes.sums(times) for times in draws(votes, rounds, seed))
    return np.array([log_strengths(votes.pairs, *drawn, len(point), point) for drawn in sums])


def quantiles95(samples: Matrix, point: Vector) -> tuple[Vector, Vector]:
    """Quantiles at (rounds + 1) p, p = 0.025 and 0.975, over the rounds (first axis), ignoring NaN.

    NumPy's default quantiles give intervals that are too narrow with few rounds (Davison and Hinkley, "Bootstrap
    Methods and their Application", 1997, sec. 5.2). Where all rounds are NaN, both ends are `point`.
    """
    filled = np.where(np.isnan(samples).all(axis=0), point, samples)
    low, high = np.nanquantile(filled, [0.025, 0.975], axis=0, method="weibull")
    return low, high


class Covariances(NamedTuple):
    """Two estimates of the covariance of log-strengths, float64 (models, models)."""

    sandwich: Matrix
    """H^-1 (sum of g g') H^-1, g the gradient of one vote, with the HC1 correction (MacKinnon and White 1985).

    Valid also when battles do not follow the model exactly (White, "Maximum likelihood estimation of misspecified
    models", 1982). Without HC1, intervals from a few hundred votes are too narrow. It is far too small for a model with
    a handful of votes, and 0 for one that only tied."""
    by_model: Matrix
    """The same with the expectation of g g' under the model, times `dispersion` (Wedderburn 1974)."""


def covariances(votes: Votes, point: Vector, core: Mask) -> Covariances:
    """Covariances of the core's log-strengths; 0 for other models."""
    pairs, inside, models = votes.pairs, np.asarray(core[votes.pairs].all(axis=1)), len(point)
    chance = expit(point[pairs[:, 0]] - point[pairs[:, 1]])
    gradient = votes.weight * (votes.score - chance[votes.pair])
    squares = np.asarray(inside * np.bincount(votes.pair, votes.times * gradient**2, len(pairs)), np.float64)
    curvature = laplacian(pairs, inside * votes.sums()[1] * chance * (1 - chance), models)
    bread = np.linalg.pinv(curvature, hermitian=True)
    expected = inside * np.bincount(votes.pair, votes.times * votes.weight**2, len(pairs)) * chance * (1 - chance)
    count = votes.number(inside[votes.pair])
    return Covariances(
        bread @ laplacian(pairs, squares, models) @ bread * few_votes_factor(count, core.sum() - 1),
        bread @ laplacian(pairs, expected, models) @ bread * dispersion(squares, expected),
    )


def dispersion(squares: Vector, expected: Vector) -> float:
    """Squared residuals of a board's votes over those that the model expects of votes that never tie."""
    added = _UNSEEN / 4
    return float((squares.sum() + added) / (expected.sum() + added))


def few_votes_factor(votes: float, parameters: int) -> float:
    """HC1 factor of a covariance: n / (n - p), at most 2."""
    return float(votes / max(votes - parameters, votes / 2, 1))


def doubtful(votes: Votes) -> Mask:
    """Models, bool (models,), whose sandwich is too small: under `FEW_VOTES` votes, or no vote but ties."""
    return (votes.battles() < FEW_VOTES) | only_ties(votes)


def only_ties(votes: Votes) -> Mask:
    """Models, bool (models,), of whose votes none prefers a side."""
    decided = np.repeat(votes.weight * np.abs(votes.score - 0.5), 2)
    return np.asarray(np.bincount(votes.pairs[votes.pair].ravel(), decided, len(votes.models)) == 0)


def placed_deviation(covariance: Matrix, groups: Fixed) -> Vector:
    """Standard deviation (models,) of strengths, given that the mean of each group's fixed models is known."""
    models = len(covariance)
    shift = np.zeros((models, models))
    for members, fixed in groups:
        shift[np.ix_(members, fixed)] = 1 / len(fixed)
    placed = (np.eye(models) - shift) @ covariance @ (np.eye(models) - shift).T
    return np.asarray(np.sqrt(placed.diagonal().clip(0)))


def open_intervals(
    ends: Numbers, wins: Vector, games: Vector, extra: Vector, strengths: Vector, structure: Structure
) -> tuple[Vector, Vector]:
    """Lower and upper ends (models,) of log-strengths outside the core; NaN for an infinite end and for core models.

    The finite end is that of the profile likelihood with all other strengths fixed. Row i of `ends` (rows, 2) names two
    models; the first won `wins[i]` of `games[i]` battles, and `extra[i]` is added to its log-odds.
    """
    low, high = np.full((2, len(strengths)), np.nan)
    log_odds = strengths[ends[:, 0]] - strengths[ends[:, 1]] + extra
    for model in np.flatnonzero(~structure.core & (structure.group >= 0)):
        sign = (ends[:, 0] == model).astype(np.float64) - (ends[:, 1] == model)
        met = np.flatnonzero(sign)
        offset, won = sign[met] * log_odds[met] - strengths[model], np.where(sign > 0, wins, games - wins)[met]
        if structure.bounded_below[model]:
            low[model] = _profile_end(offset, won, games[met], -1)
        if structure.bounded_above[model]:
            high[model] = _profile_end(offset, won, games[met], 1)
    return low, high


def _profile_end(offset: Vector, wins: Vector, games: Vector, side: int) -> float:
    """The lower (side -1) or upper (1) strength where the log-likelihood is `_DROP95` below its maximum."""
    from scipy.optimize import brentq  # slow to load

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


def difference_deviation(covariance: Matrix) -> Matrix:
    """Standard deviation (models, models) of the difference of every two strengths."""
    variance = covariance.diagonal()
    return np.asarray(np.sqrt((variance[:, None] + variance[None, :] - 2 * covariance).clip(0)))


def sampled_leads(samples: Matrix, point: Vector) -> Matrix:
    """Lower ends (models, models) of the 95 % interval of each model's lead over each other one, by bootstrap.

    `samples` (rounds, models) of strengths or scores, `point` (models,) the same of all votes.
    """
    least = np.zeros((len(point), len(point)))
    for model in range(len(point) - 1):
        others = np.arange(model + 1, len(point))
        low, high = quantiles95(samples[:, [model]] - samples[:, others], point[model] - point[others])
        least[model, others], least[others, model] = low, -high
    return least


def wilson95(share: Vector, count: Vector) -> tuple[Vector, Vector]:
    """Wilson's 95 % interval (models,) of a share of `count` votes (Wilson 1927)."""
    square = NORMAL95**2 / np.maximum(count, 1)
    middle = (share + square / 2) / (1 + square)
    half = np.sqrt(square * share * (1 - share) + square**2 / 4) / (1 + square)
    return (middle - half).clip(0, 1), (middle + half).clip(0, 1)


def ranks(leads: Matrix, group: Numbers, core: Mask) -> list[int | None]:
    """1 + the number of models that are clearly better: the 95 % interval of their lead over the model is above 0.

    `leads` (models, models): lower ends of these intervals, a row for the leader. Models outside the core have no rank
    and do not affect other ranks. Models in different groups are not compared.
    """
    comparable = (group[:, None] == group[None, :]) & core[:, None]
    above = ((leads > 0) & comparable).sum(axis=0)
    return [1 + int(count) if inside else None for count, inside in zip(above, core, strict=True)]
