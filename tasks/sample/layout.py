"""Points in few dimensions from a neighbour graph: the layout of UMAP (McInnes, Healy and Melville 2018, sec. 3.2)."""

import math

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, diags_array

from tasks.running.compiled import compiled

Vectors = npt.NDArray[np.float32]

CURVE_A, CURVE_B = np.float32(1.93), np.float32(0.75)
"""1 / (1 + a d^2b) fitted to exp(-d): min_dist 0 and spread 1, as in umap-learn."""
REPULSIONS = 5
"""Random points that push a point away each time an edge pulls it."""
EXTENT = 10
"""Initial coordinates lie within this distance of 0."""
SMOOTHINGS = 30
"""Rounds of subspace iteration for the initial layout."""


def initial_layout(graph: csr_array, dimensions: int, seed: int) -> Vectors:
    """The smoothest directions of the graph, float32 (n, dimensions), by subspace iteration from random ones.

    They approximate the eigenvectors of the normalised Laplacian that umap-learn starts from, at a fixed cost and
    whatever the number of connected components.
    """
    count = graph.shape[0]
    scale = 1 / np.sqrt(np.maximum(graph.sum(axis=1), 1e-12))
    smooth = csr_array(diags_array(scale) @ graph @ diags_array(scale))
    random = np.random.default_rng(seed)
    basis = random.normal(size=(count, 2 * dimensions + 2))
    basis[:, 0] = 1 / scale  # the constant direction, which says nothing
    for step in range(SMOOTHINGS):
        basis = (basis + smooth @ basis) / 2
        if step % 5 == 4:
            basis = np.linalg.qr(basis)[0]
    values, turned = np.linalg.eigh(basis.T @ (smooth @ basis))
    layout = (basis @ turned[:, np.argsort(-values)[1 : dimensions + 1]]) * scale[:, None]
    layout *= EXTENT / np.maximum(np.abs(layout).max(axis=0), 1e-12)
    shaken: Vectors = (layout + random.normal(scale=1e-4, size=layout.shape)).astype(np.float32)
    return shaken


def optimise(graph: csr_array, layout: Vectors, rounds: int, seed: int) -> Vectors:
    """`layout` float32 (n, dimensions) after `rounds` of stochastic gradient descent on the cross-entropy of UMAP."""
    edges = graph.tocoo()
    strongest = edges.data.max(initial=0)
    used = edges.data * rounds >= strongest
    period = (strongest / edges.data[used]).astype(np.float32)
    heads, tails = edges.coords[0][used].astype(np.int32), edges.coords[1][used].astype(np.int32)
    moved = layout.copy()
    _descend(moved, heads, tails, period, rounds, np.uint64(seed * 2 + 1))
    return moved


@compiled
def _clipped(step: np.float32) -> np.float32:
    return min(max(step, np.float32(-4)), np.float32(4))


@compiled
def _power(square: np.float32) -> np.float32:
    """The square to the power CURVE_B by two roots, a third of the cost."""
    root = np.float32(math.sqrt(square))
    return root * np.float32(math.sqrt(root))


@compiled
def _pull(square: np.float32) -> np.float32:
    if square == 0:
        return np.float32(0)
    power = _power(square)
    return np.float32(2) * CURVE_A * CURVE_B * power / (square * (np.float32(1) + CURVE_A * power))


@compiled
def _push(square: np.float32) -> np.float32:
    return np.float32(2) * CURVE_B / ((np.float32(0.001) + square) * (np.float32(1) + CURVE_A * _power(square)))


@compiled
def _draw(others: npt.NDArray[np.int64], count: np.uint64, state: np.uint64) -> np.uint64:
    """Random points, by xorshift (Marsaglia 2003); its next state."""
    for place in range(others.size):
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        others[place] = np.int64(((state >> np.uint64(32)) * count) >> np.uint64(32))
    return state


@compiled
def _descend(
    layout: Vectors,
    heads: npt.NDArray[np.int32],
    tails: npt.NDArray[np.int32],
    period: Vectors,
    rounds: int,
    state: np.uint64,
) -> None:
    """Pull the ends of each edge together once in `period` rounds, and push random points away; in place.

    All steps of an edge start from where its head was: they wait for each other no more, which halves the time.
    """
    count, dimensions = layout.shape
    due = period.copy()
    others = np.empty(REPULSIONS, np.int64)
    gaps, pushes = np.empty((dimensions, REPULSIONS), np.float32), np.empty(REPULSIONS, np.float32)
    for epoch in range(rounds):
        rate = np.float32(1) - np.float32(epoch) / np.float32(rounds)
        for edge in range(heads.size):
            if due[edge] > epoch:
                continue
            due[edge] += period[edge]
            head, tail = heads[edge], tails[edge]
            state = _draw(others, np.uint64(count), state)
            square = np.float32(0)
            pushes[:] = 0
            for axis in range(dimensions):
                here = layout[head, axis]
                square += (here - layout[tail, axis]) ** 2
                for place in range(REPULSIONS):
                    gap = here - layout[others[place], axis]
                    gaps[axis, place] = gap
                    pushes[place] += gap * gap
            pull = _pull(square)
            for place in range(REPULSIONS):
                pushes[place] = _push(pushes[place])
            for axis in range(dimensions):
                step = _clipped(pull * (layout[tail, axis] - layout[head, axis]))
                layout[tail, axis] -= rate * step
                for place in range(REPULSIONS):
                    step += _clipped(pushes[place] * gaps[axis, place])
                layout[head, axis] += rate * step
