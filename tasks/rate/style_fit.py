"""The joint fit of log-strengths and style coefficients on votes (VisionArena eq. 2), with a ridge penalty."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tasks.rate.poisson import nearly_all, resampled_times
from tasks.rate.style_sums import InformationSums, StyledVotes, Times, derivatives, linear_sums
from tasks.rate.votes import Mask, Matrix, Vector

_STEPS_MAX = 200
_NEAR = 0.02
"""So short a way changes the Hessian little."""
_SINGLE = 1e-3
"""As far from a Hessian as its single precision is taken to be worth."""
_BOOTSTRAP_TOLERANCE = 1e-7
"""A fifty-thousandth of a rating point, of intervals that are known to about one."""
_CAREFUL = 0.5
_DRAWN_TOGETHER = 50
"""Rounds that are fitted together: enough that reading a vote costs little, few enough that memory stays small."""


@dataclass(frozen=True)
class Ridge:
    """Weights of the penalty: half of each times the sum of squares."""

    strengths: float
    coefficients: float


def fit(data: StyledVotes, ridge: Ridge, start: Vector | None = None) -> Vector:
    """Parameters float64 (models + covariates,) that maximise the penalised likelihood; the ridge makes them unique."""
    guess = np.zeros(len(_penalty(data, ridge))) if start is None else start
    once = np.ones((1, len(data.pair)), np.uint8)
    won = linear_sums(data, once, data.score[None])[0]
    return np.asarray(fits(data, ridge, once, won, guess[None], 1e-9)[0])


def fits(data: StyledVotes, ridge: Ridge, times: Times, won: Matrix, start: Matrix, tolerance: float) -> Matrix:
    """Parameters float64 (rounds, models + covariates) of the votes of each round, by Newton's method.

    The Hessian of a short step serves the next ones too; the error after a step is about the step times the way
    gone since the Hessian was taken, and ends below `tolerance`. Steps with a Hessian are taken in single precision,
    the last ones never.
    """
    found, penalty = start.copy(), _penalty(data, ridge)
    left, gone = np.arange(len(start)), np.full(len(start), np.inf)  # rounds that are not done yet
    hessians = np.empty(0)
    for _ in range(_STEPS_MAX):
        curved = bool((gone > _NEAR).any())
        gradients, fresh = derivatives(data.single if curved else data, times, won, found[left], curved)
        if fresh is not None:
            hessians, gone = fresh + np.diag(penalty), np.full(len(left), _SINGLE)
        steps = np.linalg.solve(hessians, (gradients - penalty * found[left])[..., None])[..., 0]
        size = np.abs(steps)
        reach = 2 * size.max(axis=1)
        # The most any log-odds change. A step is scaled by log(1 + r) / r, which never overshoots.
        swing = 2 * size[:, : data.models].max(axis=1) + size[:, data.models :] @ data.furthest
        scale = np.where(swing < _CAREFUL, 1.0, np.log1p(swing) / np.maximum(swing, _CAREFUL))
        found[left] += steps * scale[:, None]
        gone += reach
        more = curved | (reach * gone >= tolerance)
        if not more.any():
            break
        if not more.all():
            left, gone, hessians, times, won = (each[more] for each in (left, gone, hessians, times, won))
    return found


def bootstrap_fits(data: StyledVotes, ridge: Ridge, point: Vector, rounds: int, seed: int) -> Matrix:
    """Parameters float64 (rounds, models + covariates) of votes drawn with replacement; NaN for models not drawn.

    Each fit starts where one step with the curvature at `point` leads.
    """
    penalty = _penalty(data, ridge)
    tangent = _tangent(data, point)
    bread = np.linalg.inv(_information(data, (1 - tangent**2) / 4) + np.diag(penalty))
    found = []
    for times in draws(len(data.pair), rounds, seed):
        won, expected = linear_sums(data, times, np.stack([data.score, tangent]))
        steps = ((won - expected) / 2 - penalty * point) @ bread
        near = np.abs(steps).max(axis=1, keepdims=True) < 1
        parameters = fits(data, ridge, times, won, np.where(near, point + steps, point), _BOOTSTRAP_TOLERANCE)
        parameters[:, : data.models][~_drawn_models(data, times)] = np.nan
        found.append(parameters)
    return np.concatenate(found)


def _drawn_models(data: StyledVotes, times: Times) -> Mask:
    """Bool (rounds, models): whether any vote on the model was drawn."""
    starts = np.flatnonzero(np.diff(data.pair, prepend=-1))
    most = np.maximum.reduceat(times, starts, axis=1)
    return np.asarray(most.astype(np.float64) @ abs(data.ends).T > 0)


def draws(votes: int, rounds: int, seed: int) -> Iterator[Times]:
    """How often each vote was drawn, some rounds at a time."""
    generator, counts = np.random.Generator(np.random.SFC64(seed)), nearly_all(votes)
    for first in range(0, rounds, _DRAWN_TOGETHER):
        many = min(_DRAWN_TOGETHER, rounds - first)
        yield np.stack([resampled_times(generator, counts, votes) for _ in range(many)])


def sandwich(data: StyledVotes, ridge: Ridge, point: Vector) -> Matrix:
    """Covariance float64 (parameters, parameters): H^-1 (sum of g g') H^-1, g the gradient of one vote."""
    tangent = _tangent(data, point)
    bread = np.linalg.inv(_information(data, (1 - tangent**2) / 4) + np.diag(_penalty(data, ridge)))
    return np.asarray(bread @ _information(data, data.weight * (data.score - tangent) ** 2 / 4) @ bread)


def _tangent(data: StyledVotes, point: Vector) -> Vector:
    """Of every vote (votes,): twice its chance less 1, which is tanh(log-odds / 2)."""
    strengths = point[: data.models]
    gap = strengths[data.pairs[:, 0]] - strengths[data.pairs[:, 1]]
    return np.tanh((gap[data.pair] + point[data.models :] @ data.style) / 2)


def _information(data: StyledVotes, value: Vector) -> Matrix:
    """float64 (parameters, parameters): the sum of weight value x x' over votes."""
    sums = InformationSums(data, 1)
    for block in data.blocks(1):
        sums.add(block, value[block.votes, None])
    return np.asarray(sums.matrices()[0])


def _penalty(data: StyledVotes, ridge: Ridge) -> Vector:
    return np.repeat([ridge.strengths, ridge.coefficients], [data.models, len(data.style)])
