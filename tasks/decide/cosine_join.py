"""All pairs of unit vectors within a cosine, exactly; a few directions rule out most of the others.

Split x into its coordinates p in some directions and the length r of what is left. By Cauchy and Schwarz
x . y <= p_x . p_y + r_x r_y, which is an inner product of short vectors: where that is too small, x . y is. The rest is
computed in all dimensions. Time grows with the square of how many there are, by 65 multiply-adds a pair.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh

Vectors = npt.NDArray[np.float32]
Pairs = npt.NDArray[np.int64]
Fresh = npt.NDArray[np.bool_]

DIRECTIONS = 64
BASIS_ROWS = 10_000
"""The directions are the strongest of so many first vectors; others would be slower, not wrong."""
WHOLE_MAX = 4096
"""Up to so many vectors, finding directions costs more than they save."""
ROWS, COLUMNS = 512, 8192
PAIRS_AT_ONCE = 16_384
ROUNDING = 1e-4
"""How far a bound in float32 may be below the truth."""


def cosine_pairs(vectors: Vectors, cosine_min: float, fresh: Fresh | None = None) -> tuple[Pairs, Vectors]:
    """Every pair (i, j), i < j, of rows whose inner product is at least `cosine_min`, in order; recall is 1.

    Args:
        vectors: float32 (n, dimension), of length 1.
        cosine_min: -1 to 1.
        fresh: bool (n,); only pairs with at least one fresh row are looked for. All are fresh if None.

    Returns:
        int64 (pairs, 2) and their cosines, float32 (pairs,), summed in an order that does not depend on the machine.
    """
    found = possible_pairs(bounds(vectors, directions(vectors, len(vectors))), cosine_min, fresh)
    return confirmed(found, cosine_min, lambda rows: vectors[rows])


def directions(vectors: Vectors, total: int) -> Vectors | None:
    """Orthonormal columns, float32 (dimension, 64), for bounds on `total` vectors; None if whole ones are better."""
    some, dimension = vectors[:BASIS_ROWS], vectors.shape[1] if vectors.ndim == 2 else 0
    if total <= WHOLE_MAX or dimension <= 2 * DIRECTIONS:
        return None
    moments = (some.T @ some).astype(np.float64)
    strongest: Vectors = eigh(moments, subset_by_index=(dimension - DIRECTIONS, dimension - 1))[1].astype(np.float32)
    return strongest


def bounds(vectors: Vectors, basis: Vectors | None) -> Vectors:
    """float32 (n, 65): the inner product of two rows is at least that of the two vectors."""
    if basis is None:
        return vectors
    near = vectors @ basis
    rest = np.einsum("nd,nd->n", vectors, vectors) - np.einsum("nd,nd->n", near, near)
    return np.hstack([near, np.sqrt(np.maximum(rest, 0))[:, None]])


def possible_pairs(bound: Vectors, cosine_min: float, fresh: Fresh | None = None) -> Pairs:
    """int64 (pairs, 2) of rows i < j, in order, whose `bounds` do not rule out the cosine."""
    fresh = np.ones(len(bound), np.bool_) if fresh is None else fresh
    found = [np.empty((0, 2), np.int64)]
    rows = np.flatnonzero(fresh)
    for top in range(0, len(rows), ROWS):
        some = rows[top : top + ROWS]
        first = some[0] if fresh.all() else 0  # what lies before was compared with them already
        for left in range(first, len(bound), COLUMNS):
            place, j = np.nonzero(bound[some] @ bound[left : left + COLUMNS].T >= cosine_min - ROUNDING)
            i, j = some[place], j + left
            once = (i < j) | ~fresh[j]
            found.append(np.sort(np.stack([i[once], j[once]], axis=1), axis=1))
    pairs = np.concatenate(found)
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


def confirmed(pairs: Pairs, cosine_min: float, of: Callable[[Pairs], Vectors]) -> tuple[Pairs, Vectors]:
    """Those of `pairs` that reach the cosine, and their cosines; `of` gives the whole vectors of some rows."""
    cosines = np.empty(len(pairs), np.float32)
    for start in range(0, len(pairs), PAIRS_AT_ONCE):
        part = slice(start, start + PAIRS_AT_ONCE)
        i, j = pairs[part].T
        cosines[part] = np.einsum("nd,nd->n", of(i), of(j), optimize=False)
    near = cosines >= np.float32(cosine_min)
    return pairs[near], cosines[near]
