"""Bradley-Terry by maximum likelihood on sums per pair (VisionArena eq. 1; ties are half a win each).

The probability that model i beats model j is 1 / (1 + exp(s_j - s_i)) for log-strengths s, fitted by Newton's method.

Only models in one strongly connected component of the graph of wins have finite estimates (Ford 1957). The largest
component of each group of models that met (the core) is fitted by itself. Any other model, such as one that never
lost, has no finite rating; given the core, it is fitted with an added half win and half loss against an average model,
which changes no other rating.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components
from scipy.special import expit

from tasks.leaderboard.votes import Mask, Matrix, Numbers, Vector

SCALE = 400 / np.log(10)
"""Rating points for each unit of log-strength: 400 points are odds of ten to one."""
_STEPS_MAX = 500
_STEP_MIN = 3e-5
"""Stop when a Newton step is smaller. The remaining error is about its square: 1e-9, or 2e-7 rating points."""
_DIGITS = 8
"""Digits of a log-strength that every machine fits alike."""
_FULL_STEP_MAX = 0.5
"""Newton steps that change a log-odds by more are shortened."""
_PRIOR_WINS, _PRIOR_GAMES = 0.5, 1.0


class Structure(NamedTuple):
    """Connected components of the graph of wins; all arrays are (models,)."""

    group: Numbers
    """Component of the graph of battles; 0 has the most battles, -1 marks models without a battle."""
    core: Mask
    """Whether the model is in its group's core, the largest strongly connected set in the graph of wins."""
    bounded_below: Mask
    """Whether a chain of wins leads from the model to its core, so that its rating has a finite lower bound."""
    bounded_above: Mask
    """Whether a chain of wins leads from its core to the model, so that its rating has a finite upper bound."""


def structure(pairs: Numbers, wins: Vector, games: Vector, models: int) -> Structure:
    """The structure of votes: each pair's wins of the first model, out of its games.

    A tie or a soft preference counts as a win for each side (Ford 1957).
    """
    first, second = pairs.T
    forth, back = wins > 0, games > wins
    winner, loser = np.concatenate([first[forth], second[back]]), np.concatenate([second[forth], first[back]])
    # an edge from the winner to the loser of every pair, both ways for a tie
    graph = csr_array((np.ones(len(winner)), (winner, loser)), shape=(models, models))
    group, core = _groups_and_core(graph, pairs, games)
    below, above = core.copy(), core.copy()
    if not core.all():
        for number in range(group.max(initial=-1) + 1):
            inside = np.flatnonzero(core & (group == number))
            if len(inside):
                above[breadth_first_order(graph, inside[0], return_predecessors=False)] = True
                below[breadth_first_order(graph.T, inside[0], return_predecessors=False)] = True
    return Structure(group, core, below, above)


def _groups_and_core(wins: csr_array, pairs: Numbers, games: Vector) -> tuple[Numbers, Mask]:
    models = wins.shape[0]
    battles = np.bincount(pairs.ravel(), np.repeat(games, 2), models)
    label = connected_components(wins, directed=False)[1]
    strong = connected_components(wins, directed=True, connection="strong")[1]
    sizes = np.bincount(strong, minlength=1)
    group_battles = np.bincount(label, battles, minlength=1)
    group, core = np.full(models, -1), np.zeros(models, bool)
    for number, component in enumerate(np.argsort(-group_battles, kind="stable")[: np.count_nonzero(group_battles)]):
        members = np.flatnonzero(label == component)
        largest = strong[members[sizes[strong[members]].argmax()]]
        group[members] = number
        core[members] = (strong[members] == largest) & (sizes[largest] > 1)
    return group, core


def log_strengths(
    pairs: Numbers,
    wins: Vector,
    games: Vector,
    models: int,
    start: Vector | None = None,
    parts: Structure | None = None,
) -> Vector:
    """Log-strengths float64 (models,) from each pair's wins out of games, with mean 0 over each core.

    NaN for a model without a battle. `start` is the initial guess; `parts` is the structure, if it was computed before.
    """
    group, core, *_ = structure(pairs, wins, games, models) if parts is None else parts
    guess = np.zeros(models) if start is None else np.nan_to_num(start)
    strengths = np.full(models, np.nan)
    for number in range(group.max(initial=-1) + 1):
        members = group == number
        inside, outside = np.flatnonzero(members & core), np.flatnonzero(members & ~core)
        if len(inside):
            strengths[inside] = _fit_core(pairs, wins, games, inside, guess)
        if len(outside):
            strengths[outside] = _fit_rest(pairs, wins, games, outside, strengths)
    return strengths


def _fit_core(pairs: Numbers, wins: Vector, games: Vector, inside: Numbers, guess: Vector) -> Vector:
    """Strengths of the core, from battles within it; the last model is fixed at 0 during the fit."""
    place = np.full(len(guess), -1)
    place[inside] = np.arange(len(inside))
    ends = place[pairs]
    used = (ends >= 0).all(axis=1) & (games > 0)
    start = guess[inside[:-1]] - guess[inside[-1]]
    strengths = np.append(_newton(ends[used], np.zeros(used.sum()), wins[used], games[used], start), 0.0)
    return np.asarray(strengths - strengths.mean())


