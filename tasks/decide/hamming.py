"""All pairs of hashes within a Hamming radius, exactly, by the way that is fastest for how many there are."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tasks.decide.hamming_join import Hashes, Pairs, cheapest_bands, close_pairs

ROWS_AT_ONCE = 512
BRUTE_ROWS_MAX = 4096
"""Below this many, comparing all with all is over before compiled code is loaded."""
BRUTE_NS = 3.0
"""Nanoseconds of one comparison there (benchmarks/duplicates.py)."""


def hashes_from_hex(digits: Sequence[str]) -> Hashes:
    """uint64 (n, words) from hexadecimal digits, 16 for each word."""
    raw = np.frombuffer(bytes.fromhex("".join(digits)), ">u8")
    return raw.astype(np.uint64).reshape(len(digits), -1)


def hamming_pairs(
    hashes: Hashes,
    radius: int,
    *,
    confirming: Hashes | None = None,
    confirming_radius: int = 0,
    fresh: npt.NDArray[np.bool_] | None = None,
) -> Pairs:
    """Every pair (i, j), i < j, of 64-bit hashes that differ in at most `radius` bits, in order; recall is 1.

    Args:
        hashes: uint64 (n,).
        radius: 0 to 64 bits.
        confirming: uint64 (n, words), a longer hash that must be within `confirming_radius` as well.
        confirming_radius: bits.
        fresh: bool (n,); only pairs with at least one fresh row are looked for. All are fresh if None.

    Returns:
        int64 (pairs, 2).
    """
    n = len(hashes)
    confirming = np.empty((n, 0), np.uint64) if confirming is None else confirming
    fresh = np.ones(n, np.bool_) if fresh is None else fresh
    cut, nanoseconds = cheapest_bands(n, int(fresh.sum()), radius)
    if n <= BRUTE_ROWS_MAX or nanoseconds > BRUTE_NS * n * int(fresh.sum()):
        return _all_with_all(hashes, radius, confirming, confirming_radius, fresh)
    return close_pairs(hashes, confirming, fresh, cut, radius, confirming_radius)


def _all_with_all(
    hashes: Hashes, radius: int, confirming: Hashes, confirming_radius: int, fresh: npt.NDArray[np.bool_]
) -> Pairs:
    found = [np.empty((0, 2), np.int64)]
    rows = np.nonzero(fresh)[0]
    for start in range(0, len(rows), ROWS_AT_ONCE):
        some = rows[start : start + ROWS_AT_ONCE]
        place, j = np.nonzero(np.bitwise_count(hashes[some][:, None] ^ hashes[None, :]) <= radius)
        i = some[place]
        once = (i < j) | (~fresh[j])  # a fresh row meets every other fresh row twice
        i, j = i[once], j[once]
        distance = np.bitwise_count(confirming[i] ^ confirming[j]).sum(axis=1, dtype=np.int64)
        near = distance <= confirming_radius
        found.append(np.sort(np.stack([i[near], j[near]], axis=1), axis=1))
    pairs = np.concatenate(found)
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
