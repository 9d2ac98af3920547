"""The joint fit of log-strengths and style coefficients on votes (VisionArena eq. 2), with a ridge penalty."""

from dataclasses import dataclass

import numpy as np

from tasks.rate.style_sums import (
    StyledVotes,
    derivatives,
    drawn_votes,
    gradient_of,
    information,
    residual_and_curvature,
    towards_parameters,
)
from tasks.rate.votes import Matrix, Vector

_STEPS_MAX = 200
_NEAR = 0.02
"""So short a way changes the Hessian little."""
_BOOTSTRAP_TOLERANCE = 1e-7
"""A fifty-thousandth of a rating point, of intervals that are known to about one."""
_CAREFUL = 0.5


@dataclass(frozen=True)
class Ridge:
    """Weights of the penalty: half of each times the sum of squares."""

    strengths: float
    coefficients: float


def fit(data: StyledVotes, ridge: Ridge, start: Vector | None = None, tolerance: float = 1e-9) -> Vector:
    """Parameters float64 (models + covariates,) that maximise the penalised likelihood.

    The ridge makes the optimum finite and unique. The Hessian of a short step serves the next ones too; the error
    after a step is about the step times the way gone since the Hessian was taken, and ends below `tolerance`.
    """
    penalty = _penalty(data, ridge)
    parameters = np.zeros(len(penalty)) if start is None else start.copy()
    hessian, gone = np.diag(penalty), np.inf
    for _ in range(_STEPS_MAX):
        if gone > _NEAR:
            gradient, hessian = derivatives(data, parameters)
            hessian, gone = hessian + np.diag(penalty), 0.0
        else:
            gradient = gradient_of(data, parameters)
        step = np.asarray(np.linalg.solve(hessian, gradient - penalty * parameters), np.float64)
        size = np.abs(step)
        reach = 2 * float(size.max())
        swing = 2 * size[: data.models].max() + size[data.models :] @ data.furthest  # the most any log-odds change
        parameters += step if swing < _CAREFUL else step * np.log1p(swing) / swing
        gone += reach
        if reach * gone < tolerance:
            break
    return parameters


def bootstrap_fits(data: StyledVotes, ridge: Ridge, point: Vector, rounds: int, seed: int) -> Matrix:
    """Parameters float64 (rounds, models + covariates) of votes drawn with replacement; NaN for models not drawn.

    Each fit starts where one step with the curvature at `point` leads.
    """
    generator = np.random.Generator(np.random.SFC64(seed))
    votes, penalty = len(data.score), _penalty(data, ridge)
    residual, curvature = residual_and_curvature(data, point)
    bread = np.linalg.inv(information(data, curvature) + np.diag(penalty))
    fits = np.empty((rounds, len(point)))
    for number in range(rounds):
        times = np.bincount(generator.integers(0, votes, votes), minlength=votes)
        drawn = drawn_votes(data, times)
        pull = residual * times
        step = bread @ (
            towards_parameters(data, np.add.reduceat(pull, data.starts), data.style @ pull) - penalty * point
        )
        guess = point + step if np.abs(step).max() < 1 else point
        fits[number] = fit(drawn, ridge, guess, _BOOTSTRAP_TOLERANCE)
        absent = np.bincount(drawn.pairs.ravel(), minlength=data.models) == 0
        fits[number, : data.models][absent] = np.nan
    return fits


def sandwich(data: StyledVotes, ridge: Ridge, point: Vector) -> Matrix:
    """Covariance float64 (parameters, parameters): H^-1 (sum of g g') H^-1, g the gradient of one vote."""
    residual, curvature = residual_and_curvature(data, point)
    bread = np.linalg.inv(information(data, curvature) + np.diag(_penalty(data, ridge)))
    return np.asarray(bread @ information(data, residual**2) @ bread)


def _penalty(data: StyledVotes, ridge: Ridge) -> Vector:
    return np.repeat([ridge.strengths, ridge.coefficients], [data.models, len(data.style)])
