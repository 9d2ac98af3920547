"""Figures as SVG text, the same bytes for the same data."""

import io
import warnings
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy.cluster.hierarchy import dendrogram

from tasks.untrusted import one_line

_STYLE: Any = {
    "svg.hashsalt": "arena-curation",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "date.converter": "concise",
    "text.usetex": False,
    "text.parse_math": False,
}
BLUE, GREY, RED = "#2f6fb0", "#c9ced6", "#b5483a"
WIDTH = 8.8
"""Inches; what the page's column is wide."""
LABEL_CHARACTERS = 34
NAMED_TOPICS, NUMBERED_TOPICS = 20, 80
_GREYS = (14, 15)
"""Colours of tab20 that would be taken for outliers."""


def _svg(figure: Figure) -> str:
    sink, layout = io.StringIO(), figure.get_layout_engine()
    assert layout is not None, "every figure has one"
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # text stays text: the browser has the glyphs that our font lacks
        FigureCanvasSVG(figure)
        figure.set_dpi(FigureCanvasSVG.fixed_dpi)
        layout.execute(figure)  # here and not by savefig, which would draw everything twice for it
        figure.set_layout_engine(None)
        figure.savefig(sink, format="svg", metadata={"Date": None, "Creator": None})
    text = sink.getvalue()
    return text[text.index("<svg") :]


def _figure(height: float, width: float = WIDTH) -> Figure:
    return Figure(figsize=(width, height), layout="constrained")


def _bars(axes: Axes, labels: Sequence[str], values: Sequence[float], colours: Any) -> None:
    places = np.arange(len(labels))
    axes.barh(places, values, color=colours, height=0.7)
    axes.set_yticks(places, labels)
    axes.invert_yaxis()
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    for place, value in zip(places, values, strict=True):
        axes.annotate(f"{value:,.0f}", (value, place), (3, 0), textcoords="offset points", va="center", fontsize=8)
    axes.margins(x=0.1, y=0.02)


@mpl.rc_context(_STYLE)
def bars(counts: Mapping[str, float], unit: str, colour: str = BLUE) -> str:
    """Horizontal bars, the first on top."""
    figure = _figure(0.6 + 0.24 * max(1, len(counts)))
    axes = figure.subplots()
    _bars(axes, [one_line(name, LABEL_CHARACTERS) for name in counts], list(counts.values()), colour)
    axes.set_xlabel(unit)
    return _svg(figure)


@mpl.rc_context(_STYLE)
def days(when: Sequence[date], series: Mapping[str, Sequence[int]]) -> str:
    """Counts of each day, one panel a series."""
    figure = _figure(1.5 * len(series) + 0.3)
    panels = np.atleast_1d(figure.subplots(len(series), sharex=True))
    for axes, (name, counts) in zip(panels, series.items(), strict=True):
        axes.bar(np.array(when, "datetime64[D]"), counts, color=BLUE, width=0.8)
        axes.set_ylabel(name)
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    return _svg(figure)


@mpl.rc_context(_STYLE)
def rating_intervals(
    models: Sequence[str],
    rating: Sequence[float],
    low: Sequence[float],
    high: Sequence[float],
    unit: str = "Bradley-Terry rating with its 95 % interval",
) -> str:
    """Ratings, or other numbers, as points with their 95 % intervals, the first on top."""
    figure = _figure(0.7 + 0.26 * max(1, len(models)))
    axes = figure.subplots()
    places = np.arange(len(models))
    axes.hlines(places, low, high, color=GREY, linewidth=5)
    axes.plot(rating, places, "o", color=BLUE, markersize=5)
    axes.set_yticks(places, [one_line(name, LABEL_CHARACTERS) for name in models])
    axes.set_ylim(len(models) - 0.4, -0.6)
    axes.set_xlabel(unit)
    axes.grid(axis="x", color="#eeeeee")
    axes.set_axisbelow(True)
    return _svg(figure)


