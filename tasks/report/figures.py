"""Figures as SVG text, the same bytes for the same data."""

import io
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tasks.untrusted import one_line

_STYLE: Any = {
    "svg.hashsalt": "arena-curation",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.usetex": False,
    "text.parse_math": False,
}
BLUE, GREY, RED = "#2f6fb0", "#c9ced6", "#b5483a"
LABEL_CHARACTERS = 34


def _svg(figure: Figure) -> str:
    sink = io.StringIO()
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # text stays text: the browser has the glyphs that our font lacks
        figure.savefig(sink, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
    text = sink.getvalue()
    return text[text.index("<svg") :]


def _axes(width: float, height: float) -> tuple[Figure, Axes]:
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width, height))
        return figure, figure.subplots()


def bars(counts: Mapping[str, float], unit: str, colour: str = BLUE) -> str:
    """Horizontal bars, the first on top."""
    names = [one_line(name, LABEL_CHARACTERS) for name in counts]
    values = list(counts.values())
    with mpl.rc_context(_STYLE):
        figure, axes = _axes(6.2, 0.5 + 0.24 * max(1, len(names)))
        places = np.arange(len(names))
        axes.barh(places, values, color=colour, height=0.7)
        axes.set_yticks(places, names)
        axes.invert_yaxis()
        axes.set_xlabel(unit)
        for place, value in zip(places, values, strict=True):
            axes.annotate(f"{value:,.0f}", (value, place), (3, 0), textcoords="offset points", va="center", fontsize=8)
        axes.margins(x=0.12, y=0.02)
    return _svg(figure)


def rating_intervals(
    models: Sequence[str], rating: Sequence[float], low: Sequence[float], high: Sequence[float]
) -> str:
    """Ratings as points with their 95 % intervals, best on top."""
    with mpl.rc_context(_STYLE):
        figure, axes = _axes(6.2, 0.6 + 0.26 * max(1, len(models)))
        places = np.arange(len(models))
        axes.hlines(places, low, high, color=GREY, linewidth=4)
        axes.plot(rating, places, "o", color=BLUE, markersize=5)
        axes.set_yticks(places, [one_line(name, LABEL_CHARACTERS) for name in models])
        axes.invert_yaxis()
        axes.set_xlabel("Bradley-Terry rating, 95 % bootstrap interval")
        axes.grid(axis="x", color="#eeeeee")
        axes.set_axisbelow(True)
    return _svg(figure)


def topic_map(
    x: npt.NDArray[np.float32], y: npt.NDArray[np.float32], topic: npt.NDArray[np.int32], names: Mapping[int, str]
) -> str:
    """Every document as a point, outliers grey, the largest topics named at their centre."""
    with mpl.rc_context(_STYLE):
        figure, axes = _axes(7.4, 5.6)
        outlier = topic < 0
        axes.scatter(x[outlier], y[outlier], s=5, color=GREY, linewidths=0)
        axes.scatter(x[~outlier], y[~outlier], s=7, c=topic[~outlier], cmap="tab20", linewidths=0)
        for number in sorted(names)[:14]:
            here = topic == number
            place = (float(np.median(x[here])), float(np.median(y[here])))
            axes.annotate(
                one_line(names[number], LABEL_CHARACTERS),
                place,
                ha="center",
                fontsize=7,
                bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.75},
            )
        axes.set_axis_off()
    return _svg(figure)


def matrix(names: Sequence[str], values: npt.NDArray[np.float64], unit: str) -> str:
    """A square table as colours with its numbers."""
    size = 1.6 + 0.3 * len(names)
    with mpl.rc_context(_STYLE):
        figure, axes = _axes(size, size)
        axes.imshow(values, cmap="Blues")
        short = [one_line(name, 22) for name in names]
        axes.set_xticks(np.arange(len(names)), short, rotation=90)
        axes.set_yticks(np.arange(len(names)), short)
        axes.set_title(unit, fontsize=9)
        middle = values.max(initial=0) / 2
        for (row, column), value in np.ndenumerate(values):
            if value:
                colour = "white" if value > middle else "black"
                axes.annotate(f"{value:.0f}", (column, row), ha="center", va="center", fontsize=6, color=colour)
    return _svg(figure)
