"""Bradley-Terry by maximum likelihood on aggregated counts (VisionArena eq. 1; ties are half a win each).

The probability that model i beats model j is 1 / (1 + exp(s_j - s_i)) for log-strengths s. Newton's method on the
counts of every pair finds the optimum whatever the number of votes.

The optimum is finite for models that wins lead from each to each other and back (Ford 1957): the strongly connected
ones. The largest such set in every group of models that battles connect is fitted by itself, exactly. The rest, such
as a model that never lost, has no finite rating; given those of the others, it gets the one that half a win and
half a loss against an average model imply. One such model therefore bends nobody else's rating.
"""

import numpy as np
from scipy.linalg.lapack import dposv

from tasks.rate.connected import Labels, structure
from tasks.rate.votes import TIED, WON, Matrix, Numbers, Vector

SCALE = 400 / np.log(10)
"""Rating points for each unit of log-strength: 400 points are odds of ten to one."""
_STEPS_MAX = 500
_STEP_MIN = 3e-5
"""The error after a Newton step is about its square: 1e-9, a ten-millionth of a rating point."""
_CAREFUL = 0.5
_PRIOR_WINS, _PRIOR_GAMES = 0.5, 1.0


def wins_and_games(counts: Matrix) -> tuple[Vector, Vector]:
    """Wins of the first model, ties counting half, and battles of each pair, from counts (pairs, 3)."""
    return counts[:, WON] + counts[:, TIED] / 2, counts.sum(axis=1)


def log_strengths(
    pairs: Numbers, counts: Matrix, models: int, start: Vector | None = None, *, connected: bool = False
) -> Vector:
    """Log-strengths float64 (models,) of counts (pairs, 3); NaN for models without a battle.

    Their mean is zero in every group of models that battles connect. `start` is a guess that saves steps;
    `connected` says that the models are known to be strongly connected.
    """
    wins, games = wins_and_games(counts)
    guess = np.zeros(models) if start is None else np.nan_to_num(start)
    if connected:
        return _centred(_fit_core(pairs, wins, games, guess))
    group, core = structure(pairs, counts, models)
    if core.all():
        return _centred(_fit_core(pairs, wins, games, guess))
    strengths = np.full(models, np.nan)
    for number in range(group.max(initial=-1) + 1):
        members = group == number
        inside, rest = np.flatnonzero(members & core), np.flatnonzero(members & ~core)
        if len(inside):
            strengths[inside] = _within(pairs, wins, games, inside, guess)
        if len(rest):
            strengths[rest] = _beside(pairs, wins, games, rest, strengths)
        strengths[members] = _centred(strengths[members])
    return strengths


def _within(pairs: Numbers, wins: Vector, games: Vector, inside: Numbers, guess: Vector) -> Vector:
    """Maximum-likelihood strengths of strongly connected models, from their battles with each other."""
    place = np.full(len(guess), -1)
    place[inside] = np.arange(len(inside))
    ends = place[pairs]
    used = (ends >= 0).all(axis=1) & (games > 0)
    return _centred(_fit_core(ends[used], wins[used], games[used], guess[inside]))


def _fit_core(ends: Numbers, wins: Vector, games: Vector, guess: Vector) -> Vector:
    """Strengths of models that are all connected; the last one is the fixed point."""
    free = len(guess) - 1
    shifted = guess - guess[-1]
    return np.append(_climb(ends, np.zeros(len(ends)), wins, games, shifted[:free]), 0.0)


def _beside(pairs: Numbers, wins: Vector, games: Vector, rest: Numbers, fitted: Vector) -> Vector:
    """Strengths of the rest, given those of the fitted, with a prior against an average model of strength 0."""
    place = np.full(len(fitted), len(rest))  # everyone else is the fixed point, at the offset of their strength
    place[rest] = np.arange(len(rest))
    used = ((place[pairs] < len(rest)).any(axis=1)) & (games > 0)
    ends, known = place[pairs[used]], np.nan_to_num(fitted)
    known[rest] = 0
    offset = known[pairs[used, 0]] - known[pairs[used, 1]]
    own = np.arange(len(rest))
    return _climb(
        np.concatenate([ends, np.stack([own, np.full(len(rest), len(rest))], axis=1)]),
        np.concatenate([offset, np.zeros(len(rest))]),
        np.concatenate([wins[used], np.full(len(rest), _PRIOR_WINS)]),
        np.concatenate([games[used], np.full(len(rest), _PRIOR_GAMES)]),
        np.zeros(len(rest)),
    )


