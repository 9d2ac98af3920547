"""Perceptual hashes of decoded pixels: 64-bit DCT hash and 256-bit PDQ.

`phash_bits` equals imagehash.phash bit for bit; `pdq_bits` equals Meta's reference (ThreatExchange `pdq/README.md`).
The first looks at the small brightness of a picture, the second at a picture that lies on its side.
"""

from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.fftpack import dct

from tasks.pixels.resample import Columns, on_its_side
from tasks.running.compiled import compiled

Bits = npt.NDArray[np.bool_]
Plane = npt.NDArray[np.float32]

_PHASH_LOW = 8
_ROUNDING = 1e-6
"""More than two ways to transform 32 x 32 levels (frequencies up to 1.1e6, in float64) differ by."""
_PDQ_SIDE, _PDQ_LOW = 64, 16
_PDQ_QUALITY_DIVISOR = 90


class Windows(NamedTuple):
    """Runs of neighbouring points and what each point counts; the points of a run count 1 together."""

    starts: npt.NDArray[np.int64]
    """First point of each run, int64 (64,)."""
    weights: Plane
    """float32 (64, longest run), 0 beyond the end."""


@cache
def _phash_basis() -> npt.NDArray[np.float64]:
    """The first eight of the unscaled type-II DCT functions of 32 points, float64 (32, 8)."""
    return np.ascontiguousarray(dct(np.eye(32), axis=0)[:_PHASH_LOW].T)


@cache
def _pdq_basis() -> Plane:
    """Rows 1 to 16 of the type-II DCT matrix of 64 points, float32 (16, 64)."""
    frequency, position = np.arange(1, _PDQ_LOW + 1), 2 * np.arange(_PDQ_SIDE) + 1
    scale = np.sqrt(2 / _PDQ_SIDE)
    basis: Plane = (scale * np.cos(np.pi / (2 * _PDQ_SIDE) * np.outer(frequency, position))).astype(np.float32)
    return basis


