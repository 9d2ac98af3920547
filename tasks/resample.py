"""Pictures made smaller or larger exactly as Pillow makes them, byte for byte, several times as fast.

Pillow (`libImaging/Resample.c`) weighs the pixels of every row, rounds to whole levels, then does the same down the
columns, or the other way round, in 22-bit fixed point. Here a picture is laid on its side first, so that both passes
add whole rows of memory, which compiles to vector code. `tests/tasks/test_resample.py` compares the two.
"""

import math
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

import cv2
import numba
import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]
Columns = npt.NDArray[np.uint8]
"""A picture on its side: uint8 (3 * width, height); row 3 * x + c holds channel c of column x."""

Box = tuple[int, int, int, int]
"""Left, top, width and height of a part, in pixels."""

_PRECISION_BITS = 22


class Filter(IntEnum):
    """How a pixel's weight falls with its distance; the value is how many pixels far it reaches."""

    BILINEAR = 1
    BICUBIC = 2
    LANCZOS = 3


@numba.njit(cache=True, nogil=True)
def _weight(reach: int, x: float) -> float:
    """Triangle, Keys' cubic with a = -0.5, or Lanczos, each in Pillow's order of operations."""
    if reach == 1:
        return max(0.0, 1.0 - abs(x))
    if reach == 2:
        x, a = abs(x), -0.5
        if x < 1:
            return ((a + 2) * x - (a + 3)) * x * x + 1
        return (((x - 5) * x + 8) * x - 4) * a if x < 2 else 0.0
    if x == 0:
        return 1.0
    if not -3 <= x < 3:
        return 0.0
    return math.sin(x * math.pi) / (x * math.pi) * (math.sin(x / 3 * math.pi) / (x / 3 * math.pi))


class Taps(NamedTuple):
    """Which pixels make each new one, and how much each of them counts."""

    starts: npt.NDArray[np.int64]
    """First pixel of each new one, int64 (size,)."""
    counts: npt.NDArray[np.int64]
    """How many there are, int64 (size,)."""
    weights: npt.NDArray[np.int32]
    """In units of 2 ** -22, int32 (size, largest count)."""

    def some(self, first: int, count: int) -> "Taps":
        """Those of `count` new pixels from `first` on."""
        end = first + count
        return Taps(self.starts[first:end], self.counts[first:end], self.weights[first:end])


@lru_cache(maxsize=512)
def taps(length: int, size: int, kernel: Filter) -> Taps:
    """Of `size` new pixels from a row of `length`."""
    most = 2 * math.ceil(kernel * max(length / size, 1.0)) + 1
    made = Taps(np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros((size, most), np.int32))
    _fill_taps(length, size, int(kernel), *made)
    return made


@numba.njit(cache=True, nogil=True)
def _fill_taps(
    length: int,
    size: int,
    reach: int,
    starts: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    weights: npt.NDArray[np.int32],
) -> None:
    scale = length / size
    stretch = max(scale, 1.0)
    unscaled = np.zeros(weights.shape[1])
    for place in range(size):
        centre = (place + 0.5) * scale
        start = max(int(centre - reach * stretch + 0.5), 0)
        count = min(int(centre + reach * stretch + 0.5), length) - start
        total = 0.0
        for tap in range(count):
            unscaled[tap] = _weight(reach, (tap + start - centre + 0.5) * (1.0 / stretch))
            total += unscaled[tap]
        for tap in range(count):
            weight = unscaled[tap] / total * (1 << _PRECISION_BITS)
            weights[place, tap] = int(weight - 0.5) if weight < 0 else int(weight + 0.5)
        starts[place], counts[place] = start, count


@numba.njit(cache=True, nogil=True)
def _weighted_rows(
    rows: Pixels,
    starts: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    weights: npt.NDArray[np.int32],
    step: int,
    made: Pixels,
) -> None:
    """New row `step * i + c` is the weighted sum of rows `step * (starts[i] + k) + c`."""
    total = np.zeros(rows.shape[1], np.int32)
    for place in range(starts.size):
        for channel in range(step):
            total[:] = np.int32(1 << 21)  # half of the unit: rounds
            first, weight = step * starts[place] + channel, weights[place]
            whole = counts[place] // 4 * 4
            for tap in range(0, whole, 4):
                _add_four(total, rows[first + tap * step :: step], weight[tap : tap + 4])
            for tap in range(whole, counts[place]):
                row = rows[first + tap * step]
                for at in range(total.size):
                    total[at] = np.int32(total[at] + np.int32(np.int32(row[at]) * weight[tap]))
            new = made[step * place + channel]
            for at in range(total.size):
                new[at] = np.uint8(min(max(total[at] >> np.int32(22), np.int32(0)), np.int32(255)))


