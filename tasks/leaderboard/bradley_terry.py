"""Bradley-Terry by maximum likelihood on aggregated counts (VisionArena eq. 1; ties are half a win each).

The probability that model i beats model j is 1 / (1 + exp(s_j - s_i)) for log-strengths s. Newton's method on the
counts of every pair finds the optimum whatever the number of votes.

The optimum is finite only for models that chains of wins connect both ways, the strongly connected ones (Ford 1957).
The largest such set of each group (the core) is fitted by itself, exactly. Any other model, such as one that never
lost, has no finite rating. Given the ratings of the core it gets the one that half a win and half a loss against an
average model imply; this changes no other rating.
"""

import numpy as np
from scipy.special import expit

from tasks.leaderboard.connected import Structure, structure
from tasks.leaderboard.votes import TIED, WON, Matrix, Numbers, Vector

SCALE = 400 / np.log(10)
"""Rating points for each unit of log-strength: 400 points are odds of ten to one."""
_STEPS_MAX = 500
_STEP_MIN = 3e-5
"""The error after a Newton step is about its square: 1e-9, a ten-millionth of a rating point."""
_FULL_STEP_MAX = 0.5
"""Newton steps that change log-odds by more are shortened."""
_PRIOR_WINS, _PRIOR_GAMES = 0.5, 1.0


def wins_and_games(counts: Matrix) -> tuple[Vector, Vector]:
    """Wins of the first model, ties counting half, and battles of each pair, from counts (pairs, 3)."""
    return counts[:, WON] + counts[:, TIED] / 2, counts.sum(axis=1)


def log_strengths(
    pairs: Numbers, counts: Matrix, models: int, start: Vector | None = None, known: Structure | None = None
) -> Vector:
    """Log-strengths float64 (models,) of counts (pairs, 3); NaN for models without a battle.

    Their mean over the core of each group is zero. `start` is a first guess; `known` is the structure, if computed.
    """
    wins, games = wins_and_games(counts)
    group, core, *_ = structure(pairs, counts, models) if known is None else known
    guess = np.zeros(models) if start is None else np.nan_to_num(start)
    strengths = np.full(models, np.nan)
    for number in range(group.max(initial=-1) + 1):
        members = group == number
        inside, rest = np.flatnonzero(members & core), np.flatnonzero(members & ~core)
        if len(inside):
            strengths[inside] = _fit_core(pairs, wins, games, inside, guess)
        if len(rest):
            strengths[rest] = _fit_rest(pairs, wins, games, rest, strengths)
    return strengths


def _fit_core(pairs: Numbers, wins: Vector, games: Vector, inside: Numbers, guess: Vector) -> Vector:
    """Strengths of strongly connected models from their battles with each other; the last is fixed at 0 meanwhile."""
    place = np.full(len(guess), -1)
    place[inside] = np.arange(len(inside))
    ends = place[pairs]
    used = (ends >= 0).all(axis=1) & (games > 0)
    start = guess[inside[:-1]] - guess[inside[-1]]
    strengths = np.append(_newton(ends[used], np.zeros(used.sum()), wins[used], games[used], start), 0.0)
    return np.asarray(strengths - strengths.mean())


def _fit_rest(pairs: Numbers, wins: Vector, games: Vector, rest: Numbers, fitted: Vector) -> Vector:
    """Strengths of the rest, given those of the fitted, with a prior against an average model of strength 0."""
    place = np.full(len(fitted), len(rest))  # everyone else is the fixed model, at the offset of their strength
    place[rest] = np.arange(len(rest))
    used = ((place[pairs] < len(rest)).any(axis=1)) & (games > 0)
    known = np.nan_to_num(fitted)
    known[rest] = 0
    offset = known[pairs[used, 0]] - known[pairs[used, 1]]
    own = np.arange(len(rest))
    return _newton(
        np.concatenate([place[pairs[used]], np.stack([own, np.full(len(rest), len(rest))], axis=1)]),
        np.concatenate([offset, np.zeros(len(rest))]),
        np.concatenate([wins[used], np.full(len(rest), _PRIOR_WINS)]),
        np.concatenate([games[used], np.full(len(rest), _PRIOR_GAMES)]),
        np.zeros(len(rest)),
    )


def _newton(ends: Numbers, offset: Vector, wins: Vector, games: Vector, start: Vector) -> Vector:
    """Strengths of the free models 0 … n-1 that maximise the likelihood; model n is fixed at 0."""
    free, (first, second) = len(start), ends.T
    strengths = np.append(start, 0.0)
    for _ in range(_STEPS_MAX):
        chance = expit(strengths[first] - strengths[second] + offset)
        hessian = laplacian(ends, games * chance * (1 - chance), free + 1)[:free, :free]
        gradient = ends_difference(ends, wins - games * chance, free + 1)[:free]
        jitter = 1e-12 * hessian.diagonal().max(initial=1e-300)  # chances near 0 or 1 leave no curvature
        step = np.append(np.linalg.solve(hessian + jitter * np.eye(free), gradient), 0.0)
        reach = float(np.abs(step[first] - step[second]).max(initial=0))
        strengths += step * shortened(reach)
        if reach < _STEP_MIN:
            break
    return np.asarray(strengths[:free])


def shortened(reach: float) -> float:
    """The share of a Newton step to take when it changes a log-odds by `reach`: log(1 + r) / r never overshoots."""
    return 1.0 if reach < _FULL_STEP_MAX else float(np.log1p(reach) / reach)


def ends_difference(pairs: Numbers, value: Vector, models: int) -> Vector:
    """float64 (models,): the sum of `value` over pairs for their first model, less that for their second."""
    first, second = pairs.T
    return np.asarray(np.bincount(first, value, models) - np.bincount(second, value, models))


def laplacian(pairs: Numbers, weight: Vector, models: int) -> Matrix:
    """float64 (models, models): the sum of weight (e_i - e_j)(e_i - e_j)' over pairs."""
    first, second = pairs.T
    code = np.concatenate([first * models + second, second * models + first])
    matrix = np.asarray(-np.bincount(code, np.tile(weight, 2), models * models), np.float64).reshape(models, models)
    np.fill_diagonal(matrix, np.bincount(first, weight, models) + np.bincount(second, weight, models))
    return matrix


def fixed_models(known: Structure, anchor: int | None) -> list[tuple[Numbers, Numbers]]:
    """Of each group its models, and those whose mean rating is given: the anchor, or the core, or where none is all."""
    groups = [np.flatnonzero(known.group == number) for number in range(known.group.max(initial=-1) + 1)]
    cores = [members[known.core[members]] for members in groups]
    return [
        (members, np.array([anchor]) if anchor in members else inside if len(inside) else members)
        for members, inside in zip(groups, cores, strict=True)
    ]


def place(strengths: Matrix, known: Structure, anchor: int | None, wanted: Vector) -> Matrix:
    """Log-strengths (…, models) on the rating scale: the mean of each group's fixed models is that of `wanted`.

    Models without a strength (NaN) stay without a rating and count in no mean.
    """
    scaled = SCALE * strengths
    for members, fixed in fixed_models(known, anchor):
        gap = wanted[fixed] - scaled[..., fixed]
        there = ~np.isnan(gap)
        count = there.sum(axis=-1, keepdims=True)
        mean = np.where(there, gap, 0).sum(axis=-1, keepdims=True) / count.clip(1)
        scaled[..., members] += np.where(count > 0, mean, np.nan)
    return np.asarray(scaled)
