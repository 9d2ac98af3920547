"""Figures as SVG text, the same bytes for the same data."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.cluster.hierarchy import dendrogram

from tasks.report.axes import BELOW, GAP, TICK, Scale, day_ticks, horizontal, ticks, vertical
from tasks.report.drawing import SMALL, TEXT, Drawing, text_width
from tasks.report.palette import BLUE, GREY, RED, TOPICS, blues
from tasks.untrusted import one_line

WIDTH = 633.6
"""Points; what the page's column is wide."""
LABEL_CHARACTERS = 34
NAMED_TOPICS, NUMBERED_TOPICS = 20, 80
_EDGE, _ROW = 6.0, 17.3
"""Free space around a figure, and from one row to the next; points."""
_CELL_WIDTH, _CELL_HEIGHT = 30.0, 21.6
_PANEL, _BETWEEN = 92.0, 16.0
"""How high a panel is, and what is between two."""
_MAP, _MAP_HEIGHT = 300.0, _EDGE + NAMED_TOPICS * _ROW + BELOW
"""How wide the map is, and how high it and what is beside it."""


def bars(counts: Mapping[str, float], unit: str, colour: str = BLUE) -> str:
    """Horizontal bars, the first on top."""
    rows = _rows(len(counts))
    drawing = Drawing(WIDTH, rows.end + BELOW)
    _bars(drawing, rows, _EDGE, _Bars(_named(counts), list(counts.values()), [colour] * len(counts)), unit)
    return drawing.svg()


def days(when: Sequence[date], series: Mapping[str, Sequence[int]]) -> str:
    """Counts of each day, one panel a series."""
    left = 60.0
    bottom = _EDGE + len(series) * (_PANEL + _BETWEEN) - _BETWEEN
    drawing = Drawing(WIDTH, bottom + BELOW)
    first, last = min(when), max(when)
    spare = 0.02 * (last - first).days + 0.5
    across = Scale(first.toordinal() - spare, last.toordinal() + spare, left, WIDTH - 4 * _EDGE)
    wide = max(1.0, 0.8 * (across.at(1) - across.at(0)))
    marks = [(float(day.toordinal()), text) for day, text in day_ticks(first, last, 8)]
    for number, (name, counts) in enumerate(series.items()):
        top = _EDGE + number * (_PANEL + _BETWEEN)
        up = Scale(0, 1.05 * max(1, *counts), top + _PANEL, top)
        for day, count in zip(when, counts, strict=True):
            drawing.rectangle(across.at(day.toordinal()) - wide / 2, up.at(count), wide, up.start - up.at(count), BLUE)
        vertical(drawing, left, up, ticks(0, up.high, 4, whole=True))
        drawing.text(_EDGE + TEXT / 2, top + _PANEL / 2, name, "middle", upwards=True)
        horizontal(drawing, up.start, across, marks if up.start == bottom else [(place, "") for place, _ in marks])
    years = dict.fromkeys([f"{first:%Y}", f"{last:%Y}"])
    drawing.text(across.end, bottom + BELOW - 8, "–".join(years), "end")
    return drawing.svg()


def rating_intervals(
    models: Sequence[str],
    rating: Sequence[float],
    low: Sequence[float],
    high: Sequence[float],
    unit: str = "Bradley-Terry rating with its 95 % interval",
) -> str:
    """Ratings, or other numbers, as points with their 95 % intervals, the first on top."""
    rows, labels = _rows(len(models), 18.7), _named(models)
    drawing = Drawing(WIDTH, rows.end + BELOW)
    numbers = np.array([rating, low, high], np.float64)
    known = numbers[np.isfinite(numbers)]
    least, most = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    spare = 0.04 * (most - least) or 0.5
    scale = Scale(least - spare, most + spare, _EDGE + _beside(labels), WIDTH - 2 * _EDGE)
    marks = ticks(scale.low, scale.high, 8)
    for value, _ in marks:
        drawing.line([(scale.at(value), rows.start), (scale.at(value), rows.end)], "#eeeeee")
    for place, (point, start, end) in enumerate(numbers.T):
        y = rows.at(place)
        if np.isfinite([start, end]).all():
            drawing.line([(scale.at(start), y), (scale.at(end), y)], GREY, 5)
        if np.isfinite(point):
            drawing.dots([(scale.at(point), y)], BLUE, 5.5)
    vertical(drawing, scale.start, rows, list(enumerate(labels)))
    horizontal(drawing, rows.end, scale, marks, unit)
    return drawing.svg()


