"""Votes with style covariates, and the sums over them that a fit needs.

Votes are kept in the order of their pairs, so that one pass over them adds up pair by pair, and pairs, of which
there are few, are added up into models.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tasks.rate.bradley_terry import logistic
from tasks.rate.intervals import laplacian
from tasks.rate.votes import Matrix, Numbers, Vector, Votes

_BLOCK_VOTES = 16_384


@dataclass(frozen=True)
class StyledVotes:
    """Votes in the order of their pairs, with their covariates."""

    models: int
    pairs: Numbers
    """int64 (pairs, 2); every pair has votes."""
    lengths: Numbers
    """int64 (pairs,): votes of each pair."""
    score: Vector
    """(votes,): what the pair's first model got: 1, 0.5 or 0."""
    style: Matrix
    """float64 (covariates, votes), of the pair's first model against the second."""
    weight: Vector
    """(votes,): how much each counts."""
    furthest: Vector
    """(covariates,): the largest difference of each, either way, or more."""

    @cached_property
    def starts(self) -> Numbers:
        """int64 (pairs,): first vote of each pair."""
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def blocks(self) -> list["Block"]:
        """Consecutive pairs with about as many votes as the processor's cache holds."""
        ends = np.cumsum(self.lengths)
        cuts = [0, *(np.flatnonzero(np.diff(ends // _BLOCK_VOTES)) + 1).tolist(), len(ends)]
        starts = self.starts
        return [
            Block(slice(first, last), slice(starts[first], ends[last - 1]), starts[first:last] - starts[first])
            for first, last in pairwise(cuts)
        ]


class Block(NamedTuple):
    """Pairs and votes that are handled together."""

    pairs: slice
    votes: slice
    starts: Numbers
    """int64 (pairs of the block,): first vote of each, counted from the block's first."""


def styled(votes: Votes, style: Matrix, weight: Vector | None = None) -> StyledVotes:
    """`style` float64 (votes, covariates) of the left side against the right."""
    order = np.argsort(votes.pair, kind="stable")
    turned = np.where(votes.swapped, -1.0, 1.0)[:, None] * style
    return StyledVotes(
        len(votes.models),
        votes.pairs,
        np.bincount(votes.pair, minlength=len(votes.pairs)),
        votes.result[order] / 2,
        np.ascontiguousarray(turned[order].T),
        np.ones(len(order)) if weight is None else weight[order],
        np.abs(style).max(axis=0, initial=0),
    )


def drawn_votes(data: StyledVotes, times: Numbers) -> StyledVotes:
    """The votes that were drawn, weighted by how often (votes,)."""
    once = times > 0
    kept = np.flatnonzero(once)  # of truth values: several times as fast as of numbers
    lengths = np.add.reduceat(once, data.starts, dtype=np.int64)
    used = lengths > 0
    return StyledVotes(
        data.models,
        data.pairs[used],
        lengths[used],
        data.score[kept],
        data.style.take(kept, axis=1),
        data.weight[kept] * times[kept],
        data.furthest,
    )


def information(data: StyledVotes, weight: Vector) -> Matrix:
    """float64 (parameters, parameters): the sum of weight x x' over votes, x the +1, -1 and covariates of one."""
    sums = _InformationSums(data)
    for block in data.blocks:
        sums.add(block, weight[block.votes])
    return sums.matrix()


def derivatives(data: StyledVotes, parameters: Vector) -> tuple[Vector, Matrix]:
    """Gradient and negated Hessian of the log-likelihood, in one pass over the votes."""
    sums, information_sums = _GradientSums(data), _InformationSums(data)
    for block, residual, chance in _residuals(data, parameters):
        sums.add(block, residual)
        information_sums.add(block, data.weight[block.votes] * chance * (1 - chance))
    return sums.gradient(), information_sums.matrix()


def gradient_of(data: StyledVotes, parameters: Vector) -> Vector:
    """The gradient alone."""
    sums = _GradientSums(data)
    for block, residual, _ in _residuals(data, parameters):
        sums.add(block, residual)
    return sums.gradient()


def residual_and_curvature(data: StyledVotes, parameters: Vector) -> tuple[Vector, Vector]:
    """Of every vote (votes,): score less chance, and chance times its complement, both weighted."""
    parts = [(residual, chance) for _, residual, chance in _residuals(data, parameters)]
    chance = np.concatenate([part[1] for part in parts])
    return np.concatenate([part[0] for part in parts]), data.weight * chance * (1 - chance)


def _residuals(data: StyledVotes, parameters: Vector) -> Iterator[tuple[Block, Vector, Vector]]:
    """Block by block: weighted score less chance, and the chance."""
    gap = parameters[data.pairs[:, 0]] - parameters[data.pairs[:, 1]]
    for block in data.blocks:
        log_odds = parameters[data.models :] @ data.style[:, block.votes]
        log_odds += np.repeat(gap[block.pairs], data.lengths[block.pairs])
        chance = logistic(log_odds)
        yield block, data.weight[block.votes] * (data.score[block.votes] - chance), chance


class _GradientSums:
    """Adds up residual x block by block."""

    def __init__(self, data: StyledVotes) -> None:
        self._data = data
        self._of_pairs = np.empty(len(data.pairs))
        self._of_style = np.zeros(len(data.style))

    def add(self, block: Block, residual: Vector) -> None:
        """Add the votes of a block."""
        self._of_pairs[block.pairs] = np.add.reduceat(residual, block.starts)
        self._of_style += self._data.style[:, block.votes] @ residual

    def gradient(self) -> Vector:
        """float64 (parameters,)."""
        return towards_parameters(self._data, self._of_pairs, self._of_style)


class _InformationSums:
    """Adds up weight x x' block by block."""

    def __init__(self, data: StyledVotes) -> None:
        self._data = data
        self._of_pairs = np.empty((1 + len(data.style), len(data.pairs)))
        self._of_style = np.zeros((len(data.style), len(data.style)))

    def add(self, block: Block, weight: Vector) -> None:
        """Add the votes of a block; `weight` (votes of the block,)."""
        style = self._data.style[:, block.votes]
        weighted = style * weight
        self._of_pairs[0, block.pairs] = np.add.reduceat(weight, block.starts)
        self._of_pairs[1:, block.pairs] = np.add.reduceat(weighted, block.starts, axis=1)
        self._of_style += weighted @ style.T

    def matrix(self) -> Matrix:
        """float64 (parameters, parameters)."""
        data, (first, second) = self._data, self._data.pairs.T
        parameters = data.models + len(data.style)
        matrix = np.empty((parameters, parameters))
        matrix[: data.models, : data.models] = laplacian(data.pairs, self._of_pairs[0], data.models)
        for at, of_pairs in enumerate(self._of_pairs[1:], data.models):
            across = np.bincount(first, of_pairs, data.models) - np.bincount(second, of_pairs, data.models)
            matrix[: data.models, at] = matrix[at, : data.models] = across
        matrix[data.models :, data.models :] = self._of_style
        return matrix


def towards_parameters(data: StyledVotes, of_pairs: Vector, of_style: Vector) -> Vector:
    """Gradient (parameters,) from the residuals summed over each pair and times the covariates."""
    first, second = data.pairs.T
    of_models = np.bincount(first, of_pairs, data.models) - np.bincount(second, of_pairs, data.models)
    return np.concatenate([of_models, of_style])
