"""Exact search for all pairs of unit vectors within a cosine, by matrix products of bounded size."""

import numpy as np
import numpy.typing as npt

from tasks.runtime.matrices import CPU, PRODUCT_ERROR, on_device, places

Vectors = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]
Close = tuple[Rows, Rows, Vectors]
"""int64 (pairs,) rows of one matrix, int64 (pairs,) rows of the other, and their cosines, float32 (pairs,)."""

SIDE = 2048
"""Rows and columns of one product; on a card four times as many."""
PAIRS_AT_ONCE = 4096


def cosine_pairs(vectors: Vectors, cosine_min: float, device: str = CPU) -> Close:
    """All pairs i < j of rows of float32 (n, dimension) with at least this cosine, returned as by `close_rows`."""
    i, j, cosines = _close(vectors, vectors, cosine_min, device, once=True)
    once = i < j
    return i[once], j[once], cosines[once]


def close_rows(a: Vectors, b: Vectors, cosine_min: float, device: str = CPU) -> Close:
    """All pairs of a row of `a` and a row of `b` whose inner product is at least `cosine_min`, sorted by rows.

    The search is exact: products on `device` (`product_device`) find candidates, whose cosines are computed again one
    by one on the CPU. So a cosine depends neither on the device nor on the other rows.
    """
    return _close(a, b, cosine_min, device, once=False)


def _close(a: Vectors, b: Vectors, cosine_min: float, device: str, once: bool) -> Close:
    """The pairs of `close_rows`; `once` leaves out products below the diagonal."""
    side = SIDE if device == CPU else 4 * SIDE
    left = on_device(a, device)
    right = left if a is b else on_device(b, device)
    found = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))]
    for top in range(0, len(a), side):
        for start in range(top if once else 0, len(b), side):
            products = left[top : top + side] @ right[start : start + side].T
            if products.max() < cosine_min - PRODUCT_ERROR:  # not so if a vector is NaN
                continue
            i, j = places(products >= cosine_min - PRODUCT_ERROR)
            found.append(_sure(a, b, i + top, j + start, cosine_min))
    i, j, cosines = (np.concatenate(each) for each in zip(*found, strict=True))
    order = np.lexsort((j, i))
    return i[order], j[order], cosines[order]


def _sure(a: Vectors, b: Vectors, i: Rows, j: Rows, cosine_min: float) -> Close:
    """Candidate pairs whose cosine, each computed by itself, is at least `cosine_min`."""
    cosines = np.empty(len(i), np.float32)
    for start in range(0, len(i), PAIRS_AT_ONCE):
        some = slice(start, start + PAIRS_AT_ONCE)
        cosines[some] = np.einsum("nd,nd->n", a[i[some]], b[j[some]], optimize=False)
    sure = cosines >= np.float32(cosine_min)
    return i[sure], j[sure], cosines[sure]
