"""Compiled loops of the Hamming join: sorted buckets against sorted buckets."""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types
from numba.extending import intrinsic

from tasks.running.compiled import compiled

Hashes = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]
Sides = tuple[Hashes, Hashes, Numbers]
"""Hashes uint64 (n,) in order of key, their confirming hashes uint64 (n, words), and whose they are int64 (n,)."""


@intrinsic
def _popcount(_: Any, value: Any) -> Any:
    """Set bits of a uint64: the processor's own instruction."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), build


popcount: Any = _popcount
"""Called with one uint64; the compiler passes the other argument."""


@compiled
def permuted(hashes: Hashes, order: Hashes) -> Hashes:
    """The hashes with bit order[p] at place p."""
    moved = np.zeros_like(hashes)
    for row in range(hashes.size):
        value = np.uint64(0)
        for place in range(64):
            value |= ((hashes[row] >> order[place]) & np.uint64(1)) << np.uint64(place)
        moved[row] = value
    return moved


@compiled
def any_near(block: Hashes, value: np.uint64, limit: np.uint64) -> bool:
    """Whether any hash of the block is within the limit. No branch in the loop, so that it becomes vector code."""
    beyond = np.uint64(0)
    for place in range(block.size):
        beyond += (limit - popcount(block[place] ^ value)) >> np.uint64(63)
    return bool(beyond != np.uint64(block.size))


@compiled
def in_earlier_band(difference: np.uint64, cut: Any, band: int) -> bool:
    """Whether a band before this one finds a pair with these differing bits."""
    for earlier in range(band):
        part = (difference >> cut.shifts[earlier]) & ((np.uint64(1) << cut.widths[earlier]) - np.uint64(1))
        if np.int64(popcount(part)) <= cut.radii[earlier]:
            return True
    return False


@compiled
def confirmed(one: Hashes, other: Hashes, limit: np.uint64) -> bool:
    """Whether two longer hashes are within the limit."""
    distance = np.uint64(0)
    for word in range(one.size):
        distance += popcount(one[word] ^ other[word])
    return bool(distance <= limit)


@compiled
def write(
    sides: Sides, one: int, begin: int, end: int, cut: Any, band: int, limits: Hashes, pairs: Numbers, count: int
) -> int:
    """Write the pairs of row `one` with rows `begin` to `end`, as far as there is room; all are counted."""
    hashes, confirming, rows = sides
    for other in range(begin, end):
        difference = hashes[one] ^ hashes[other]
        if popcount(difference) > limits[0] or in_earlier_band(difference, cut, band):
            continue
        if not confirmed(confirming[one], confirming[other], limits[1]):
            continue
        if count < len(pairs):
            pairs[count, 0], pairs[count, 1] = rows[one], rows[other]
        count += 1
    return count


@compiled
def join(
    sides: Sides,
    starts: Numbers,
    fresh_ends: Numbers,
    masks: Numbers,
    cut: Any,
    band: int,
    limits: Hashes,
    pairs: Numbers,
) -> int:
    """Write all pairs whose keys differ by a mask, and return how many there are.

    The rows of key k lie from starts[k] to starts[k + 1]; the fresh ones come first, up to fresh_ends[k].
    """
    hashes, count = sides[0], 0
    for key in range(len(starts) - 1):
        start, fresh_end, end = starts[key], fresh_ends[key], starts[key + 1]
        if start == end:
            continue
        for one in range(start, fresh_end):
            if any_near(hashes[one + 1 : end], hashes[one], limits[0]):
                count = write(sides, one, one + 1, end, cut, band, limits, pairs, count)
        for mask in masks[1:]:
            other = key ^ mask
            if other < key:
                continue
            low, high = starts[other], starts[other + 1]
            for one in range(start, fresh_end):
                if any_near(hashes[low:high], hashes[one], limits[0]):
                    count = write(sides, one, low, high, cut, band, limits, pairs, count)
            for one in range(low, fresh_ends[other]):
                if any_near(hashes[fresh_end:end], hashes[one], limits[0]):
                    count = write(sides, one, fresh_end, end, cut, band, limits, pairs, count)
    return count
