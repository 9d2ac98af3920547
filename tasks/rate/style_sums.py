"""Votes with style covariates, and the sums over them that fits need: those of all rounds of a bootstrap at once.

Votes are kept in the order of their pairs and taken a block at a time. Each is read once for many rounds, in arrays
(votes, rounds); a sparse matrix adds them up into pairs, and pairs, of which there are few, into models.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from tasks.rate.votes import Matrix, Numbers, Vector, Votes

Times = npt.NDArray[np.uint8]
"""uint8 (rounds, votes): how often each vote was drawn."""
_BLOCK_VOTES, _LONG_BLOCK_VOTES = 2048, 16_384
"""For many rounds and for one."""


@dataclass(frozen=True)
class Block:
    """Consecutive votes that are handled together: few enough for the processor's cache."""

    votes: slice
    pairs: slice
    """The pairs they are on; the first and the last may go on in other blocks."""
    pair: Numbers
    """int64 (votes of the block,): pair of each, counted from the block's first."""
    weighted: Matrix
    """(1 + covariates, votes of the block): the weight of each vote, and its weighted covariates."""

    @cached_property
    def adding(self) -> csr_array:
        """(pairs, votes): adds up weight x value over the votes of each pair."""
        return adding(self.pair, self.weighted[:1])

    @cached_property
    def adding_all(self) -> csr_array:
        """((1 + covariates) pairs, votes): the same for each row of `weighted`."""
        return adding(self.pair, self.weighted)


@dataclass(frozen=True)
class StyledVotes:
    """Votes in the order of their pairs, with their covariates."""

    models: int
    pairs: Numbers
    """int64 (pairs, 2); every pair has votes."""
    pair: Numbers
    """int64 (votes,): which pair, in order."""
    score: Vector
    """(votes,): what the pair's first model got: 1, 0 for a tie, -1."""
    style: Matrix
    """float64 (covariates, votes), of the pair's first model against the second."""
    weight: Vector
    """(votes,): how much each counts."""
    furthest: Vector
    """(covariates,): the largest difference of each, either way."""

    @cached_property
    def single(self) -> "StyledVotes":
        """The same in single precision, for steps that others follow: half as much to read and compute."""
        halved: dict[str, Any] = {name: getattr(self, name).astype(np.float32) for name in ("score", "style", "weight")}
        return replace(self, **halved)

    def blocks(self, rounds: int) -> list[Block]:
        """All votes, in blocks that suit so many rounds."""
        return self._long_blocks if rounds == 1 else self._short_blocks

    @cached_property
    def _long_blocks(self) -> list[Block]:
        return [self._block(start, _LONG_BLOCK_VOTES) for start in range(0, len(self.pair), _LONG_BLOCK_VOTES)]

    @cached_property
    def _short_blocks(self) -> list[Block]:
        return [self._block(start, _BLOCK_VOTES) for start in range(0, len(self.pair), _BLOCK_VOTES)]

    @cached_property
    def ends(self) -> csr_array:
        """(models, pairs): 1 for the first model of each pair, -1 for the second."""
        number, one = np.arange(len(self.pairs)), np.ones(len(self.pairs))
        at = (self.pairs.T.ravel(), np.concatenate([number, number]))
        return csr_array((np.concatenate([one, -one]), at), shape=(self.models, len(self.pairs)))

    def _block(self, start: int, length: int) -> Block:
        votes = slice(start, start + length)
        whole, weight = self.pair[votes], self.weight[votes]
        weighted = np.concatenate([weight[None], weight * self.style[:, votes]])
        return Block(votes, slice(int(whole[0]), int(whole[-1]) + 1), whole - whole[0], weighted)


def adding(pair: Numbers, factors: Matrix) -> csr_array:
    """(rows x pairs, votes): adds up each row of `factors` (rows, votes) times a value over the votes of each pair.

    `pair` (votes,) is the pair of each vote, in order.
    """
    rows, votes = factors.shape
    ends = np.bincount(pair).cumsum()
    all_ends = (np.arange(rows)[:, None] * votes + ends).ravel()
    at = np.tile(np.arange(votes, dtype=np.int32), rows), np.append(0, all_ends).astype(np.int32)
    return csr_array((factors.ravel(), *at), shape=(rows * len(ends), votes))


def styled(votes: Votes, style: Matrix, weight: Vector | None = None) -> StyledVotes:
    """`style` float64 (votes, covariates) of the left side against the right."""
    order = np.argsort(votes.pair.astype(np.min_scalar_type(len(votes.pairs))), kind="stable")  # 16 bits: by radix
    turned = np.where(votes.swapped, -1.0, 1.0)[:, None] * style
    return StyledVotes(
        len(votes.models),
        votes.pairs,
        votes.pair[order],
        votes.result[order].astype(np.float64) - 1,
        np.ascontiguousarray(turned[order].T),
        np.ones(len(order)) if weight is None else weight[order],
        np.abs(style).max(axis=0, initial=0),
    )