def _fit_rest(pairs: Numbers, wins: Vector, games: Vector, outside: Numbers, fitted: Vector) -> Vector:
    """Strengths of the models outside the core, given the others', with a prior against a model of strength 0."""
    place = np.full(len(fitted), len(outside))  # other models are the fixed model, with their strength as the offset
    place[outside] = np.arange(len(outside))
    used = ((place[pairs] < len(outside)).any(axis=1)) & (games > 0)
    fixed_strengths = np.nan_to_num(fitted)
    fixed_strengths[outside] = 0
    offset = fixed_strengths[pairs[used, 0]] - fixed_strengths[pairs[used, 1]]
    numbers = np.arange(len(outside))
    return _newton(
        np.concatenate([place[pairs[used]], np.stack([numbers, np.full(len(outside), len(outside))], axis=1)]),
        np.concatenate([offset, np.zeros(len(outside))]),
        np.concatenate([wins[used], np.full(len(outside), _PRIOR_WINS)]),
        np.concatenate([games[used], np.full(len(outside), _PRIOR_GAMES)]),
        np.zeros(len(outside)),
    )


def _newton(ends: Numbers, offset: Vector, wins: Vector, games: Vector, start: Vector) -> Vector:
    """Maximum-likelihood strengths of models 0 … n-1; model n is fixed at 0."""
    free, (first, second) = len(start), ends.T
    strengths = np.append(start, 0.0)
    for _ in range(_STEPS_MAX):
        chance = expit(strengths[first] - strengths[second] + offset)
        hessian = laplacian(ends, games * chance * (1 - chance), free + 1)[:free, :free]
        gradient = ends_difference(ends, wins - games * chance, free + 1)[:free]
        jitter = 1e-12 * hessian.diagonal().max(initial=1e-300)  # chances near 0 or 1 make it singular
        step = np.append(np.linalg.solve(hessian + jitter * np.eye(free), gradient), 0.0)
        reach = float(np.abs(step[first] - step[second]).max(initial=0))
        strengths += step * shortened(reach)
        if reach < _STEP_MIN:
            break
    return np.asarray(strengths[:free])


def in_order(models: Numbers, at: Vector, names: Sequence[str]) -> list[int]:
    """Model numbers, best first by log-strengths `at`; those that differ by the error of a fit alone, by name."""
    return sorted(models.tolist(), key=lambda model: (-round(float(at[model]), _DIGITS), names[model]))


def shortened(reach: float) -> float:
    """Fraction of a Newton step to take when it changes a log-odds by `reach` = r: log(1 + r) / r never overshoots."""
    return 1.0 if reach < _FULL_STEP_MAX else float(np.log1p(reach) / reach)


def ends_difference(pairs: Numbers, value: Vector, models: int) -> Vector:
    """float64 (models,): sum of `value` over pairs with the model first, minus the sum over pairs with it second."""
    first, second = pairs.T
    return np.asarray(np.bincount(first, value, models) - np.bincount(second, value, models))


def laplacian(pairs: Numbers, weight: Vector, models: int) -> Matrix:
    """float64 (models, models): the sum of weight (e_i - e_j)(e_i - e_j)' over pairs."""
    first, second = pairs.T
    code = np.concatenate([first * models + second, second * models + first])
    matrix = np.asarray(-np.bincount(code, np.tile(weight, 2), models * models), np.float64).reshape(models, models)
    np.fill_diagonal(matrix, np.bincount(first, weight, models) + np.bincount(second, weight, models))
    return matrix


Fixed = list[tuple[Numbers, Numbers]]
"""(all models, fixed models) of each group; the fixed ones set its mean."""


def fixed_models(parts: Structure, anchor: int | None, firm: Mask) -> Fixed:
    """Fixed models of each group: the anchor, else the core's firm models, else its core, else all.

    `firm` (models,): models with enough votes that one more model, or one more vote, hardly moves their mean.
    """
    groups = [np.flatnonzero(parts.group == number) for number in range(parts.group.max(initial=-1) + 1)]
    return [(members, _fixed_of(members, parts.core, anchor, firm)) for members in groups]


def _fixed_of(members: Numbers, core: Mask, anchor: int | None, firm: Mask) -> Numbers:
    if anchor in members:
        return np.array([anchor])
    choices = (members[core[members] & firm[members]], members[core[members]])
    return next((choice for choice in choices if len(choice)), members)


def place(strengths: Matrix, groups: Fixed, means: Vector) -> Matrix:
    """Ratings (…, models) of log-strengths, shifted so that the mean of each group's fixed models is that of `means`.

    NaN strengths stay NaN and are ignored in means.
    """
    scaled = SCALE * strengths
    for members, fixed in groups:
        gap = means[fixed] - scaled[..., fixed]
        present = ~np.isnan(gap)
        count = present.sum(axis=-1, keepdims=True)
        mean = np.where(present, gap, 0).sum(axis=-1, keepdims=True) / count.clip(1)
        scaled[..., members] += np.where(count > 0, mean, np.nan)
    return np.asarray(scaled)
