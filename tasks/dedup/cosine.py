"""Exact search for all pairs of unit vectors within a cosine, by products of bounded size on the CPU or a card."""

from typing import Any

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]
Close = tuple[Rows, Rows, Vectors]
"""int64 (pairs,) rows of one matrix, int64 (pairs,) rows of the other, and their cosines, float32 (pairs,)."""

CPU = "cpu"
SIDE = 2048
"""Rows and columns of one product; on a card four times as many."""
PAIRS_AT_ONCE = 4096
PRODUCT_ERROR = 4e-3
"""More than the error of any product of unit vectors: a card may keep 10 bits of each factor (TF32)."""


def cosine_pairs(vectors: Vectors, cosine_min: float, device: str = CPU) -> Close:
    """All pairs i < j of rows of float32 (n, dimension) with at least this cosine, returned as by `close_rows`."""
    i, j, cosines = _close(vectors, vectors, cosine_min, device, once=True)
    once = i < j
    return i[once], j[once], cosines[once]


def close_rows(a: Vectors, b: Vectors, cosine_min: float, device: str = CPU) -> Close:
    """All pairs of a row of `a` and a row of `b` whose inner product is at least `cosine_min`, sorted by rows.

    The search is exact: products on `device` (numpy's `cpu`, or one of torch) find candidates, whose cosines are
    computed one by one on the CPU. So a cosine depends neither on the device nor on the other rows.
    """
    return _close(a, b, cosine_min, device, once=False)


def _close(a: Vectors, b: Vectors, cosine_min: float, device: str, once: bool) -> Close:
    """The pairs of `close_rows`; `once` leaves out products below the diagonal."""
    side, least = SIDE if device == CPU else 4 * SIDE, cosine_min - PRODUCT_ERROR
    left = _on_device(a, device)
    right = left if a is b else _on_device(b, device)
    found = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))]
    for top in range(0, len(a), side):
        for start in range(top if once else 0, len(b), side):
            products = left[top : top + side] @ right[start : start + side].T
            if products.max() < least:  # not so if a vector is NaN
                continue
            near = products >= least
            i, j = np.nonzero(near) if isinstance(near, np.ndarray) else near.nonzero().T.cpu().numpy()
            found.append(_sure(a, b, i + top, j + start, cosine_min))
    i, j, cosines = (np.concatenate(each) for each in zip(*found, strict=True))
    order = np.lexsort((j, i))
    return i[order], j[order], cosines[order]


def _on_device(matrix: Vectors, device: str) -> Any:
    if device == CPU:
        return matrix
    import torch

    return torch.from_numpy(np.asarray(matrix)).to(device)


def _sure(a: Vectors, b: Vectors, i: Rows, j: Rows, cosine_min: float) -> Close:
    """Candidate pairs whose cosine, each computed by itself, is at least `cosine_min`."""
    cosines = np.empty(len(i), np.float32)
    for start in range(0, len(i), PAIRS_AT_ONCE):
        some = slice(start, start + PAIRS_AT_ONCE)
        cosines[some] = np.einsum("nd,nd->n", a[i[some]], b[j[some]], optimize=False)
    sure = cosines >= np.float32(cosine_min)
    return i[sure], j[sure], cosines[sure]