def _climb(ends: Numbers, offset: Vector, wins: Vector, games: Vector, start: Vector) -> Vector:
    """Strengths of the free models 0 … n-1 that maximise the likelihood; model n is fixed at 0.

    A step whose largest change of log-odds is r is scaled by log(1 + r) / r, which never overshoots.
    """
    free, (first, second) = len(start), ends.T.copy()
    inner = np.flatnonzero((first < free) & (second < free))
    upper, diagonal = first[inner] + free * second[inner], np.arange(free) * (free + 1)
    strengths = np.append(start, 0.0)
    for _ in range(_STEPS_MAX):
        chance = logistic(strengths[first] - strengths[second] + offset)
        curvature = games * chance * (1 - chance)
        hessian = np.zeros(free * free)
        hessian[upper] = -curvature[inner]
        hessian[diagonal] = _ends_sum(first, second, curvature, free)
        gradient = _ends_sum(first, second, wins - games * chance, free, -1)
        step = np.append(_solve(hessian.reshape(free, free, order="F"), gradient), 0.0)
        reach = np.abs(step[first] - step[second]).max(initial=0)
        strengths += step if reach < _CAREFUL else step * np.log1p(reach) / reach
        if reach < _STEP_MIN:
            break
    return strengths[:free]


def _ends_sum(first: Numbers, second: Numbers, value: Vector, models: int, sign: int = 1) -> Vector:
    """Sum over pairs of the value for the first and, with the sign, for the second model; float64 (models,)."""
    of_second = np.bincount(second, value, models + 1)[:models]
    return np.asarray(np.bincount(first, value, models + 1)[:models] + sign * of_second, np.float64)


def _solve(hessian: Matrix, gradient: Vector) -> Vector:
    """Newton's step, by Cholesky from the upper triangle (the other one is not filled)."""
    _, step, failed = dposv(hessian, gradient)
    if failed:  # chances so close to 0 or 1 that nothing is left of the curvature
        whole = hessian + np.triu(hessian, 1).T + 1e-9 * hessian.max() * np.eye(len(gradient))
        step = np.linalg.solve(whole, gradient)
    return np.asarray(step)


def _centred(strengths: Vector) -> Vector:
    return np.asarray(strengths - strengths.mean())


def logistic(log_odds: Vector) -> Vector:
    """1 / (1 + exp(-x)), as a hyperbolic tangent: it neither overflows nor takes as long."""
    return 0.5 + 0.5 * np.tanh(0.5 * log_odds)


def place(
    strengths: Matrix,
    group: Labels,
    anchor: int | None = None,
    anchor_rating: float = 1000.0,
    level: Vector | None = None,
) -> Matrix:
    """Log-strengths (…, models) on the rating scale.

    In each group either the anchor has its rating, or the mean rating is that of `level` (models,), by default 1000.
    Models without a strength (NaN) stay without a rating and count in no mean.
    """
    scaled = SCALE * strengths
    wanted = np.full(strengths.shape[-1], 1000.0) if level is None else level
    for number in range(group.max(initial=-1) + 1):
        members = np.flatnonzero(group == number)
        if anchor is not None and group[anchor] == number:
            shift = anchor_rating - scaled[..., [anchor]]
        else:
            gap = wanted[members] - scaled[..., members]
            known = ~np.isnan(gap)
            shift = np.where(known, gap, 0).sum(axis=-1, keepdims=True) / known.sum(axis=-1, keepdims=True).clip(1)
        scaled[..., members] += shift
    return np.asarray(scaled)
