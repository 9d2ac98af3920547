"""Which pixels make each new one of a smaller or larger picture, and how much each counts, as in Pillow."""

import math
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tasks.pixels.sums import LOW_BITS, UNIT_BITS
from tasks.running.compiled import compiled

Box = tuple[int, int, int, int]
"""Left, top, width and height of a part, in pixels."""


class Filter(IntEnum):
    """How a pixel's weight falls with its distance; the value is how many pixels far it reaches."""

    BILINEAR = 1
    BICUBIC = 2
    LANCZOS = 3


class Taps(NamedTuple):
    """Which pairs of neighbouring pixels make each new one, and how much each pixel counts."""

    starts: npt.NDArray[np.int64]
    """First pair of each new pixel, int64 (size,)."""
    counts: npt.NDArray[np.int64]
    """How many pairs there are, int64 (size,)."""
    weights: npt.NDArray[np.int32]
    """The two parts of weights in units of 2 ** -22, two int16 in each int32 (size, 2, most pairs)."""


class Plan(NamedTuple):
    """How pictures of one size become pictures of another."""

    across: Taps
    down: Taps
    down_first: bool
    """Whether Pillow (13 and later) goes down the columns first, which rounds otherwise."""


NOTHING = Taps(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 2, 1), np.int32))


@lru_cache(maxsize=512)
def plan(old: tuple[int, int], new: tuple[int, int], kernel: Filter, crop: Box | None = None) -> Plan:
    """From one (width, height) to another. With `crop` only that part of the new picture is made."""
    left, top, width, height = crop or (0, 0, *new)
    down_first = new[1] < old[1] and old[1] - new[1] > 2 * (old[0] - new[0])
    return Plan(_taps(old[0], new[0], kernel, left, width), _taps(old[1], new[1], kernel, top, height), down_first)


def _taps(length: int, size: int, kernel: Filter, first: int, count: int) -> Taps:
    """Of `count` new pixels, from `first` on, of the `size` that a row of `length` becomes."""
    most = 2 * math.ceil(kernel * max(length / size, 1.0)) + 1
    starts, counts = np.zeros(count, np.int64), np.zeros(count, np.int64)
    whole = np.zeros((count, 2 * (most // 2 + 1)), np.int32)
    _fill_taps(length, size, int(kernel), first, starts, counts, whole)
    parts = np.stack([whole >> LOW_BITS, whole & ((1 << LOW_BITS) - 1)], axis=1)
    return Taps(starts, counts, parts.astype(np.int16).view(np.int32))


@compiled
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


@compiled
def _fill_taps(
    length: int,
    size: int,
    reach: int,
    first: int,
    starts: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    weights: npt.NDArray[np.int32],
) -> None:
    scale = length / size
    stretch = max(scale, 1.0)
    unscaled = np.zeros(weights.shape[1])
    for place in range(counts.size):
        centre = (first + place + 0.5) * scale
        start = max(int(centre - reach * stretch + 0.5), 0)
        count = min(int(centre + reach * stretch + 0.5), length) - start
        total = 0.0
        for tap in range(count):
            unscaled[tap] = _weight(reach, (tap + start - centre + 0.5) * (1.0 / stretch))
            total += unscaled[tap]
        for tap in range(count):
            weight = unscaled[tap] / total * (1 << UNIT_BITS)
            weights[place, start % 2 + tap] = int(weight - 0.5) if weight < 0 else int(weight + 0.5)
        starts[place], counts[place] = start // 2, (start % 2 + count + 1) // 2