def phash_bits(grey: npt.NDArray[np.uint8]) -> Bits:
    """64 bits, bool (64,), row by row: which low DCT frequencies of uint8 (32, 32) brightness exceed their median."""
    bits, unclear = clear_phash_bits(grey, _ROUNDING)
    if not unclear:
        return bits
    # Two one-dimensional transforms in imagehash's order: flat pictures are decided by the last rounding.
    low = dct(dct(grey, axis=0)[:_PHASH_LOW], axis=1)[:, :_PHASH_LOW].ravel()
    below, above = np.sort(low)[len(low) // 2 - 1 : len(low) // 2 + 1]
    exceeds: Bits = low > (below + above) / 2
    return exceeds


def clear_phash_bits(grey: npt.NDArray[np.uint8], margin: float) -> tuple[Bits, int]:
    """The bits of `phash_bits`, and how many of their frequencies are nearer to the median than `margin`.

    Frequencies are those of the unscaled type-II DCT. One that is nearer than rounding may have the other bit.
    """
    bits = np.empty(_PHASH_LOW * _PHASH_LOW, np.bool_)
    return bits, _exceed_median(grey, _phash_basis(), margin, bits)


@compiled
def _exceed_median(grey: npt.NDArray[np.uint8], basis: npt.NDArray[np.float64], margin: float, bits: Bits) -> int:
    side, low = basis.shape
    down, both, near = np.zeros((low, side)), np.zeros((low, low)), 0
    for y in range(side):
        for frequency in range(low):
            for x in range(side):
                down[frequency, x] += basis[y, frequency] * grey[y, x]
    for frequency in range(low):
        for x in range(side):
            for other in range(low):
                both[frequency, other] += down[frequency, x] * basis[x, other]
    ordered = np.sort(both.ravel())
    median = (ordered[bits.size // 2 - 1] + ordered[bits.size // 2]) / 2
    for place, value in enumerate(both.ravel()):
        bits[place] = value > median
        near += abs(value - median) < margin
    return near


def pdq_bits(columns: Columns) -> tuple[Bits, int]:
    """256 bits, bool (256,), in Meta's order from the most significant on, and the quality, 0 to 100.

    The reference blurs the brightness with two passes of a box filter in each direction, takes 64 x 64 points of it,
    and the bits say which of 16 x 16 low DCT frequencies exceed their median. Only what reaches those points is
    added up here: one pass over the picture instead of four.
    """
    width, height = len(columns) // 3, columns.shape[1]
    across = np.empty((_PDQ_SIDE, height), np.float32)
    _blurred_luma(columns, *blur_windows(width), across)
    small = np.empty((_PDQ_SIDE, _PDQ_SIDE), np.float32)
    _blurred(np.ascontiguousarray(across.T), *blur_windows(height), small)
    basis = _pdq_basis()
    low = (basis @ small @ basis.T).ravel()
    return (low > np.sort(low)[127])[::-1], _pdq_quality(small)


def pdq_digits(rgb: npt.NDArray[np.uint8]) -> str:
    """The PDQ hash of uint8 (height, width, 3) as 64 hexadecimal digits."""
    return hex_digits(pdq_bits(on_its_side(rgb))[0])


def _pdq_quality(small: Plane) -> int:
    gradients = (small[:-1] - small[1:], small[:, :-1] - small[:, 1:])
    total = sum(int(np.abs((gradient * 100 / 255).astype(int)).sum()) for gradient in gradients)
    return min(100, total // _PDQ_QUALITY_DIVISOR)


@lru_cache(maxsize=256)
def blur_windows(length: int) -> Windows:
    """What a box filter that is applied twice to `length` points makes of them at 64 places."""
    window = -(-length // (2 * _PDQ_SIDE))
    made = Windows(np.zeros(_PDQ_SIDE, np.int64), np.zeros((_PDQ_SIDE, 2 * window - 1), np.float32))
    places = ((np.arange(_PDQ_SIDE) + 0.5) * length / _PDQ_SIDE).astype(np.int64)
    _fill_windows(length, window, places, *made)
    return made


@compiled
def _fill_windows(
    length: int, window: int, places: npt.NDArray[np.int64], starts: npt.NDArray[np.int64], weights: Plane
) -> None:
    """The window of a point reaches one further behind than ahead when its length is even, and ends at the borders."""
    ahead = (window + 2) // 2 - 1
    behind = window - 1 - ahead
    counts = np.zeros(weights.shape[1])
    for run in range(places.size):
        first, last = max(places[run] - behind, 0), min(places[run] + ahead, length - 1)
        starts[run] = max(first - behind, 0)
        counts[:] = 0.0
        for middle in range(first, last + 1):
            low, high = max(middle - behind, 0), min(middle + ahead, length - 1)
            for point in range(low, high + 1):
                counts[point - starts[run]] += 1.0 / (high - low + 1)
        for place in range(counts.size):
            weights[run, place] = counts[place] / (last - first + 1)


@compiled
def _blurred_luma(columns: Columns, starts: npt.NDArray[np.int64], weights: Plane, made: Plane) -> None:
    """Row i of float32 (64, height) is the brightness of the weighted columns of run i."""
    red, green, blue = np.float32(0.299), np.float32(0.587), np.float32(0.114)
    made[:] = 0
    for run in range(starts.size):
        total = made[run]
        for place in range(weights.shape[1]):
            weight = weights[run, place]
            if weight == 0:
                continue
            column = 3 * (starts[run] + place)
            reds, greens, blues = columns[column], columns[column + 1], columns[column + 2]
            for y in range(total.size):
                luma = np.float32(reds[y]) * red + np.float32(greens[y]) * green + np.float32(blues[y]) * blue
                total[y] += luma * weight


@compiled
def _blurred(rows: Plane, starts: npt.NDArray[np.int64], weights: Plane, made: Plane) -> None:
    """Row i of float32 (64, 64) is the sum of the weighted rows of run i."""
    made[:] = 0
    for run in range(starts.size):
        for place in range(weights.shape[1]):
            weight = weights[run, place]
            if weight != 0:
                for x in range(rows.shape[1]):
                    made[run, x] += rows[starts[run] + place, x] * weight


def hex_digits(bits: Bits) -> str:
    """Bits, the most significant first, as lower-case hexadecimal digits."""
    return np.packbits(bits).tobytes().hex()
