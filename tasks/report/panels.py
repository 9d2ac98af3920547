"""Elements of all figures: their size and look, panels, rows with names, and SVG text with the same bytes twice.

Text stays text, so it can be selected, and the browser chooses fonts for any script. Names come from logs: they are
never parsed as math (`$`), characters that XML forbids are removed, and matplotlib escapes the rest. Lengths are in
points.
"""

import io
import re
import warnings
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.textpath import text_to_path
from matplotlib.ticker import MaxNLocator

from tasks.runtime.untrusted import one_line

LABEL_CHARACTERS = 52
WIDTH = 633.6
"""Width of the page's column."""
TEXT, SMALL = 9.0, 8.0
EDGE, BELOW, HEAD, ROW = 6.0, 36.0, 18.0, 17.3
"""Margin of a figure, space below for an axis with its unit and above for a title, and height of a row."""
INK, FADED = "#1c2733", "#8a929c"
_PAD = 3.5
"""Space between axes and names."""
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_MISSING = "Glyph .* missing from"
_NO_DEJAVU = re.compile("[^\x20-\u052f\u2010-\u2122]")
"""Characters measured as wide as a W: mostly scripts that the font lacks."""
_LOOK = mpl.rc_params_from_file(Path(__file__).with_name("figures.mplstyle"), use_default_template=False)
styled = mpl.rc_context(dict(_LOOK))


def new_figure(height: float, width: float = WIDTH) -> Figure:
    """An empty figure, in points."""
    return Figure((width / 72, height / 72))


def panel(figure: Figure, left: float, right: float, top: float, below: float) -> Axes:
    """Axes with these margins."""
    width, height = figure.get_size_inches() * 72
    wide, high = max(width - left - right, 1) / width, max(height - top - below, 1) / height
    return figure.add_axes((left / width, below / height, wide, high))


class Drawn(str):
    """The SVG text of a figure, which can be drawn as PDF, too; the same bytes for the same figure."""

    figure: Figure

    @styled
    def pdf(self) -> tuple[bytes, bool]:
        """(the figure for print with its fonts inside, whether a character is a box because no font here has it)."""
        written = io.BytesIO()
        with warnings.catch_warnings(record=True) as told:
            warnings.filterwarnings("always", _MISSING)
            self.figure.savefig(written, format="pdf", metadata=dict.fromkeys(("CreationDate", "Creator", "Producer")))
        return written.getvalue(), any(re.match(_MISSING, str(each.message)) for each in told)


def svg_of(figure: Figure) -> Drawn:
    """A figure as SVG text."""
    text = io.StringIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", _MISSING)  # the browser has other fonts
        figure.savefig(text, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    drawn = Drawn(text.getvalue()[text.getvalue().index("<svg") :])
    drawn.figure = figure
    return drawn


def bar_rows(
    figure: Figure, left: float, labels: list[str], values: Sequence[float], colours: list[str], unit: str,
    digits: int = 0,
) -> None:  # fmt: skip
    """Bars with names on the left and values on the right, from `left` to the right edge, at the top of the figure."""
    below = figure.get_figheight() * 72 - rows_height(len(labels)) + BELOW
    axes = panel(figure, left + width_beside(labels), 2 * EDGE, EDGE, below)
    draw_bars(axes, values, colours, axes.get_position().width * WIDTH, digits)
    name_rows(axes, labels, unit)


def draw_bars(axes: Axes, values: Sequence[float], colours: list[str], wide: float, digits: int = 0) -> None:
    """Bars with their values behind them, on axes that are `wide` points wide."""
    most = max([1.0, *values])
    drawn = axes.barh(range(len(values)), values, 0.7, color=colours)
    axes.bar_label(drawn, fmt=f"{{:,.{digits}f}}", padding=3, fontsize=SMALL)
    value = text_width(f"{most:,.{digits}f}") + 4
    axes.set_xlim(0, most / (1 - min(0.5, value / wide)))  # room for the longest value
    axes.xaxis.set_major_locator(MaxNLocator(6 if wide > 250 else 3, integer=True))
    axes.xaxis.set_major_formatter("{x:,.0f}")


def name_rows(axes: Axes, labels: Sequence[str], unit: str, thin: Collection[int] = ()) -> None:
    """Names of rows on the left, first on top, those of places in `thin` grey, and the unit below."""
    axes.set_ylim(max(1, len(labels)) - 0.5, -0.5)
    name_places(axes, labels, thin)
    axes.set_xlabel(unit)


def name_places(axes: Axes, labels: Sequence[str], thin: Collection[int] = (), first: float = 0.0) -> None:
    """Names at the left of rows at `first`, `first + 1`, …; as texts, because a tick takes five times as long."""
    axes.set_yticks([])
    transform, va, ha = axes.get_yaxis_text1_transform(_PAD)
    for place, label in enumerate(labels):
        if label:
            colour = FADED if place in thin else INK
            axes.text(0, first + place, label, transform=transform, va=va, ha=ha, color=colour)


def name_columns(axes: Axes, labels: Sequence[str], thin: Collection[int] = (), first: float = 0.0) -> None:
    """The same below columns, turned."""
    axes.set_xticks([])
    transform = axes.get_xaxis_text1_transform(_PAD)[0]
    look: dict[str, Any] = {"rotation": 90, "rotation_mode": "anchor", "ha": "right", "va": "center"}
    for place, label in enumerate(labels):
        axes.text(first + place, 0, label, transform=transform, color=FADED if place in thin else INK, **look)


def rows_height(count: int, row: float = ROW) -> float:
    """Height of a figure with so many rows and an axis below."""
    return EDGE + row * max(1, count) + BELOW


def shown_name(name: str, characters_max: int = LABEL_CHARACTERS) -> str:
    """A name from a log, as one line without what XML forbids."""
    return one_line(_NOT_XML.sub("", name), characters_max)


def width_beside(labels: Sequence[str]) -> float:
    """Width of the longest label beside an axis, with a gap."""
    return max(map(text_width, labels), default=0) + 8


def text_width(text: str) -> float:
    """Width of a label."""
    font = mpl.font_manager.FontProperties(size=TEXT)
    return float(text_to_path.get_text_width_height_descent(_NO_DEJAVU.sub("W", text), font, ismath=False)[0])
