"""Names of the numpy arrays that modules hand to each other."""

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
"""Embeddings, one a row: (n, dimensions), or (dimensions,) of one alone."""
RowNumbers = npt.NDArray[np.int64]
"""(n,): places of rows in a frame or in an array, from 0."""
HashBits = npt.NDArray[np.uint64]
"""(n, words): hashes of pictures, 64 bits in a word."""