@numba.njit(cache=True, nogil=True, inline="always")
def _add_four(total: npt.NDArray[np.int32], rows: Pixels, weights: npt.NDArray[np.int32]) -> None:
    """Four rows at once, so that the total is loaded and stored a quarter as often."""
    a, b, c, d = rows[0], rows[1], rows[2], rows[3]
    p, q, r, s = weights[0], weights[1], weights[2], weights[3]
    for at in range(total.size):
        more = np.int32(np.int32(a[at]) * p) + np.int32(np.int32(b[at]) * q)
        more += np.int32(np.int32(c[at]) * r) + np.int32(np.int32(d[at]) * s)
        total[at] = np.int32(total[at] + more)


def _weighted(rows: Pixels, chosen: Taps, step: int = 1) -> Pixels:
    """uint8 (step * size, n): sums of the rows of uint8 (step * length, n)."""
    made = np.empty((step * len(chosen.starts), rows.shape[1]), np.uint8)
    _weighted_rows(rows, *chosen, step, made)
    return made


def turned(rows: Pixels) -> Pixels:
    """The transpose of uint8 (m, n), in memory of its own."""
    return np.ascontiguousarray(cv2.transpose(rows).reshape(rows.shape[1], rows.shape[0]))


def on_its_side(rgb: Pixels) -> Columns:
    """A picture uint8 (height, width, 3) as columns."""
    return turned(rgb.reshape(len(rgb), -1))


def resized(columns: Columns, size: tuple[int, int], kernel: Filter, crop: Box | None = None) -> Pixels:
    """uint8 (height, width, 3) of another `size` (width, height): `Image.resize(size, kernel)`.

    With `crop` only that part of the new picture is made.
    """
    left, top, width, height = crop or (0, 0, *size)
    across = taps(len(columns) // 3, size[0], kernel).some(left, width)
    down = taps(columns.shape[1], size[1], kernel).some(top, height)
    first = _down_first((len(columns) // 3, columns.shape[1]), size)
    return _both_ways(columns, across, down, 3, first).reshape(height, width, 3)


def resized_grey(grey: Pixels, size: tuple[int, int], kernel: Filter) -> Pixels:
    """uint8 (height, width) of brightness (width, height) that lies on its side."""
    across, down = taps(len(grey), size[0], kernel), taps(grey.shape[1], size[1], kernel)
    return _both_ways(grey, across, down, 1, _down_first((len(grey), grey.shape[1]), size))


def _both_ways(columns: Pixels, across: Taps, down: Taps, channels: int, down_first: bool) -> Pixels:
    if down_first:
        columns = turned(_weighted(turned(columns), down))
        return turned(_weighted(columns, across, channels))
    return _weighted(turned(_weighted(columns, across, channels)), down)


def _down_first(old: tuple[int, int], new: tuple[int, int]) -> bool:
    """Whether Pillow (13 and later) goes down the columns first, which rounds otherwise."""
    return new[1] < old[1] and old[1] - new[1] > 2 * (old[0] - new[0])


@numba.njit(cache=True, nogil=True)
def _brightness(columns: Columns, grey: Pixels) -> None:
    for x in range(grey.shape[0]):
        red, green, blue, made = columns[3 * x], columns[3 * x + 1], columns[3 * x + 2], grey[x]
        for y in range(grey.shape[1]):
            total = np.int32(red[y]) * np.int32(19595) + np.int32(green[y]) * np.int32(38470)
            made[y] = np.uint8((total + np.int32(blue[y]) * np.int32(7471) + np.int32(0x8000)) >> np.int32(16))


def brightness(columns: Columns) -> Pixels:
    """uint8 (width, height), on its side: `Image.convert("L")` (ITU-R 601 luma in 16-bit fixed point)."""
    grey = np.empty((len(columns) // 3, columns.shape[1]), np.uint8)
    _brightness(columns, grey)
    return grey
