"""Exact search for 64-bit hashes within a Hamming radius by multi-index hashing, below quadratic time.

Cut two hashes into bands with radii r_b so that sum(r_b + 1) = T + 1. If they differ in at most T bits, then in at
least one band b they differ in at most r_b (pigeonhole; Norouzi, Punjani and Fleet, CVPR 2012). So hashes are sorted
by the key each band gives them, and only buckets whose keys are that close are compared, block against block.
"""

from itertools import accumulate, combinations
from math import comb
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tasks.decide.hamming_kernel import join, permuted

Hashes = npt.NDArray[np.uint64]
Pairs = npt.NDArray[np.int64]

KEY_BITS_MAX = 24
LOOKUP_NS, BLOCK_NS, COMPARISON_NS = 8.0, 12.0, 0.28
"""Measured (benchmarks/duplicates.py): finding a bucket, starting on one, and comparing with one hash in it."""


class Bands(NamedTuple):
    """A cut of the 64 bits, lowest bits first."""

    shifts: npt.NDArray[np.uint64]
    """First bit of each band."""
    widths: npt.NDArray[np.uint64]
    """Bits of each band."""
    radii: npt.NDArray[np.int64]
    """Most bits two hashes may differ by in the band; -1 where the other bands find every pair."""


def bands(count: int, radius: int) -> Bands:
    """`count` bands of nearly equal width and radius."""
    widths = [64 // count + (place < 64 % count) for place in range(count)]
    each, more = divmod(radius + 1, count)
    radii = [each - 1 + (place < more) for place in range(count)]
    shifts = list(accumulate(widths, initial=0))[:-1]
    return Bands(np.array(shifts, np.uint64), np.array(widths, np.uint64), np.array(radii, np.int64))


def cheapest_bands(total: int, fresh: int, radius: int) -> tuple[Bands, float]:
    """The cut that takes least time to find `fresh` random hashes among `total`, and the nanoseconds it takes."""
    cuts = [bands(count, radius) for count in range(64 // KEY_BITS_MAX + 1, 17)]
    return min(((cut, _nanoseconds(total, fresh, cut)) for cut in cuts), key=lambda choice: choice[1])


def _nanoseconds(total: int, fresh: int, cut: Bands) -> float:
    seconds = 0.0
    for width, radius in zip(cut.widths.tolist(), cut.radii.tolist(), strict=True):
        masks = sum(comb(width, bits) for bits in range(radius + 1)) / 2
        buckets = min(total, 2**width)
        seconds += masks * (LOOKUP_NS * buckets + fresh * (BLOCK_NS + COMPARISON_NS * total / 2**width))
    return seconds


def close_pairs(
    hashes: Hashes, confirming: Hashes, fresh: npt.NDArray[np.bool_], cut: Bands, radius: int, confirming_radius: int
) -> Pairs:
    """Every pair within both radii of which at least one is fresh, once.

    Args:
        hashes: uint64 (n,), searched.
        confirming: uint64 (n, words), a second hash that must be within its own radius; no words confirm all.
        fresh: bool (n,), rows that were not searched for before.
        cut: bands for `radius`.
        radius: largest Hamming distance of `hashes`, bits.
        confirming_radius: largest Hamming distance of `confirming`, bits.

    Returns:
        int64 (pairs, 2), rows (i, j) with i < j, in order.
    """
    mixed = permuted(hashes, _order(len(cut.widths)))
    used = [band for band in range(len(cut.widths)) if cut.radii[band] >= 0]
    found = [_of_band(mixed, confirming, fresh, cut, band, radius, confirming_radius) for band in used]
    pairs = np.sort(np.concatenate([np.empty((0, 2), np.int64), *found]), axis=1)
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


def _order(count: int) -> npt.NDArray[np.uint64]:
    """Every count-th bit side by side.

    Neighbouring bits of a DCT hash go together: a band of neighbours would have few and full buckets.
    """
    return np.array([bit for start in range(count) for bit in range(start, 64, count)], np.uint64)


def _of_band(
    hashes: Hashes,
    confirming: Hashes,
    fresh: npt.NDArray[np.bool_],
    cut: Bands,
    band: int,
    radius: int,
    confirming_radius: int,
) -> Pairs:
    """The pairs that this band finds and no earlier one."""
    width = int(cut.widths[band])
    keys = ((hashes >> cut.shifts[band]) & np.uint64(2**width - 1)).astype(np.uint32)
    old_last = np.argsort((keys << 1 | ~fresh).astype(np.uint16 if width < 16 else np.uint32), kind="stable")
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(keys, minlength=2**width))])
    fresh_ends = starts[:-1] + np.bincount(keys[fresh], minlength=2**width)
    masks = _masks(width, int(cut.radii[band]))
    limits = np.array([radius, confirming_radius], np.uint64)
    sides = hashes[old_last], confirming[old_last], old_last
    pairs = np.empty((len(hashes), 2), np.int64)
    while True:
        count = join(sides, starts, fresh_ends, masks, cut, band, limits, pairs)
        if count <= len(pairs):
            return pairs[:count]
        pairs = np.empty((count, 2), np.int64)


def _masks(width: int, radius: int) -> npt.NDArray[np.int64]:
    """All keys of `width` bits with at most `radius` bits set; 0 first."""
    flips = (bits for count in range(radius + 1) for bits in combinations(range(width), count))
    return np.array([sum(1 << bit for bit in bits) for bits in flips], np.int64)
