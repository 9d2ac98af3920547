"""Bradley-Terry with style covariates (VisionArena eq. 2): what is left of a rating when answers look alike.

Each covariate is the normalised difference (a - b) / (a + b + 1) of both sides, then divided by its standard
deviation over the votes, as FastChat's `rating_systems.py` does.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tasks.rate.bradley_terry import Matrix, Vector
from tasks.rate.votes import Votes

COVARIATES = ("tokens", "headers", "list_items", "bold")
_STEPS_MAX = 50
_GRADIENT_MAX = 1e-8
_RIDGE = 1e-3
"""Weight of a wide normal prior that keeps models without a finite rating, and constant covariates, finite."""


@dataclass(frozen=True)
class StyleFit:
    """A joint fit of log-strengths and style coefficients."""

    strengths: Matrix
    """(…, models), mean zero."""
    coefficients: Matrix
    """(…, covariates): change of log-odds for one standard deviation."""


def style_differences(a: Matrix, b: Matrix) -> Matrix:
    """Normalised differences float64 (votes, covariates) of counts (votes, covariates) on both sides.

    A covariate that never differs stays zero instead of becoming undefined.
    """
    difference = (a - b) / (a + b + 1)
    spread = difference.std(axis=0)
    return difference / np.where(spread > 0, spread, 1)


def fit_style(votes: Votes, style: Matrix, bootstraps: int, seed: int) -> tuple[StyleFit, StyleFit]:
    """The fit on all votes, and on `bootstraps` resamples of them."""
    design = _design(votes, style)
    every = np.ones(len(votes.score))
    start = np.zeros(design.shape[1])
    point = _newton(design, votes.score, every, start)
    generator = np.random.default_rng(seed)
    total = len(votes.score)
    resamples = [generator.multinomial(total, every / total).astype(np.float64) for _ in range(bootstraps)]
    samples = np.stack([_newton(design, votes.score, weights, point) for weights in resamples])
    return _split(point, len(votes.models)), _split(samples, len(votes.models))


def _design(votes: Votes, style: Matrix) -> Matrix:
    """float64 (votes, models + covariates): +1 for the first model, -1 for the second, then the covariates."""
    rows = np.arange(len(votes.score))
    models = np.zeros((len(rows), len(votes.models)))
    models[rows, votes.first] = 1
    models[rows, votes.second] = -1
    return np.hstack([models, style])


def _newton(design: Matrix, score: Vector, weights: Vector, start: Vector) -> Vector:
    """Maximiser of the weighted log-likelihood with scores between 0 and 1."""
    parameters = start.copy()
    ridge: npt.NDArray[np.float64] = _RIDGE * np.eye(design.shape[1])
    for _ in range(_STEPS_MAX):
        chance = 1 / (1 + np.exp(-design @ parameters))
        gradient = design.T @ (weights * (score - chance)) - _RIDGE * parameters
        if np.abs(gradient).max() <= _GRADIENT_MAX * len(score):
            break
        curvature = weights * chance * (1 - chance)
        hessian = (design * curvature[:, None]).T @ design + ridge
        parameters += np.clip(np.linalg.solve(hessian, gradient), -2, 2)
    return parameters


def _split(parameters: Matrix, models: int) -> StyleFit:
    strengths = parameters[..., :models]
    return StyleFit(strengths - strengths.mean(axis=-1, keepdims=True), parameters[..., models:])