def derivatives(
    data: StyledVotes, times: Times, won: Matrix, parameters: Matrix, curved: bool
) -> tuple[Matrix, Matrix | None]:
    """Gradients (rounds, parameters) of the log-likelihood, and where `curved` its negated Hessians.

    `won` is `linear_sums` of the scores; `parameters` float64 (rounds, parameters); Hessians float64 (rounds,
    parameters, parameters). With t = tanh(log-odds / 2), a residual is half of score - t and the curvature, chance
    times its complement, a quarter of 1 - t^2.
    """
    sums, squares = GradientSums(data, len(times)), InformationSums(data, len(times)) if curved else None
    halves, kind = parameters.T / 2, data.style.dtype
    gap = (halves[data.pairs[:, 0]] - halves[data.pairs[:, 1]]).astype(kind)
    slopes = halves[data.models :].astype(kind)
    for block in data.blocks(len(times)):
        tangent = gap[block.pairs].take(block.pair, axis=0)
        tangent += data.style[:, block.votes].T @ slopes
        np.tanh(tangent, out=tangent)
        counted = _by_vote(data, times, block)
        told = tangent * counted
        sums.add(block, told)
        if squares is not None:
            counted -= np.multiply(tangent, told, out=told)
            squares.add(block, counted)
    return (won - sums.gradients()) / 2, None if squares is None else squares.matrices() / 4


def linear_sums(data: StyledVotes, times: Times, factor: Matrix) -> list[Matrix]:
    """For each row of `factor` (rows, votes): the sum of factor x over the drawn votes, (rounds, parameters).

    x is the +1, -1 and covariates of a vote.
    """
    found = [GradientSums(data, len(times)) for _ in factor]
    for block in data.blocks(len(times)):
        counted = _by_vote(data, times, block)
        for sums, row in zip(found, factor[:, block.votes], strict=True):
            sums.add_times(row, block, counted)
    return [sums.gradients() for sums in found]


def _by_vote(data: StyledVotes, times: Times, block: Block) -> Matrix:
    """(votes of the block, rounds)."""
    return times[:, block.votes].T.astype(data.style.dtype, order="C")


class GradientSums:
    """Adds up weight value x over votes, block by block."""

    def __init__(self, data: StyledVotes, rounds: int) -> None:
        self._data = data
        self._of_pairs = np.zeros((len(data.pairs), rounds))
        self._of_style = np.zeros((len(data.style), rounds))

    def add(self, block: Block, value: Matrix) -> None:
        """Add the votes of a block; `value` (votes of the block, rounds)."""
        self._of_pairs[block.pairs] += block.adding @ value
        self._of_style += block.weighted[1:] @ value

    def add_times(self, factor: Vector, block: Block, value: Matrix) -> None:
        """Add `factor` (votes of the block,) times `value`, without an array of their products."""
        self._of_pairs[block.pairs] += adding(block.pair, block.weighted[:1] * factor) @ value
        self._of_style += (block.weighted[1:] * factor) @ value

    def gradients(self) -> Matrix:
        """float64 (rounds, parameters)."""
        return np.concatenate([self._data.ends @ self._of_pairs, self._of_style]).T


class InformationSums:
    """Adds up weight value x x' over votes, block by block."""

    def __init__(self, data: StyledVotes, rounds: int) -> None:
        self._data, covariates = data, len(data.style)
        self._of_pairs = np.zeros((1 + covariates, len(data.pairs), rounds))
        self._row, self._column = np.triu_indices(covariates)
        self._of_style = np.zeros((len(self._row), rounds))

    def add(self, block: Block, value: Matrix) -> None:
        """Add the votes of a block; `value` (votes of the block, rounds)."""
        self._of_pairs[:, block.pairs] += (block.adding_all @ value).reshape(len(block.weighted), -1, value.shape[1])
        products = block.weighted[1:][self._row] * self._data.style[:, block.votes][self._column]
        self._of_style += products @ value

    def matrices(self) -> Matrix:
        """float64 (rounds, parameters, parameters)."""
        data, (first, second), of_pairs = self._data, self._data.pairs.T, self._of_pairs
        parameters, at = data.models + len(data.style), np.arange(data.models)
        found = np.zeros((of_pairs.shape[2], parameters, parameters))
        found[:, first, second] = found[:, second, first] = -of_pairs[0].T
        found[:, at, at] = (abs(data.ends) @ of_pairs[0]).T
        for number, values in enumerate(of_pairs[1:], data.models):
            found[:, : data.models, number] = found[:, number, : data.models] = (data.ends @ values).T
        row, column = self._row + data.models, self._column + data.models
        found[:, row, column] = found[:, column, row] = self._of_style.T
        return found
