"""Nearest neighbours by cosine among all vectors, in blocks that stay in the processor's cache."""

import math

import numpy as np
import numpy.typing as npt

from tasks.running.compiled import compiled
from tasks.running.parallel import map_ordered

Vectors = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int32]
Places = npt.NDArray[np.int64]

ROWS, COLUMNS, STRIDE = 512, 4096, 64
"""Size of a block of cosines (8 MB), and how many of a row are compared at once."""


def nearest(
    vectors: Vectors, queries: Vectors, count: int, exclude_self: bool = False, workers: int = 1
) -> tuple[Rows, Vectors]:
    """The `count` rows of `vectors` nearest to each query, nearest first, and their cosine distances.

    Both are unit vectors, float32 (n, dimension) and (m, dimension); the answer is int32 and float32 (m, count).
    `exclude_self`: the queries are the vectors, and no row is its own neighbour. Ties go to the lower row.
    """
    found = min(count, len(vectors) - exclude_self)
    rows, cosines = largest(vectors, queries, found, exclude_self, workers)
    return rows, np.maximum(np.float32(1) - cosines, np.float32(0))


def largest(vectors: Vectors, queries: Vectors, count: int, exclude_self: bool, workers: int) -> tuple[Rows, Vectors]:
    """Rows with the largest inner products, and these, some queries at a time."""

    def of_part(top: int) -> tuple[Rows, Vectors]:
        some = queries[top : top + ROWS]
        best = np.full((len(some), count), -math.inf, np.float32)
        rows = np.full((len(some), count), -1, np.int32)
        all_of_them = np.arange(len(some))
        block = np.empty(ROWS * COLUMNS, np.float32)  # one for all: a fresh one each time costs as much as filling it
        for left in range(0, len(vectors), COLUMNS):
            columns = vectors[left : left + COLUMNS]
            products = block[: len(some) * len(columns)].reshape(len(some), len(columns))
            np.matmul(some, columns.T, out=products)
            if exclude_self:
                _forget_self(products, top - left)
            keep_largest(products, left, all_of_them, best, rows)
        return rows, best

    parts = list(map_ordered(of_part, range(0, len(queries), ROWS), workers))
    return np.concatenate([rows for rows, _ in parts]), np.concatenate([best for _, best in parts])


def _forget_self(products: Vectors, shift: int) -> None:
    own = np.arange(len(products)) + shift
    inside = (own >= 0) & (own < products.shape[1])
    products[np.flatnonzero(inside), own[inside]] = -math.inf


@compiled
def _any_above(values: Vectors, threshold: np.float32) -> bool:
    """No branch in the loop, so that it becomes vector code."""
    above = 0
    for place in range(values.size):
        above += values[place] > threshold
    return above > 0


@compiled
def _insert(values: Vectors, first: int, best: Vectors, rows: Rows) -> None:
    last = best.size - 1
    for column in range(values.size):
        if values[column] <= best[last]:
            continue
        place = last
        while place > 0 and best[place - 1] < values[column]:
            best[place], rows[place] = best[place - 1], rows[place - 1]
            place -= 1
        best[place], rows[place] = values[column], first + column


@compiled
def keep_largest(products: Vectors, left: int, queries: Places, best: Vectors, rows: Rows) -> None:
    """Insert the columns of a block, numbered from `left`, into the sorted best of the queries that its rows are of."""
    columns = products.shape[1]
    for row in range(products.shape[0]):
        query = queries[row]
        for start in range(0, columns, STRIDE):
            end = min(start + STRIDE, columns)
            if _any_above(products[row, start:end], best[query, -1]):
                _insert(products[row, start:end], left + start, best[query], rows[query])
