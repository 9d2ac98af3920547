"""Names of the numpy arrays that modules hand to each other, and products whose bits depend on nothing else."""

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
"""Embeddings, one a row: (n, dimensions), or (dimensions,) of one alone."""
RowNumbers = npt.NDArray[np.int64]
"""(n,): places of rows in a frame or in an array, from 0."""
HashBits = npt.NDArray[np.uint64]
"""(n, words): hashes of pictures, 64 bits in a word."""

PAIRS_AT_ONCE = 4096
"""Pairs of vectors that are in memory at a time."""


def cosines_of_pairs(one: Vectors, other: Vectors, one_rows: RowNumbers, other_rows: RowNumbers) -> Vectors:
    """Inner products, float32 (pairs,), of rows of `one` with rows of `other`.

    Each is computed by itself: a product of whole matrices rounds it by its place among the others.
    """
    cosines = np.empty(len(one_rows), np.float32)
    for start in range(0, len(one_rows), PAIRS_AT_ONCE):
        part = slice(start, start + PAIRS_AT_ONCE)
        cosines[part] = np.einsum("nd,nd->n", one[one_rows[part]], other[other_rows[part]], optimize=False)
    return cosines