def shares(names: Sequence[str], parts: Mapping[str, Sequence[float]], unit: str = "% of votes") -> str:
    """Horizontal bars of one length, cut into parts; every part has one fraction (0 to 1) for each name."""
    rows, labels = _rows(len(names), top=22.0), _named(names)
    drawing = Drawing(WIDTH, rows.end + BELOW)
    scale = Scale(0, 100, _EDGE + _beside(labels), WIDTH - 3 * _EDGE)
    start, x = np.zeros(len(names)), scale.end
    for fractions, colour in zip(parts.values(), (BLUE, GREY, RED), strict=True):
        end = start + 100 * np.array(fractions, np.float64)
        for place in np.flatnonzero(end > start):
            _bar(drawing, rows, scale, (float(start[place]), float(end[place])), int(place), colour)
        start = end
    for part, colour in reversed(list(zip(parts, (BLUE, GREY, RED), strict=True))):
        x -= text_width(part) + 34
        drawing.rectangle(x, _EDGE, 16, 6, colour)
        drawing.text(x + 21, _EDGE + 3, part)
    vertical(drawing, scale.start, rows, list(enumerate(labels)))
    horizontal(drawing, rows.end, scale, ticks(0, 100, 5), unit)
    return drawing.svg()


def topic_map(
    x: npt.NDArray[np.float32],
    y: npt.NDArray[np.float32],
    topic: npt.NDArray[np.int32],
    names: Mapping[int, str],
    sizes: Mapping[int, int],
) -> str:
    """Documents as points and the topics' numbers at their centres; beside it, the largest topics by name and size."""
    drawing = Drawing(WIDTH, _MAP_HEIGHT)
    across, up = _fitting(x, 2 * _EDGE, _MAP), _fitting(y, _MAP_HEIGHT - 2 * _EDGE, 3 * _EDGE)
    places = np.stack([np.interp(v, each[:2], each[2:]) for v, each in ((x, across), (y, up))], axis=1)
    drawing.dots(places[topic < 0].tolist(), GREY, 2.2)
    for number, colour in enumerate(TOPICS):
        drawing.dots(places[(topic >= 0) & (topic % len(TOPICS) == number)].tolist(), colour, 3)
    for number in sorted(names)[:NUMBERED_TOPICS]:
        here = places[topic == number]
        if not len(here):  # none of its few documents is among the points
            continue
        at = np.median(here, axis=0)
        drawing.text(float(at[0]), float(at[1]) - 7, str(number), "middle", SMALL, bold=True)
    largest = sorted(names)[:NAMED_TOPICS]
    labels = [f"{one_line(names[number], LABEL_CHARACTERS)}  {number}" for number in largest]
    counted = _Bars(labels, [sizes[n] for n in largest], [TOPICS[n % len(TOPICS)] for n in largest])
    _bars(drawing, _rows(NAMED_TOPICS), _MAP + _EDGE, counted, "documents")
    return drawing.svg()


def matrix(
    rows: Sequence[str], columns: Sequence[str], values: npt.NDArray[np.float64], low_is_dark: bool = False
) -> str:
    """A table as colours with its numbers; NaN stays empty."""
    down, across = [one_line(name, 22) for name in rows], [one_line(name, 22) for name in columns]
    left, right = _EDGE + _beside(down), _CELL_WIDTH * len(across)
    bottom = _EDGE + _CELL_HEIGHT * len(down)
    drawing = Drawing(left + right + 2 * _EDGE, bottom + _beside(across))
    known = np.isfinite(values)
    shades = blues(_darkness(values[known], low_is_dark))
    for (row, column), (shade, ink) in zip(np.argwhere(known), shades, strict=True):
        x, y = left + _CELL_WIDTH * column, _EDGE + _CELL_HEIGHT * row
        drawing.rectangle(x, y, _CELL_WIDTH, _CELL_HEIGHT, shade)
        number = f"{values[row, column]:.0f}"
        drawing.text(x + _CELL_WIDTH / 2, y + _CELL_HEIGHT / 2, number, "middle", SMALL, ink)
    vertical(drawing, left, Scale(-0.5, len(down) - 0.5, _EDGE, bottom), list(enumerate(down)))
    beside = Scale(-0.5, len(across) - 0.5, left, left + right)
    horizontal(drawing, bottom, beside, [(number, "") for number in range(len(across))])
    for place, name in enumerate(across):
        drawing.text(left + _CELL_WIDTH * (place + 0.5), bottom + TICK + GAP, name, "end", upwards=True)
    return drawing.svg()