@mpl.rc_context(_STYLE)
def shares(names: Sequence[str], parts: Mapping[str, Sequence[float]], unit: str = "% of votes") -> str:
    """Horizontal bars of one length, cut into parts; every part has one fraction (0 to 1) for each name."""
    figure = _figure(1.0 + 0.24 * max(1, len(names)))
    axes = figure.subplots()
    places, start = np.arange(len(names)), np.zeros(len(names))
    for (part, fractions), colour in zip(parts.items(), (BLUE, GREY, RED), strict=True):
        percent = 100 * np.array(fractions)
        axes.barh(places, percent, left=start, color=colour, height=0.7, label=part)
        start += percent
    axes.set_yticks(places, [one_line(name, LABEL_CHARACTERS) for name in names])
    axes.invert_yaxis()
    axes.set_xlabel(unit)
    figure.legend(loc="outside upper right", ncols=len(parts), frameon=False)
    return _svg(figure)


@mpl.rc_context(_STYLE)
def topic_map(
    x: npt.NDArray[np.float32],
    y: npt.NDArray[np.float32],
    topic: npt.NDArray[np.int32],
    names: Mapping[int, str],
    sizes: Mapping[int, int],
) -> str:
    """Documents as points and the topics' numbers at their centres; beside it, the largest topics by name and size."""
    colours = np.array([mpl.colormaps["tab20"](n) for n in range(20) if n not in _GREYS])
    shade = colours[topic % len(colours)]
    figure = _figure(5.2)
    axes, key = figure.subplots(1, 2, width_ratios=(2.2, 1))
    outlier = topic < 0
    axes.scatter(x[outlier], y[outlier], s=5, color=GREY, linewidths=0)
    axes.scatter(x[~outlier], y[~outlier], s=9, color=shade[~outlier], linewidths=0)
    for number in sorted(names)[:NUMBERED_TOPICS]:
        here = topic == number
        if not here.any():  # none of its few documents is among the points
            continue
        place = (float(np.median(x[here])), float(np.median(y[here])))
        axes.annotate(str(number), place, (0, 4), textcoords="offset points", ha="center", fontsize=8, weight="bold")
    axes.set_axis_off()
    largest = sorted(names)[:NAMED_TOPICS]
    labels = [f"{one_line(names[number], LABEL_CHARACTERS)}  {number}" for number in largest]
    _bars(key, labels, [float(sizes[n]) for n in largest], colours[np.array(largest, int) % len(colours)])
    key.set_xlabel("documents")
    key.set_ylim(NAMED_TOPICS - 0.5, -0.5)
    return _svg(figure)


@mpl.rc_context(_STYLE)
def matrix(
    rows: Sequence[str], columns: Sequence[str], values: npt.NDArray[np.float64], low_is_dark: bool = False
) -> str:
    """A table as colours with its numbers; NaN stays empty."""
    figure = _figure(1.6 + 0.3 * len(rows), 2.6 + 0.36 * len(columns))
    axes = figure.subplots()
    shades = mpl.colormaps["Blues_r" if low_is_dark else "Blues"].with_extremes(bad="white")
    shown = np.ma.masked_invalid(values)
    # Where most cells are low, not all may be black.
    lowest_shade = 2 * shown.min() - shown.max() if low_is_dark else shown.min()
    picture = axes.pcolormesh(shown, cmap=shades, vmin=lowest_shade)
    axes.invert_yaxis()
    axes.set_xticks(np.arange(len(columns)) + 0.5, [one_line(name, 22) for name in columns], rotation=90)
    axes.set_yticks(np.arange(len(rows)) + 0.5, [one_line(name, 22) for name in rows])
    brightness = picture.to_rgba(shown)[..., :3] @ (0.299, 0.587, 0.114)  # ITU-R BT.601
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            colour = "white" if brightness[row, column] < 0.55 else "black"
            number = axes.text(column + 0.5, row + 0.5, f"{value:.0f}", va="center", fontsize=8, color=colour)
            number.set(ha="center", in_layout=False)  # it is inside its cell: hundreds of them need no measuring
    return _svg(figure)


@mpl.rc_context(_STYLE)
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
    figure = _figure(0.8 + 0.2 * len(drawn["ivl"]))
    axes = figure.subplots()
    for across, along in zip(drawn["icoord"], drawn["dcoord"], strict=True):
        axes.plot(along, across, color=BLUE, linewidth=1)
    axes.set_yticks(10 * np.arange(len(drawn["ivl"])) + 5, drawn["ivl"])
    axes.yaxis.tick_right()
    axes.invert_yaxis()
    axes.invert_xaxis()
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("mean cosine distance")
    return _svg(figure)
