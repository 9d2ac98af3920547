"""Pictures made smaller or larger exactly as Pillow makes them, byte for byte, several times as fast.

Pillow (`libImaging/Resample.c`) weighs the pixels of every row, rounds to whole levels, then does the same down the
columns, or the other way round, in 22-bit fixed point. Here the sums are made in vector registers (`pixel_sums.py`),
and the small brightness of a picture comes from the same pass over its rows as the small picture.
`tests/tasks/pixels/test_resample.py` compares the two.
"""

import cv2
import numpy as np
import numpy.typing as npt

from tasks.pixels.resample_plan import NOTHING, Box, Filter, Plan, Taps, plan
from tasks.pixels.sums import (
    COLOUR_PIXELS,
    GREY_PIXELS,
    LANES,
    PAIR,
    pair_brightness,
    turned_colours,
    turned_levels,
    weighted,
)
from tasks.running.compiled import compiled

Pixels = npt.NDArray[np.uint8]
Columns = npt.NDArray[np.uint8]
"""A picture on its side: uint8 (3 * width, height); row 3 * x + c holds channel c of column x."""


@compiled
def _across_rows(
    rows: Pixels,
    channels: int,
    starts: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    weights: npt.NDArray[np.int32],
    made: Pixels,
    grey_starts: npt.NDArray[np.int64],
    grey_counts: npt.NDArray[np.int64],
    grey_weights: npt.NDArray[np.int32],
    grey: Pixels,
) -> None:
    """Rows of 3 channels -> colours of `made` and brightness of `grey`; rows of 1 channel -> `grey`."""
    height, stride = rows.shape
    step = PAIR * _padded(stride // channels // 2 + 1, 8)
    planes, levels, grey_plane = np.zeros(4 * step, np.uint8), rows.reshape(-1), step * (channels // 3 * 3)
    sums, grey_sums = np.zeros(made.shape[1] * LANES, np.uint8), np.zeros(grey.shape[1] * LANES, np.uint8)
    for y in range(0, height, LANES):
        first = y * stride
        if first + LANES * (stride + 1) > levels.size:  # what lies behind the rows is read, though not used
            last = np.zeros(LANES * (stride + 1), np.uint8)
            last[: levels.size - first] = levels[first:]
            _lay_out(last, 0, stride, channels, planes, step)
        else:
            _lay_out(levels, first, stride, channels, planes, step)
        for place in range(starts.size):
            for channel in range(3):
                at, to = channel * step + PAIR * starts[place], (3 * place + channel) * LANES
                weighted(planes, at, PAIR, counts[place], weights, place, sums, to)
        if grey_starts.size and channels == 3:
            for at in range(0, step, PAIR):
                pair_brightness(planes, at, step)
        for place in range(grey_starts.size):
            at = grey_plane + PAIR * grey_starts[place]
            weighted(planes, at, PAIR, grey_counts[place], grey_weights, place, grey_sums, place * LANES)
        _lay_down(sums, made, y)
        _lay_down(grey_sums, grey, y)


@compiled
def _lay_out(levels: Pixels, first: int, stride: int, channels: int, planes: Pixels, step: int) -> None:
    """Sixteen rows, from level `first` on, become planes of pairs."""
    if channels == 3:
        for pixel in range(0, stride // 3, COLOUR_PIXELS):
            turned_colours(levels, first + 3 * pixel, stride, planes, PAIR * pixel // 2, step)
    else:
        for pixel in range(0, stride, GREY_PIXELS):
            turned_levels(levels, first + pixel, stride, planes, PAIR * pixel // 2, PAIR)


@compiled
def _lay_down(sums: Pixels, made: Pixels, y: int) -> None:
    """Sixteen new levels of each of sixteen rows become pairs of rows, from row `y` on."""
    levels, step = made.reshape(-1), 2 * made.shape[1]
    for at in range(0, made.shape[1], LANES):
        turned_levels(sums, at * LANES, LANES, levels, y // 2 * step + 2 * at, step)


@compiled
def _padded(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple


@compiled
def _paired(rows: Pixels, made: Pixels) -> None:
    """Rows (n, width) -> pairs of rows (half of n, at least width, 2)."""
    for y in range(rows.shape[0]):
        for x in range(rows.shape[1]):
            made[y // 2, x, y % 2] = rows[y, x]


@compiled
def _all_brightness(rows: Pixels, made: Pixels) -> None:
    for y in range(made.shape[0]):
        for x in range(made.shape[1]):
            total = np.int32(rows[y, 3 * x]) * np.int32(19595) + np.int32(rows[y, 3 * x + 1]) * np.int32(38470)
            made[y, x] = (total + np.int32(rows[y, 3 * x + 2]) * np.int32(7471) + np.int32(0x8000)) >> np.int32(16)


@compiled
def _down_rows(
    pairs: Pixels,
    starts: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    weights: npt.NDArray[np.int32],
    made: Pixels,
) -> None:
    """New row i is the weighted sum of counts[i] pairs of rows from starts[i] on."""
    levels, flat, step = pairs.reshape(-1), made.reshape(-1), 2 * made.shape[1]
    for place in range(starts.size):
        for at in range(0, made.shape[1], LANES):
            to = place * made.shape[1] + at
            weighted(levels, starts[place] * step + 2 * at, step, counts[place], weights, place, flat, to)


def _across(rows: Pixels, colour: Taps, grey: Taps, channels: int = 3) -> tuple[Pixels, Pixels]:
    """Pairs of rows, uint8 (half of n, 3 * new width, 2), and of their brightness, uint8 (half of n, new width, 2).

    Both are a little longer and wider than that.
    """
    pairs = _padded(len(rows), LANES) // 2
    made = np.empty((pairs, _padded(3 * len(colour.starts), LANES), 2), np.uint8)
    made_grey = np.empty((pairs, _padded(len(grey.starts), LANES), 2), np.uint8)
    _across_rows(_rows(rows), channels, *colour, made, *grey, made_grey)
    return made, made_grey


def _down(pairs: Pixels, taps: Taps) -> Pixels:
    """uint8 (size, n): sums of pairs of rows, uint8 (half of the length, n, 2)."""
    made = np.empty((len(taps.starts), pairs.shape[1]), np.uint8)
    _down_rows(pairs, *taps, made)
    return made


def _pairs(rows: Pixels) -> Pixels:
    """Pairs of rows, uint8 (half of n, at least width, 2), of uint8 (n, width)."""
    made = np.zeros((-(-len(rows) // 2), _padded(rows.shape[1], LANES), 2), np.uint8)
    _paired(_rows(rows), made)
    return made


def _unpaired(pairs: Pixels) -> Pixels:
    """Rows, uint8 (n, width), of pairs of rows, uint8 (half of n, width, 2)."""
    return np.swapaxes(pairs, 1, 2).reshape(-1, pairs.shape[1])


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
        rows = _down(_pairs(_rows(rgb)), chosen.down)[:, : 3 * rgb.shape[1]]
        made = _unpaired(_across(rows, chosen.across, NOTHING)[0])
    else:
        made = _down(_across(_rows(rgb), chosen.across, NOTHING)[0], chosen.down)
    return _colours(made, chosen)


def resized_grey(pixels: Pixels, size: tuple[int, int], kernel: Filter) -> Pixels:
    """uint8 (height, width): `Image.convert("L").resize(size, kernel)` of colours, or of brightness uint8 (h, w)."""
    chosen = plan((pixels.shape[1], pixels.shape[0]), size, kernel)
    if chosen.down_first and pixels.ndim == 3:
        pixels = brightness(pixels)
    rows, channels = _rows(pixels), 3 if pixels.ndim == 3 else 1
    if chosen.down_first:
        rows = _down(_pairs(rows), chosen.down)[:, : pixels.shape[1]]
        made = _unpaired(_across(rows, NOTHING, chosen.across, channels)[1])
    else:
        made = _down(_across(rows, NOTHING, chosen.across, channels)[1], chosen.down)
    return np.ascontiguousarray(made[: len(chosen.down.starts), : len(chosen.across.starts)])


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
    small = _down(made_grey, chosen_grey.down)[:, : len(chosen_grey.across.starts)]
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
    height, width = len(chosen.down.starts), len(chosen.across.starts)
    return np.ascontiguousarray(made[:height, : 3 * width]).reshape(height, width, 3)
