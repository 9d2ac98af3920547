"""Exact search for all pairs of unit vectors within a cosine, by matrix products of bounded size."""

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]

ROWS, COLUMNS = 1024, 8192
ROUNDING = 1e-4
"""Largest error of a matrix product; pairs near the limit are computed again one by one."""


def cosine_pairs(vectors: Vectors, cosine_min: float) -> tuple[Rows, Rows, Vectors]:
    """All pairs i < j of rows of float32 (n, dimension) with at least this cosine, returned as by `close_rows`."""
    i, j, cosines = close_rows(vectors, vectors, cosine_min)
    once = i < j
    return i[once], j[once], cosines[once]


def close_rows(a: Vectors, b: Vectors, cosine_min: float) -> tuple[Rows, Rows, Vectors]:
    """All pairs of a row of `a` and a row of `b` whose inner product is at least `cosine_min`; the search is exact.

    Returns:
        int64 (pairs,) rows of `a`, int64 (pairs,) rows of `b`, sorted, and their cosines, float32 (pairs,). A cosine
        does not depend on the other rows.
    """
    found = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))]
    for top in range(0, len(a), ROWS):
        for left in range(0, len(b), COLUMNS):
            near = a[top : top + ROWS] @ b[left : left + COLUMNS].T >= cosine_min - ROUNDING
            i, j = np.nonzero(near)
            i, j = i + top, j + left
            cosines = np.einsum("nd,nd->n", a[i], b[j], optimize=False)
            sure = cosines >= np.float32(cosine_min)
            found.append((i[sure], j[sure], cosines[sure]))
    i, j, cosines = (np.concatenate(each) for each in zip(*found, strict=True))
    order = np.lexsort((j, i))
    return i[order], j[order], cosines[order]
