"""How many more votes, and on which pairs: until neighbours are separated at 95 %, and until a slice has a board.

A pair is separated when the 95 % interval of its difference d excludes 0. The plan is for four separations in five: d
must be 1.96 + 0.84 standard deviations. Of all pairs of models, a vote on the pair itself takes most off the variance
of its difference: with potentials u = H^-1 (e_i - e_j) a vote on (a, b) takes off in proportion to p (1 - p)
(u_a - u_b)^2, and by the maximum principle of Laplacians no difference of u exceeds u_i - u_j. Votes planned for one
pair serve its neighbours, too, so the covariance is updated after each, the pair that needs most votes first.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from scipy.special import expit

from schemas.rating import PlannedVotes
from tasks.leaderboard.bradley_terry import SCALE, in_order, laplacian, log_strengths, structure
from tasks.leaderboard.intervals import NORMAL95, covariances, difference_deviation, doubtful
from tasks.leaderboard.leaderboard import CATEGORY, FEW_BATTLES
from tasks.leaderboard.votes import Mask, Vector, Votes, votes
from tasks.runtime.parallel import one_blas_thread

SEPARATE, BOARD = "separate", "board"
_POWER80 = 0.8416212335729143
"""80 % quantile of the normal distribution."""
_EQUAL = 1e-9
"""Log-odds under which two ratings are equal; the error of the fit is about as large."""
_SLICES = ("language:", CATEGORY)
"""Slices that are planned a board."""


@one_blas_thread()
def separations(battles: pl.DataFrame, slice_name: str) -> list[PlannedVotes]:
    """One row for each pair of neighbours on the board of `rateable` battles, from the top; none without a pair.

    Votes are taken as independent, and new ones as alike to those that there are.
    """
    cast = votes(battles).grouped()
    at, core = _fitted(cast)
    order = in_order(np.flatnonzero(core), at, cast.models)
    pairs = list(itertools.pairwise(order))
    needed = _needed(cast, at, core, pairs)
    met = {(a, b): int(n) for (a, b), n in zip(cast.pairs.tolist(), np.bincount(cast.pair, cast.times), strict=True)}
    return [
        PlannedVotes(
            slice=slice_name,
            goal=SEPARATE,
            place=place,
            model=cast.models[a],
            rival=cast.models[b],
            difference=SCALE * float(at[a] - at[b]),
            deviation=SCALE * deviation,
            now=met.get((min(a, b), max(a, b)), 0),
            votes=count,
            flags=["separated"] if count == 0 else ["too_close"] if count is None or count > battles.height else [],
        )
        for place, ((a, b), (count, deviation)) in enumerate(zip(pairs, needed, strict=True), 1)
    ]


def _fitted(cast: Votes) -> tuple[Vector, Mask]:
    """Log-strengths, and the models of finite rating."""
    sums = cast.sums()
    components = structure(cast.pairs, sums[0], sums[1], len(cast.models))
    at = log_strengths(cast.pairs, sums[0], sums[1], len(cast.models), parts=components)
    return at, np.asarray(components.core & (components.group == 0))


def _needed(cast: Votes, at: Vector, core: Mask, pairs: Sequence[tuple[int, int]]) -> list[tuple[int | None, float]]:
    """Votes that each pair needs, None where it has no difference; and the standard deviation of its log-odds now."""
    chance = expit(at[cast.pairs[:, 0]] - at[cast.pairs[:, 1]])
    inside = core[cast.pairs].all(axis=1)
    inverse = np.linalg.pinv(
        laplacian(cast.pairs, inside * cast.sums()[1] * chance * (1 - chance), len(at)), hermitian=True
    )
    spread = covariances(cast, at, core)
    by_model = difference_deviation(spread.by_model) * np.logical_or.outer(doubtful(cast), doubtful(cast))
    deviation = np.maximum(difference_deviation(spread.sandwich), by_model)
    aims = np.array([np.eye(len(at))[a] - np.eye(len(at))[b] for a, b in pairs]).reshape(len(pairs), len(at))
    leads, variances = aims @ np.nan_to_num(at), np.array([deviation[pair] ** 2 for pair in pairs])
    leads[np.abs(leads) < _EQUAL] = 0
    spread = variances / np.einsum("pi,ij,pj->p", aims, inverse, aims).clip(1e-300)
    target_variance = np.where(
        leads**2 >= NORMAL95**2 * variances, np.inf, (leads / (NORMAL95 + _POWER80)) ** 2 / spread
    )
    weight = expit(leads) * (1 - expit(leads)) * float(cast.weight @ cast.times / cast.times.sum())
    planned: dict[int, int] = {}
    while True:
        now = np.einsum("pi,ij,pj->p", aims, inverse, aims)
        with np.errstate(divide="ignore"):
            counts = (1 / target_variance - 1 / now) / weight
        open_pairs = [n for n in range(len(pairs)) if n not in planned and 0 < counts[n] < np.inf]
        if not open_pairs:
            break
        pair = max(open_pairs, key=lambda n: counts[n])
        planned[pair] = math.ceil(counts[pair])
        push = inverse @ aims[pair]
        grown = planned[pair] * weight[pair]
        inverse = inverse - np.outer(push, push) * grown / (1 + grown * now[pair])
    deviations = np.sqrt(variances).tolist()
    return [(None if lead == 0 else planned.get(n, 0), deviations[n]) for n, lead in enumerate(leads)]


def boards_wanted(battles: pl.DataFrame, slices: Mapping[str, Mask], *, in_all: bool) -> Iterator[PlannedVotes]:
    """Votes that languages and categories lack until every model of the overall board has 100 battles in them.

    A row for each pair of models, neighbours on the overall board, so that the votes join the models and both sides
    win some; with `in_all`, one row for each slice. Slices that lack nothing have no row.
    """
    cast = votes(battles).grouped()
    at, core = _fitted(cast)
    models = [cast.models[n] for n in in_order(np.flatnonzero(core), at, cast.models)]
    for name in (name for name in slices if name.startswith(_SLICES) and len(models) > 1):
        inside = battles.filter(pl.Series(slices[name]))
        pairs = _until_few_are_enough(inside, models)
        about: dict[str, Any] = {"slice": name, "goal": BOARD}
        if in_all and any(pairs):
            yield PlannedVotes(**about, now=inside.height, votes=sum(pairs))
        elif not in_all:
            for (a, b), count in zip(itertools.pairwise(models), pairs, strict=True):
                met = inside.filter(pl.col("model_a").is_in([a, b]), pl.col("model_b").is_in([a, b])).height
                yield from [PlannedVotes(**about, model=a, rival=b, now=met, votes=count)] if count else []


def _until_few_are_enough(battles: pl.DataFrame, models: Sequence[str]) -> list[int]:
    """Votes for each two neighbours among `models` after which each has 100 battles: half from either neighbour."""
    counts = dict(pl.concat([battles["model_a"], battles["model_b"]]).value_counts().iter_rows())
    lack = [max(0, FEW_BATTLES - counts.get(model, 0)) for model in models]
    halves = [math.ceil(max(a, b) / 2) for a, b in itertools.pairwise(lack)]
    halves[0], halves[-1] = max(halves[0], lack[0]), max(halves[-1], lack[-1])
    return halves
