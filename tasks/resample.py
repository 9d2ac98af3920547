"""Pictures made smaller or larger exactly as Pillow makes them, byte for byte, several times as fast.

Pillow (`libImaging/Resample.c`) weighs the pixels of every row, rounds to whole levels, then does the same down the
columns, or the other way round, in 22-bit fixed point. Here the sums are made in vector registers (`pixel_sums.py`),
and the small brightness of a picture comes from the same pass over its rows as the small picture.
`tests/tasks/test_resample.py` compares the two.
"""

import math
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from tasks.compiled import compiled
from tasks.pixel_sums import (
    LANES,
    LOW_BITS,
    ROW_LANES,
    TAPS,
    UNIT_BITS,
    colour_lanes,
    colour_lanes_few,
    grey_lanes,
    row_lanes,
)

Pixels = npt.NDArray[np.uint8]
Columns = npt.NDArray[np.uint8]
"""A picture on its side: uint8 (3 * width, height); row 3 * x + c holds channel c of column x."""

Box = tuple[int, int, int, int]
"""Left, top, width and height of a part, in pixels."""


Levels = npt.NDArray[np.uint16]
"""One channel of a row."""


class Filter(IntEnum):
    """How a pixel's weight falls with its distance; the value is how many pixels far it reaches."""

    BILINEAR = 1
    BICUBIC = 2
    LANCZOS = 3


class Taps(NamedTuple):
    """Which pixels make each new one, and how much each of them counts; beyond the last new one all count 0."""

    starts: npt.NDArray[np.int64]
    """First pixel of each new one, int64 (a multiple of LANES,)."""
    counts: npt.NDArray[np.int64]
    """How many there are, int64 (size,)."""
    weights: npt.NDArray[np.int16]
    """The two parts of weights in units of 2 ** -22, int16 (a multiple of LANES, 2, a multiple of TAPS)."""


class Plan(NamedTuple):
    """How pictures of one size become pictures of another."""

    across: Taps
    down: Taps
    down_first: bool
    """Whether Pillow (13 and later) goes down the columns first, which rounds otherwise."""


_NOTHING = Taps(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 2, TAPS), np.int16))


@lru_cache(maxsize=512)
def plan(old: tuple[int, int], new: tuple[int, int], kernel: Filter, crop: Box | None = None) -> Plan:
    """From one (width, height) to another. With `crop` only that part of the new picture is made."""
    left, top, width, height = crop or (0, 0, *new)
    down_first = new[1] < old[1] and old[1] - new[1] > 2 * (old[0] - new[0])
    return Plan(_taps(old[0], new[0], kernel, left, width), _taps(old[1], new[1], kernel, top, height), down_first)


