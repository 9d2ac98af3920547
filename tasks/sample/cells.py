"""Nearest neighbours of many vectors: each is compared with those in the cells around it (an inverted file)."""

import math
from dataclasses import dataclass

import numpy as np

from tasks.running.parallel import map_ordered
from tasks.sample.neighbours import Places, Rows, Vectors, keep_largest, largest, nearest

EXACT_MAX = 10_000
"""Up to so many vectors every one is compared with every other."""
PROBES = 8
"""Cells that a vector is compared with; there are as many cells as the root of the number of vectors."""
FAR_SHARE = 0.1
"""Share of the vectors, those farthest from what their cells hold, that are compared with all after that: neighbours of
what belongs nowhere are anywhere, and half of them would be missed."""
MEANS_ROWS, MEANS_ROUNDS = 10_000, 4
"""The means of the cells are those of so many first rows, after so many rounds."""
PART = 4096
"""Vectors that are looked up together."""


def nearest_others(vectors: Vectors, count: int, workers: int = 1) -> tuple[Rows, Vectors]:
    """The `count` other rows nearest to each row, nearest first, and their cosine distances, as `nearest` gives them.

    Beyond EXACT_MAX they are nearly those: vectors lie in cells around the means of spherical k-means, and each is
    compared with all in the cells whose means are nearest to it (Sivic and Zisserman 2003; Jegou, Douze and Schmid
    2011, sec. IV, with whole vectors for codes).
    """
    if len(vectors) <= EXACT_MAX:
        return nearest(vectors, vectors, count, exclude_self=True, workers=workers)
    means = cell_means(vectors[:MEANS_ROWS], math.isqrt(len(vectors)))
    near, _ = largest(means, vectors, min(PROBES, len(means)), False, workers)
    order = np.argsort(near[:, 0], kind="stable")
    near, held = near[order], vectors[order]
    cells = _Cells(held, np.searchsorted(near[:, 0], np.arange(len(means) + 1)))

    def of_part(top: int) -> tuple[Rows, Vectors]:
        return cells.nearest(np.arange(top, min(top + PART, len(held))), near[top : top + PART], count)

    parts = list(map_ordered(of_part, range(0, len(held), PART), workers))
    places, cosines = (np.concatenate(column) for column in zip(*parts, strict=True))
    last = cosines[:, -1]
    far = np.argsort(last, kind="stable")[: max(int(FAR_SHARE * len(held)), np.isneginf(last).sum())]
    places[far], cosines[far] = _among_all(held, far, count, workers)
    rows = order.astype(np.int32)[places]
    sort = np.lexsort((rows, -cosines), axis=1)
    rows, cosines = (np.take_along_axis(each, sort, 1)[np.argsort(order)] for each in (rows, cosines))
    return rows, np.maximum(np.float32(1) - cosines, np.float32(0))


def _among_all(vectors: Vectors, queries: Places, count: int, workers: int) -> tuple[Rows, Vectors]:
    """The `count` nearest others of some rows, and their cosines."""
    rows, cosines = largest(vectors, vectors[queries], count + 1, False, workers)
    others = rows != queries[:, None]
    others[others.all(axis=1), -1] = False  # itself is not even among its nearest, beside so many equal ones
    return rows[others].reshape(-1, count), cosines[others].reshape(-1, count)


def cell_means(vectors: Vectors, count: int) -> Vectors:
    """Unit means of `count` cells of unit vectors, by spherical k-means from the first rows on."""
    means = vectors[:count]
    for _ in range(MEANS_ROUNDS):
        owner = (vectors @ means.T).argmax(axis=1)
        sums = (owner == np.arange(count)[:, None]).astype(np.float32) @ vectors
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        means = np.where(lengths > 0, sums / np.maximum(lengths, 1e-12), means)  # an empty cell stays where it is
    return means


@dataclass(frozen=True)
class _Cells:
    vectors: Vectors
    """In order of cell."""
    starts: Places
    """(cells + 1,) where each begins, and the end of the last."""

    def nearest(self, queries: Places, near: Rows, count: int) -> tuple[Rows, Vectors]:
        """The `count` nearest other places of each of the places `queries`, among those in its cells `near`."""
        best = np.full((len(queries), count), -math.inf, np.float32)
        places = np.full((len(queries), count), -1, np.int32)
        for cell in np.unique(near):
            start, end = self.starts[cell : cell + 2]
            asking = np.flatnonzero((near == cell).any(axis=1))
            products = self.vectors[queries[asking]] @ self.vectors[start:end].T
            own = queries[asking] - start
            inside = (own >= 0) & (own < end - start)
            products[inside, own[inside]] = -math.inf
            keep_largest(products, start, asking, best, places)
        return places, best