def merges(tree: Sequence[tuple[int, int, float]], names: Sequence[str], most: int) -> str:
    """A dendrogram. Row i of `tree` (two nodes and their distance) makes node len(names) + i, as in scipy.

    Of more than `most` leaves only the last merges are drawn, and a leaf may stand for several.
    """
    leaves = len(names)
    sizes = [1] * leaves
    for left, right, _ in tree:
        sizes.append(sizes[left] + sizes[right])
    linkage = np.array([(*row, size) for row, size in zip(tree, sizes[leaves:], strict=True)], np.float64)

    def label(node: int) -> str:
        return names[node] if node < leaves else f"({sizes[node]} topics)"

    drawn = dendrogram(
        linkage, p=most, truncate_mode="lastp", no_plot=True, leaf_label_func=label, show_leaf_counts=False
    )
    rows = _rows(len(drawn["ivl"]), 14.4)
    drawing = Drawing(WIDTH, rows.end + BELOW)
    furthest = max(max(each) for each in drawn["dcoord"]) or 1.0
    scale = Scale(1.05 * furthest, 0, 2 * _EDGE, WIDTH - _EDGE - _beside(drawn["ivl"]))
    for across, along in zip(drawn["icoord"], drawn["dcoord"], strict=True):
        drawing.line(((scale.at(d), rows.at((i - 5) / 10)) for i, d in zip(across, along, strict=True)), BLUE, 1)
    for place, text in enumerate(drawn["ivl"]):
        drawing.text(scale.end + GAP + TICK, rows.at(place), text)
    horizontal(drawing, rows.end, scale, ticks(0, scale.low, 5), "mean cosine distance")
    return drawing.svg()


class _Bars(NamedTuple):
    """Bars from the top."""

    labels: list[str]
    values: Sequence[float]
    colours: list[str]


def _bars(drawing: Drawing, rows: Scale, left: float, shown: _Bars, unit: str) -> None:
    """Bars with their names to the left and their values to the right, from `left` to the edge of the figure."""
    most = max([1.0, *shown.values])
    room = text_width(f"{most:,.0f}", SMALL) + GAP
    scale = Scale(0, most, left + _beside(shown.labels), drawing.width - 2 * _EDGE - room)
    for place, (value, colour) in enumerate(zip(shown.values, shown.colours, strict=True)):
        _bar(drawing, rows, scale, (0, value), place, colour)
        drawing.text(scale.at(value) + GAP, rows.at(place), f"{value:,.0f}", size=SMALL)
    vertical(drawing, scale.start, rows, list(enumerate(shown.labels)))
    horizontal(drawing, rows.end, scale, ticks(0, most, 6 if scale.end - scale.start > 250 else 4, whole=True), unit)


def _bar(drawing: Drawing, rows: Scale, scale: Scale, ends: tuple[float, float], place: int, colour: str) -> None:
    start, end = map(scale.at, ends)
    height = 0.7 * (rows.at(1) - rows.at(0))
    drawing.rectangle(start, rows.at(place) - height / 2, end - start, height, colour)


def _rows(count: int, row: float = _ROW, top: float = _EDGE) -> Scale:
    """Row 0 … count-1 of a figure, from the top."""
    return Scale(-0.5, max(1, count) - 0.5, top, top + row * max(1, count))


def _named(names: Mapping[str, object] | Sequence[str]) -> list[str]:
    return [one_line(name, LABEL_CHARACTERS) for name in names]


def _beside(labels: Sequence[str]) -> float:
    """The space that names beside an axis take."""
    return max(map(text_width, labels), default=0) + TICK + GAP


def _fitting(values: npt.NDArray[np.float32], start: float, end: float) -> Scale:
    """A scale that holds all values, with a little space at both ends."""
    least, most = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    spare = 0.04 * (most - least) or 0.5
    return Scale(least - spare, most + spare, start, end)


def _darkness(values: npt.NDArray[np.float64], low_is_dark: bool) -> npt.NDArray[np.float64]:
    """0 (light) to 1 (dark), from the lowest to the highest value or, where most are low, from half dark to light."""
    span = np.ptp(values) if len(values) else 0.0
    share = (values - values.min()) / span if span else np.zeros(len(values))
    return np.asarray(1 - (1 + share) / 2 if low_is_dark else share)