def _taps(length: int, size: int, kernel: Filter, first: int, count: int) -> Taps:
    """Of `count` new pixels, from `first` on, of the `size` that a row of `length` becomes."""
    most = 2 * math.ceil(kernel * max(length / size, 1.0)) + 1
    starts, counts = np.zeros(-(-count // LANES) * LANES, np.int64), np.zeros(count, np.int64)
    whole = np.zeros((len(starts), -(-most // TAPS) * TAPS), np.int32)
    _fill_taps(length, size, int(kernel), first, starts, counts, whole)
    parts = np.stack([whole >> LOW_BITS, whole & ((1 << LOW_BITS) - 1)], axis=1)
    return Taps(starts, counts, parts.astype(np.int16))


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
            weights[place, tap] = int(weight - 0.5) if weight < 0 else int(weight + 0.5)
        starts[place], counts[place] = start, count


@compiled
def _across_rows(
    rows: Pixels,
    channels: int,
    starts: npt.NDArray[np.int64],
    weights: npt.NDArray[np.int16],
    made: Pixels,
    grey_starts: npt.NDArray[np.int64],
    grey_weights: npt.NDArray[np.int16],
    grey: Pixels,
) -> None:
    """Rows of 3 channels -> colours of `made` and brightness of `grey`; rows of 1 channel -> `grey`."""
    width, flat, flat_grey = rows.shape[1] // channels, made.reshape(-1), grey.reshape(-1)
    planes = np.zeros((4, width + max(weights.shape[2], grey_weights.shape[2])), np.uint16)
    few = weights.shape[2] == TAPS
    for y in range(rows.shape[0]):
        if channels == 3:
            _split(rows[y], planes[0], planes[1], planes[2])
            if grey_starts.size:
                _brightness(planes[0], planes[1], planes[2], planes[3])
        else:
            planes[3, :width] = rows[y]
        for place in range(0, starts.size, LANES):
            if few:
                colour_lanes_few(planes, starts, weights, place, flat, 3 * (y * starts.size + place))
            else:
                colour_lanes(planes, starts, weights, place, flat, 3 * (y * starts.size + place))
        for place in range(0, grey_starts.size, LANES):
            grey_lanes(planes[3:], grey_starts, grey_weights, place, flat_grey, y * grey_starts.size + place)


@compiled
def _split(row: Pixels, red: Levels, green: Levels, blue: Levels) -> None:
    for x in range(row.size // 3):
        red[x] = row[3 * x]
        green[x] = row[3 * x + 1]
        blue[x] = row[3 * x + 2]


@compiled
def _brightness(red: Levels, green: Levels, blue: Levels, grey: Levels) -> None:
    for x in range(grey.size):
        total = np.int32(red[x]) * np.int32(19595) + np.int32(green[x]) * np.int32(38470)
        grey[x] = np.uint16((total + np.int32(blue[x]) * np.int32(7471) + np.int32(0x8000)) >> np.int32(16))


@compiled
def _all_brightness(rows: Pixels, made: Pixels) -> None:
    planes = np.zeros((4, made.shape[1]), np.uint16)
    for y in range(len(rows)):
        _split(rows[y], planes[0], planes[1], planes[2])
        _brightness(planes[0], planes[1], planes[2], planes[3])
        for x in range(made.shape[1]):
            made[y, x] = np.uint8(planes[3, x])


@compiled
def _down_rows(
    rows: Pixels,
    starts: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    weights: npt.NDArray[np.int32],
    made: Pixels,
) -> None:
    """New row i is the weighted sum of rows starts[i] + k; rows hold ROW_LANES levels at least."""
    width, flat = rows.shape[1], made.reshape(-1)
    for place in range(counts.size):
        for at in range(0, width, ROW_LANES):
            here = min(at, width - ROW_LANES)
            row_lanes(rows, starts[place], counts[place], weights, place, here, flat, place * width + here)


def _across(rows: Pixels, colour: Taps, grey: Taps, channels: int = 3) -> tuple[Pixels, Pixels]:
    """uint8 (n, 3 * new width) and the brightness, uint8 (n, new width), each as wide as `starts`."""
    made = np.empty((len(rows), 3 * len(colour.starts)), np.uint8)
    made_grey = np.empty((len(rows), len(grey.starts)), np.uint8)
    _across_rows(_rows(rows), channels, colour.starts, colour.weights, made, grey.starts, grey.weights, made_grey)
    return made, made_grey


def _down(rows: Pixels, taps: Taps) -> Pixels:
    """uint8 (size, n): sums of the rows of uint8 (length, n)."""
    missing = ROW_LANES - rows.shape[1]
    if missing > 0:
        return _down(np.pad(rows, ((0, 0), (0, missing))), taps)[:, :-missing]
    made = np.empty((len(taps.counts), rows.shape[1]), np.uint8)
    _down_rows(_rows(rows), taps.starts, taps.counts, taps.weights.view(np.int32), made)
    return made


def turned(rows: Pixels) -> Pixels:
    """The transpose of uint8 (m, n), in memory of its own."""
    return np.ascontiguousarray(cv2.transpose(rows).reshape(rows.shape[1], rows.shape[0]))


def on_its_side(rgb: Pixels) -> Columns:
    """A picture uint8 (height, width, 3) as columns."""
    return turned(rgb.reshape(len(rgb), -1))


def resized(rgb: Pixels, size: tuple[int, int], kernel: Filter, crop: Box | None = None) -> Pixels:
    """uint8 (height, width, 3) of another `size` (width, height): `Image.resize(size, kernel)`.

    With `crop` only that part of the new picture is made.
    """
    chosen = plan((rgb.shape[1], rgb.shape[0]), size, kernel, crop)
    if chosen.down_first:
        made = _across(_down(_rows(rgb), chosen.down), chosen.across, _NOTHING)[0]
    else:
        made = _down(_across(_rows(rgb), chosen.across, _NOTHING)[0], chosen.down)
    return _colours(made, chosen)


def resized_grey(pixels: Pixels, size: tuple[int, int], kernel: Filter) -> Pixels:
    """uint8 (height, width): `Image.convert("L").resize(size, kernel)` of colours, or of brightness uint8 (h, w)."""
    chosen = plan((pixels.shape[1], pixels.shape[0]), size, kernel)
    if chosen.down_first and pixels.ndim == 3:
        pixels = brightness(pixels)
    rows, channels = _rows(pixels), 3 if pixels.ndim == 3 else 1
    if chosen.down_first:
        made = _across(_down(rows, chosen.down), _NOTHING, chosen.across, channels)[1]
    else:
        made = _down(_across(rows, _NOTHING, chosen.across, channels)[1], chosen.down)
    return np.ascontiguousarray(made[:, : len(chosen.across.counts)])


def resized_with_grey(
    rgb: Pixels,
    size: tuple[int, int],
    kernel: Filter,
    crop: Box | None,
    grey_size: tuple[int, int],
    grey_kernel: Filter,
) -> tuple[Pixels, Pixels]:
    """What `resized` and `resized_grey` give, from one pass over the rows where both go along them first."""
    old = (rgb.shape[1], rgb.shape[0])
    chosen, chosen_grey = plan(old, size, kernel, crop), plan(old, grey_size, grey_kernel)
    if chosen.down_first or chosen_grey.down_first:
        return resized(rgb, size, kernel, crop), resized_grey(rgb, grey_size, grey_kernel)
    made, made_grey = _across(_rows(rgb), chosen.across, chosen_grey.across)
    small = _down(made_grey, chosen_grey.down)[:, : len(chosen_grey.across.counts)]
    return _colours(_down(made, chosen.down), chosen), np.ascontiguousarray(small)


def brightness(rgb: Pixels) -> Pixels:
    """uint8 (height, width): `Image.convert("L")` (ITU-R 601 luma in 16-bit fixed point)."""
    made = np.empty(rgb.shape[:2], np.uint8)
    _all_brightness(_rows(rgb), made)
    return made


def _rows(pixels: Pixels) -> Pixels:
    """uint8 (height, levels of a row), always read-only, which is a type of its own to the compiler."""
    rows = np.ascontiguousarray(pixels).reshape(len(pixels), -1)
    rows.flags.writeable = False
    return rows


def _colours(made: Pixels, chosen: Plan) -> Pixels:
    width = len(chosen.across.counts)
    return np.ascontiguousarray(made[:, : 3 * width]).reshape(len(made), width, 3)
