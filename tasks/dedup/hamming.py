"""Exact search for all pairs of 64-bit hashes within a Hamming radius, by multi-index hashing.

Cut two hashes into bands with radii r_b so that sum(r_b + 1) = T + 1. If they differ in at most T bits, then in at
least one band b they differ in at most r_b (pigeonhole; Norouzi, Punjani and Fleet, CVPR 2012). So for each
band the hashes are grouped by its bits, and only groups that differ in at most r_b bits are compared.
"""

from collections.abc import Callable, Sequence
from itertools import combinations
from math import comb
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

from tasks.runtime.arrays import HashBits

Pairs = npt.NDArray[np.int64]
Fresh = npt.NDArray[np.bool_]
Function = TypeVar("Function", bound=Callable[..., Any])

LOOKUP_NS, COMPARISON_NS = 8.0, 0.28
"""Measured nanoseconds to look up a group, and to compare two hashes."""


class Band(NamedTuple):
    """Neighbouring bits of a hash."""

    first: int
    """The lowest bit."""
    width: int
    """Number of bits, 0 to 24; 0 puts all hashes into one group."""
    radius: int
    """Largest number of differing bits in this band; -1 when the other bands already find every pair."""


def compiled(function: Function) -> Function:
    """Compile `function` with numba; the cache is beside this file, in NUMBA_CACHE_DIR or in the user's cache folder.

    If none of these can be written, every process compiles it again.
    """
    try:
        compiled_function: Any = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:
        compiled_function = numba.njit(nogil=True)(function)
    return cast(Function, compiled_function)


def hashes_from_hex(digits: Sequence[str]) -> HashBits:
    """uint64 (n, words) from hexadecimal digits, 16 for each word."""
    raw = np.frombuffer(bytes.fromhex("".join(digits)), ">u8")
    return raw.astype(np.uint64).reshape(len(digits), -1)


def hamming_pairs(hashes: HashBits, radius: int, fresh: Fresh | None = None) -> Pairs:
    """All pairs (i, j), i < j, of 64-bit hashes that differ in at most `radius` bits, sorted; the search is exact.

    Args:
        hashes: uint64 (n,).
        radius: 0 to 64 bits.
        fresh: bool (n,), rows not compared before; pairs of two other rows are left out. None: all rows are fresh.

    Returns:
        int64 (pairs, 2).
    """
    if hashes.ndim != 1 or not 0 <= radius <= 64:
        raise ValueError(f"hashes of shape {hashes.shape} and radius {radius}; give shape (n,) and 0 to 64 bits")
    fresh = np.ones(len(hashes), np.bool_) if fresh is None else fresh
    bands = cheapest_bands(len(hashes), int(fresh.sum()), radius)
    shuffled = _spread_bits(hashes, len(bands))
    total = max(1, len(hashes))
    pair_numbers = np.empty(0, np.int64)  # a pair as i * total + j, because most pairs are found by several bands
    for band in bands:
        pairs = np.sort(_pairs_of_band(shuffled, fresh, band, radius), axis=1)
        pair_numbers = np.union1d(pair_numbers, pairs[:, 0] * total + pairs[:, 1])
    return np.stack(np.divmod(pair_numbers, total), axis=1)


def cheapest_bands(total: int, fresh: int, radius: int) -> list[Band]:
    """The bands with the lowest estimated time for `fresh` of `total` random hashes. A band of 0 bits compares all."""
    cuts = [[Band(0, 0, 0)], *(_equal_bands(count, radius) for count in range(3, 17))]
    return min(cuts, key=lambda bands: sum(_nanoseconds(total, fresh, band) for band in bands))


def _equal_bands(count: int, radius: int) -> list[Band]:
    edges = [64 * place // count for place in range(count + 1)]
    bits, more = divmod(radius + 1, count)
    return [Band(edges[n], edges[n + 1] - edges[n], bits - 1 + (n < more)) for n in range(count)]


def _nanoseconds(total: int, fresh: int, band: Band) -> float:
    masks = sum(comb(band.width, bits) for bits in range(band.radius + 1))
    groups = 1 << band.width
    return masks * (LOOKUP_NS * (groups + fresh) + COMPARISON_NS * fresh * total / groups)


def _spread_bits(hashes: HashBits, count: int) -> HashBits:
    """The hashes with their bits reordered, so that a band consists of every count-th bit.

    Neighbouring bits of a DCT hash are correlated, so bands of neighbouring bits would give few, large groups.
    """
    order = [bit for start in range(count) for bit in range(start, 64, count)]
    moved = np.zeros_like(hashes)
    for place, bit in enumerate(order):
        moved |= (hashes >> np.uint64(bit) & np.uint64(1)) << np.uint64(place)
    return moved


def _pairs_of_band(hashes: HashBits, fresh: Fresh, band: Band, radius: int) -> Pairs:
    """The pairs whose bits in this band differ in at most its radius."""
    groups = 2**band.width
    keys = (hashes >> np.uint64(band.first) & np.uint64(groups - 1)).astype(np.int64)
    order = np.lexsort((~fresh, keys))  # by group, the fresh first
    starts = np.append(0, np.cumsum(np.bincount(keys, minlength=groups)))
    fresh_ends = starts[:-1] + np.bincount(keys[fresh], minlength=groups)
    flips = (bits for count in range(band.radius + 1) for bits in combinations(range(band.width), count))
    masks = np.array([sum(1 << bit for bit in bits) for bits in flips], np.int64)
    room = max(1, len(hashes))
    while True:
        pairs = np.empty((room, 2), np.int64)
        room = _join(hashes[order], order, starts, fresh_ends, masks, np.uint64(radius), pairs)
        if room <= len(pairs):
            return pairs[:room]


@compiled
def _bit_count(value: np.uint64) -> np.uint64:
    value -= (value >> np.uint64(1)) & np.uint64(0x5555555555555555)
    value = (value & np.uint64(0x3333333333333333)) + ((value >> np.uint64(2)) & np.uint64(0x3333333333333333))
    value = (value + (value >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (value * np.uint64(0x0101010101010101)) >> np.uint64(56)


@compiled
def _any_near(group: HashBits, value: np.uint64, radius: np.uint64) -> bool:
    """Whether any hash of the group is within the radius. The loop has no branch, so numba vectorises it."""
    near = 0
    for place in range(group.size):
        near += int(_bit_count(group[place] ^ value) <= radius)
    return near > 0


@compiled
def _join(
    hashes: HashBits,
    rows: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    fresh_ends: npt.NDArray[np.int64],
    masks: npt.NDArray[np.int64],
    radius: np.uint64,
    pairs: Pairs,
) -> int:
    """Write the pairs whose keys differ by a mask into `pairs` until it is full; returns the number of all such pairs.

    `hashes` are sorted by key; `rows` has their original row numbers. Key k has starts[k] to starts[k + 1], its fresh
    rows first, up to fresh_ends[k]. Each pair of groups is visited from both sides, so a fresh row is compared with the
    whole other group if its key is larger, else only with the rows in it that are not fresh.
    """
    count = 0
    for key in range(len(starts) - 1):
        for one in range(starts[key], fresh_ends[key]):
            for mask in masks:
                other = key ^ mask
                low = starts[other] if other > key else fresh_ends[other]
                low = one + 1 if other == key else low
                if not _any_near(hashes[low : starts[other + 1]], hashes[one], radius):
                    continue
                for place in range(low, starts[other + 1]):
                    if _bit_count(hashes[one] ^ hashes[place]) <= radius:
                        if count < len(pairs):
                            pairs[count, 0], pairs[count, 1] = rows[one], rows[place]
                        count += 1
    return count
