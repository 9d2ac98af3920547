"""Bradley-Terry by maximum likelihood on aggregated counts (VisionArena eq. 1; ties are half a win each).

The probability that model i beats model j is 1 / (1 + exp(s_j - s_i)) for log-strengths s. Newton's method on the
counts of every ordered pair finds the optimum whatever the number of votes.
"""

import numpy as np
import numpy.typing as npt
from scipy.sparse.csgraph import connected_components

Matrix = npt.NDArray[np.float64]
Vector = npt.NDArray[np.float64]

SCALE = 400 / np.log(10)
"""Rating points for each unit of log-strength: 400 points are odds of ten to one."""
CENTRE = 1000.0
_STEPS_MAX = 100
_GRADIENT_MAX = 1e-10
_PRIOR_GAMES = 0.5
"""Wins and losses against an average model that a slice without a finite optimum is given."""


def win_matrix(first: npt.NDArray[np.int64], second: npt.NDArray[np.int64], score: Vector, models: int) -> Matrix:
    """Wins of row over column, float64 (models, models), from votes.

    `first` and `second` are model numbers, int64 (votes,); `score` is what the first one got: 1, 0.5 or 0.
    """
    wins: Matrix = np.bincount(first * models + second, score, models * models).astype(np.float64)
    wins += np.bincount(second * models + first, 1 - score, models * models)
    return wins.reshape(models, models)


def log_strengths(wins: Matrix) -> Matrix:
    """Maximum-likelihood log-strengths float64 (…, models) of win matrices (…, models, models).

    Their mean is zero in every group of models that battles connect. Where the optimum is not finite (a model
    only wins or only loses; see `degenerate`) every model of that matrix is given half a win and half a loss
    against an average one.
    """
    batch = wins.reshape(-1, *wins.shape[-2:])
    prior = np.array([_PRIOR_GAMES if degenerate(each) else 0.0 for each in batch])
    member = np.stack([groups(each) for each in batch])
    together = (member[:, :, None] == member[:, None, :]).astype(np.float64)
    strengths = np.zeros(batch.shape[:2])
    games = batch + batch.transpose(0, 2, 1)
    for _ in range(_STEPS_MAX):
        gradient, hessian = _derivatives(batch, games, strengths, prior)
        hessian += together  # strengths are known up to a constant for each group; this fixes their sums
        if np.abs(gradient).max(initial=0) <= _GRADIENT_MAX * max(1.0, games.sum(axis=(1, 2)).max(initial=0)):
            break
        step = np.linalg.solve(hessian, gradient[..., None])[..., 0]
        strengths += np.clip(step, -2, 2)
    strengths -= (together @ strengths[..., None])[..., 0] / together.sum(axis=2)
    return strengths.reshape(wins.shape[:-1])


def _derivatives(wins: Matrix, games: Matrix, strengths: Matrix, prior: Vector) -> tuple[Matrix, Matrix]:
    """Gradient (batch, models) and negated Hessian (batch, models, models) of the log-likelihood."""
    chance = _logistic(strengths[:, :, None] - strengths[:, None, :])
    average = _logistic(strengths)
    gradient = (wins - games * chance).sum(axis=2) + prior[:, None] * (1 - 2 * average)
    curvature = games * chance * (1 - chance)
    hessian = -curvature
    diagonal = np.arange(wins.shape[1])
    hessian[:, diagonal, diagonal] += curvature.sum(axis=2) + 2 * prior[:, None] * average * (1 - average)
    return gradient, hessian


def _logistic(x: Matrix) -> Matrix:
    return 1 / (1 + np.exp(-x))


def degenerate(wins: Matrix) -> bool:
    """Whether the likelihood has no finite optimum: wins do not lead from every model of a group to every other.

    Ford, "Solution of a ranking problem from binary comparisons" (1957).
    """
    strong = connected_components(wins > 0, directed=True, connection="strong")[0]
    return bool(strong > groups(wins).max(initial=0) + 1)


def groups(wins: Matrix) -> npt.NDArray[np.int32]:
    """int32 (models,): models with equal numbers are connected by battles; ratings of others cannot be compared."""
    return np.asarray(connected_components((wins + wins.T) > 0, directed=False)[1], np.int32)


def ratings(strengths: Matrix, anchor: int | None = None, anchor_rating: float = CENTRE) -> Matrix:
    """Log-strengths (…, models) on the rating scale: mean 1000, or the anchor at its rating."""
    scaled = SCALE * strengths
    if anchor is None:
        zero, at = scaled.mean(axis=-1, keepdims=True), CENTRE
    else:
        zero, at = scaled[..., [anchor]], anchor_rating
    return np.asarray(scaled - zero + at)
