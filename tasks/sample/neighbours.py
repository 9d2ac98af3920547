"""Nearest neighbours by cosine: all pairs in blocks; of many vectors on the strongest directions first."""

import math

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh

from tasks.compiled import compiled
from tasks.parallel import map_ordered

Vectors = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int32]

EXACT_MAX = 20_000
"""Up to so many vectors are searched as they are: that costs no more, and finds strays better."""
PLANES = 64
"""Principal directions that candidates are searched in; vectors of up to twice as many are searched as they are."""
CANDIDATES = 3
"""Candidates for each neighbour that is asked for; their cosines are then computed in all dimensions."""
PLANES_ROWS = 10_000
"""The directions are those of so many first rows."""
ROWS, COLUMNS, STRIDE = 512, 4096, 64
"""Size of a block of cosines (8 MB), and how many of a row are compared at once."""


def nearest(
    vectors: Vectors, queries: Vectors, count: int, exclude_self: bool = False, workers: int = 1
) -> tuple[Rows, Vectors]:
    """The `count` rows of `vectors` nearest to each query, nearest first, and their cosine distances.

    Both are unit vectors, float32 (n, dimension) and (m, dimension); the answer is int32 and float32 (m, count).
    `exclude_self`: the queries are the vectors, and no row is its own neighbour. Ties go to the lower row.
    """
    found = min(count * CANDIDATES, len(vectors) - exclude_self)
    large = len(vectors) > EXACT_MAX and vectors.shape[1] > 2 * PLANES
    planes = principal(vectors, PLANES) if large else None
    if planes is None:
        rows, cosines = _largest(vectors, queries, min(count, found), exclude_self, workers)
    else:
        rows, _ = _largest(vectors @ planes, queries @ planes, found, exclude_self, workers)
        rows, cosines = _exactly(vectors, queries, rows, min(count, found))
    return rows, np.maximum(np.float32(1) - cosines, np.float32(0))


def principal(vectors: Vectors, count: int) -> Vectors:
    """The `count` directions of largest variance as columns, float32 (dimension, count), signs fixed."""
    some, dimension = vectors[:PLANES_ROWS], vectors.shape[1]
    centred = some - some.mean(axis=0)
    covariance = (centred.T @ centred).astype(np.float64)
    strongest = eigh(covariance, subset_by_index=(dimension - count, dimension - 1))[1][:, ::-1]
    signs = np.sign(strongest[np.abs(strongest).argmax(axis=0), np.arange(strongest.shape[1])])
    planes: Vectors = (strongest * signs).astype(np.float32)
    return planes


def _largest(vectors: Vectors, queries: Vectors, count: int, exclude_self: bool, workers: int) -> tuple[Rows, Vectors]:
    """Rows with the largest inner products, and these, some queries at a time."""

    def of_part(top: int) -> tuple[Rows, Vectors]:
        some = queries[top : top + ROWS]
        best = np.full((len(some), count), -math.inf, np.float32)
        rows = np.full((len(some), count), -1, np.int32)
        block = np.empty(ROWS * COLUMNS, np.float32)  # one for all: a fresh one each time costs as much as filling it
        for left in range(0, len(vectors), COLUMNS):
            columns = vectors[left : left + COLUMNS]
            products = block[: len(some) * len(columns)].reshape(len(some), len(columns))
            np.matmul(some, columns.T, out=products)
            if exclude_self:
                _forget_self(products, top - left)
            _keep_largest(products, left, best, rows)
        return rows, best

    parts = list(map_ordered(of_part, range(0, len(queries), ROWS), workers))
    return np.concatenate([rows for rows, _ in parts]), np.concatenate([best for _, best in parts])


def _forget_self(products: Vectors, shift: int) -> None:
    own = np.arange(len(products)) + shift
    inside = (own >= 0) & (own < products.shape[1])
    products[np.flatnonzero(inside), own[inside]] = -math.inf


def _exactly(vectors: Vectors, queries: Vectors, rows: Rows, count: int) -> tuple[Rows, Vectors]:
    """The best `count` of the candidates `rows`, by the whole vectors."""
    cosines = np.empty(rows.shape, np.float32)
    for top in range(0, len(rows), ROWS):
        part = slice(top, top + ROWS)
        cosines[part] = np.einsum("qd,qcd->qc", queries[part], vectors[rows[part]], optimize=False)
    order = np.lexsort((rows, -cosines), axis=1)[:, :count]
    return np.take_along_axis(rows, order, 1), np.take_along_axis(cosines, order, 1)


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
def _keep_largest(products: Vectors, left: int, best: Vectors, rows: Rows) -> None:
    """Insert the columns of a block into the sorted best of each row."""
    columns = products.shape[1]
    for query in range(products.shape[0]):
        for start in range(0, columns, STRIDE):
            end = min(start + STRIDE, columns)
            if _any_above(products[query, start:end], best[query, -1]):
                _insert(products[query, start:end], left + start, best[query], rows[query])
