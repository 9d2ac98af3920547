"""Figures as SVG and PDF, drawn by matplotlib: the same bytes for the same data."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib import dates as mdates
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy.cluster.hierarchy import dendrogram

from tasks.report.page import (
    BELOW,
    COLUMN_WIDTH,
    EDGE,
    FADED,
    HEAD,
    INK,
    SMALL,
    TEXT_POINTS,
    bar_rows,
    draw_bars,
    drawn_late,
    name_columns,
    name_places,
    name_rows,
    new_figure,
    panel,
    rows_height,
    shown_name,
    text_width,
    width_beside,
)

BLUE, LIGHT_BLUE, GREY, RED = "#2f6fb0", "#b9d0e8", "#c9ced6", "#b5483a"
_TOPIC_COLOURS = [to_hex(colour) for place, colour in enumerate(mpl.colormaps["tab20"].colors) if place not in (14, 15)]  # type: ignore[attr-defined]
"""Tableau 20 without its greys, which mark outliers."""
NAMED_TOPICS = 20
_CELL_WIDTH, _CELL_HEIGHT = 30.0, 21.6
_DAYS_HEIGHT, _MAP_HEIGHT = 92.0, 400.0
_SUN, _LINES_HEIGHT = 380.0, 190.0
_NAMED_WEDGE = 0.02
"""A wedge is named from this share of the whole on."""
_Bounds = Sequence[float | None]
_Floats = npt.NDArray[np.float32]


@drawn_late
def bars(counts: Mapping[str, float], unit: str, colour: str = BLUE, digits: int = 0) -> Figure:
    """Horizontal bars, first on top; `digits` after the point of their values."""
    figure = new_figure(rows_height(len(counts)))
    bar_rows(figure, EDGE, [*map(shown_name, counts)], list(counts.values()), [colour] * len(counts), unit, digits)
    return figure


@drawn_late
def paired_bars(
    names: Sequence[str], series: Mapping[str, Sequence[float | None]], unit: str, digits: int = 0,
    thin: Mapping[str, Collection[int]] | None = None,
) -> Figure:  # fmt: skip
    """Horizontal bars of each series side by side on one scale, first on top; the rows of all have the same names.

    A value of None is unknown: it has no bar, and no number.
    `thin`: series -> places of bars that are grey.
    """
    labels = [*map(shown_name, names)]
    figure = new_figure(rows_height(len(names)) + HEAD)
    start = EDGE + width_beside(labels)
    wide = (COLUMN_WIDTH - start) / max(1, len(series))
    for place, (name, values) in enumerate(series.items()):
        left = start + place * wide
        axes = panel(figure, left, COLUMN_WIDTH - left - wide + 3 * EDGE, EDGE + HEAD, BELOW)
        colours = [GREY if row in (thin or {}).get(name, ()) else BLUE for row in range(len(names))]
        draw_bars(
            axes,
            values,
            colours,
            wide - 3 * EDGE,
            digits,
            max((value for row_values in series.values() for value in row_values if value is not None), default=0.0),
        )
        name_rows(axes, labels if place == 0 else [""] * len(labels), unit)
        axes.set_title(name, loc="left", fontsize=TEXT_POINTS)
    return figure


@drawn_late
def daily_panels(when: Sequence[date], series: Mapping[str, Sequence[int]]) -> Figure:
    """Counts per day, one panel per series."""
    figure = new_figure(len(series) * (_DAYS_HEIGHT + 3 * EDGE) + BELOW)
    for number, (name, counts) in enumerate(series.items()):
        top = EDGE + number * (_DAYS_HEIGHT + 3 * EDGE)
        axes = panel(figure, 66, 4 * EDGE, top, figure.get_figheight() * 72 - top - _DAYS_HEIGHT)
        axes.bar(np.array(when, "datetime64[D]"), counts, 0.8, color=BLUE)
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.set_ylabel(name)
        axes.yaxis.set_label_coords(-54 / (COLUMN_WIDTH - 66 - 4 * EDGE), 0.5)
        axes.grid(axis="y")
        locator = mdates.AutoDateLocator(minticks=2, maxticks=8)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(mdates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        axes.tick_params(labelbottom=number == len(series) - 1)
    return figure


@drawn_late
def rating_intervals(models: Sequence[str], rating: Sequence[float], low: _Bounds, high: _Bounds, unit: str) -> Figure:
    """Ratings, or other numbers, as points with their 95 % intervals, first on top.

    An interval open on one side ends in an arrow at the edge; one open on both sides is not drawn.
    """
    labels, row = [*map(shown_name, models)], np.arange(len(models))
    numbers = np.array([rating, low, high], np.float64)
    figure = new_figure(rows_height(len(models)))
    axes = panel(figure, EDGE + width_beside(labels), 2 * EDGE, EDGE, BELOW)
    finite = numbers[np.isfinite(numbers)]
    least, most = (finite.min(), finite.max()) if len(finite) else (0.0, 1.0)
    spare = 0.04 * (most - least) or 0.5
    axes.set_xlim(least - spare, most + spare)
    axes.xaxis.grid(True)
    point, start, end = numbers
    open_below, open_above = np.isnan(start) & ~np.isnan(end), np.isnan(end) & ~np.isnan(start)
    start, end = np.where(open_below, least - spare, start), np.where(open_above, most + spare, end)
    drawn = np.isfinite(start) & np.isfinite(end)
    axes.hlines(row[drawn], start[drawn], end[drawn], LIGHT_BLUE, linewidth=5)
    for marker, at, is_open in (("<", start, open_below), (">", end, open_above)):
        axes.plot(at[is_open], row[is_open], marker, color=LIGHT_BLUE, markersize=9, clip_on=False)
    axes.plot(point, row, "o", color=BLUE, markersize=5.5)
    name_rows(axes, labels, unit)
    return figure


@drawn_late
def shares(
    names: Sequence[str], parts: Mapping[str, Sequence[float]], unit: str = "% of votes", thin: Collection[int] = ()
) -> Figure:
    """Stacked horizontal bars; each of three parts has a fraction (0 to 1) per name. Rows in `thin` are faded."""
    labels = [*map(shown_name, names)]
    figure = new_figure(rows_height(len(names)) + 18)
    axes = panel(figure, EDGE + width_beside(labels), 3 * EDGE, EDGE + 18, BELOW)
    start = np.zeros(len(names))
    for (part, fractions), colour in zip(parts.items(), (BLUE, GREY, RED), strict=True):
        percent = 100 * np.array(fractions, np.float64)
        drawn = axes.barh(range(len(names)), percent, 0.7, start, color=colour, label=part)
        for row in thin:
            drawn[row].set_alpha(0.35)
        start = start + percent
    axes.set_xlim(0, 100)
    if names:
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, frameon=False, borderpad=0.2)
    name_rows(axes, labels, unit, thin)
    return figure


@drawn_late
def topic_map(
    x: _Floats, y: _Floats, topic: npt.NDArray[np.int32], names: Mapping[int, str], sizes: Mapping[int, int]
) -> Figure:
    """Documents as points, large topics named above theirs where there is room, and bars of the largest, by size.

    `names` and `sizes` are by topic number; sizes are documents.
    """
    by_size = sorted(names, key=lambda number: (-sizes[number], number))
    largest = by_size[:NAMED_TOPICS]
    figure = new_figure(_MAP_HEIGHT + rows_height(len(largest)))
    axes = panel(figure, EDGE, EDGE, EDGE, rows_height(len(largest)))
    axes.set_axis_off()
    outside = topic < 0
    axes.plot(x[outside], y[outside], "o", color=GREY, markersize=2.2, markeredgewidth=0)
    for number, colour in enumerate(_TOPIC_COLOURS):
        of_colour = ~outside & (topic % len(_TOPIC_COLOURS) == number)
        axes.plot(x[of_colour], y[of_colour], "o", color=colour, markersize=3.2, markeredgewidth=0)
    axes.margins(0.08, 0.08)
    axes.autoscale_view()
    taken: list[tuple[float, float, float]] = []
    for number in by_size:
        here = topic == number
        if here.any():  # the sample may hold none of its documents
            _name_above(axes, x[here], y[here], f"{shown_name(names[number])} {number}".strip(), taken)
    labels = [f"{shown_name(names[number])}  {number}" for number in largest]
    colours = [_TOPIC_COLOURS[number % len(_TOPIC_COLOURS)] for number in largest]
    below = panel(figure, EDGE + width_beside(labels), 2 * EDGE, _MAP_HEIGHT, BELOW)
    draw_bars(below, [sizes[number] for number in largest], colours, below.get_position().width * COLUMN_WIDTH)
    name_rows(below, labels, "documents")
    return figure


def _name_above(axes: Axes, x: _Floats, y: _Floats, name: str, taken: list[tuple[float, float, float]]) -> None:
    """Write a name above the middle of some points, unless it would touch one that is there.

    `taken` holds the names so far: middle, height and half of the width, in points.
    """
    at = float(np.median(x)), float(np.quantile(y, 0.95))
    across, up = axes.transData.transform(at) * 72 / axes.figure.dpi
    half = text_width(name) / 2 * SMALL / TEXT_POINTS
    middle = min(max(across, half + EDGE), COLUMN_WIDTH - half - EDGE)
    if all(abs(middle - a) > half + h + 3 or abs(up - u) > SMALL + 3 for a, u, h in taken):
        taken.append((middle, up, half))
        axes.annotate(name, at, (middle - across, 4), textcoords="offset points", ha="center", fontsize=SMALL)


@drawn_late
def matrix(
    rows: Sequence[str], columns: Sequence[str], values: npt.NDArray[np.float64], low_is_dark: bool = False,
    thin: Collection[int] = (), digits: int = 0, around_zero: bool = False, marks: Mapping[float, str] | None = None,
) -> Figure:  # fmt: skip
    """A heat map with numbers (`digits` after the point); NaN cells are empty, columns in `thin` are grey.

    `around_zero`: two colours, one for each sign, as dark as the number is large. `marks`: words in place of numbers.
    """
    down, across = [*map(shown_name, rows)], [*map(shown_name, columns)]
    left, below = EDGE + width_beside(down), EDGE + width_beside(across)
    size = _CELL_WIDTH * len(across), _CELL_HEIGHT * len(down)
    figure = new_figure(size[1] + below + EDGE, size[0] + left + 2 * EDGE)
    axes = panel(figure, left, 2 * EDGE, EDGE, below)
    most = np.nanmax(np.abs(values), initial=1e-9, where=np.isfinite(values))
    darkness = np.abs(values) / most if around_zero else _darkness(values, low_is_dark)
    darkness[:, list(thin)] = np.nan
    shade, colours, least = (darkness, "Blues", 0) if not around_zero else (np.sign(values) * darkness, "PuOr", -1)
    axes.pcolormesh(shade, cmap=mpl.colormaps[colours], vmin=least, vmax=1, edgecolors="white", linewidth=0.6)
    name_places(axes, down, first=0.5)
    name_columns(axes, across, thin, first=0.5)
    for row, column in np.argwhere(np.isfinite(values)):
        ink = "white" if darkness[row, column] > 0.55 else FADED if column in thin else INK
        number = marks[values[row, column]] if marks else f"{values[row, column]:.{digits}f}"
        axes.text(column + 0.5, row + 0.5, number, ha="center", va="center", fontsize=SMALL, color=ink)
    axes.set_ylim(max(1, len(down)), 0)
    axes.spines[:].set_visible(False)
    return figure


@drawn_late
def sunburst(counts: Mapping[tuple[str, str], float], inside: Mapping[str, float], thin: float) -> Figure:
    """Two rings: names with their counts, and the parts of each. Wedges below `thin` are grey.

    `counts` has (name, part) -> count; what they leave of the count `inside` of a name is blank in the outer ring.
    """
    figure = new_figure(_SUN)
    axes = panel(figure, 0, 0, 0, 0)
    places = {name: place for place, name in enumerate(inside)}
    # A wedge is one part of one name; the names are in the order of the inner ring.
    outer = [(name, part, n) for name in inside for (owner, part), n in counts.items() if owner == name]
    remainders = {name: total - sum(n for owner, _, n in outer if owner == name) for name, total in inside.items()}
    outer = [wedge for name in inside for wedge in [*(o for o in outer if o[0] == name), (name, "", remainders[name])]]
    colours = [_TOPIC_COLOURS[2 * places[name] % len(_TOPIC_COLOURS)] for name in inside]
    pale = [_TOPIC_COLOURS[(2 * places[name] + 1) % len(_TOPIC_COLOURS)] for name, _, _ in outer]
    first = [colour if n >= thin else GREY for colour, n in zip(colours, inside.values(), strict=True)]
    second = ["white" if not part else c if n >= thin else GREY for c, (_, part, n) in zip(pale, outer, strict=True)]
    whole = sum(inside.values())
    _ring(axes, [(name, n) for name, n in inside.items()], first, (0.72, 0.42), whole)
    _ring(axes, [(part, n) for _, part, n in outer], second, (1.0, 0.26), whole)
    axes.set(xlim=(-2.1, 2.1), ylim=(-1.25, 1.25), aspect="equal")
    return figure


def _ring(
    axes: Axes, parts: Sequence[tuple[str, float]], colours: Sequence[str], ends: tuple[float, float], whole: float
) -> None:
    """Wedges from the top, clockwise, with their names: inside for the inner ring, beside for the outer one."""
    radius, width = ends
    drawn, *_ = axes.pie(
        [n for _, n in parts], radius=radius, colors=colours, startangle=90, counterclock=False,
        wedgeprops={"width": width, "edgecolor": "white", "linewidth": 0.6, "alpha": 0.8},
    )  # fmt: skip
    for (name, count), wedge in zip(parts, drawn, strict=True):
        if not name or count < _NAMED_WEDGE * whole:
            continue
        angle = np.radians((wedge.theta1 + wedge.theta2) / 2)
        at = radius - width / 2 if radius < 1 else 1.05
        x, y = float(at * np.cos(angle)), float(at * np.sin(angle))
        side = "center" if radius < 1 else "left" if x > 0 else "right"
        axes.text(x, y, f"{shown_name(name, 30)} {count:,.0f}", ha=side, va="center", fontsize=SMALL)


@drawn_late
def line_chart(
    names: Sequence[str], series: Mapping[str, Sequence[float | None]], unit: str, thin: Collection[int] = (),
    breaks: Sequence[int] = (),
) -> Figure:  # fmt: skip
    """A value of each series at every name; names in `thin` are grey and their values are hollow.

    Neighbours are joined, except the names before and at each place of `breaks`.
    """
    labels = [*map(shown_name, names)]
    below = EDGE + width_beside(labels)
    figure = new_figure(_LINES_HEIGHT + below + 18 * -(-len(series) // 2))
    axes = panel(figure, 54, 2 * EDGE, EDGE + 18 * -(-len(series) // 2), below)
    for number, (name, values) in enumerate(series.items()):
        at, colour = np.array(values, np.float64), _TOPIC_COLOURS[2 * number % len(_TOPIC_COLOURS)]
        for start, end in pairwise([0, *breaks, len(labels)]):
            axes.plot(range(start, end), at[start:end], "-o", color=colour, markersize=5)
        axes.plot([], [], "-o", color=colour, markersize=5, label=shown_name(name, 40))
        axes.plot(list(thin), at[list(thin)], "o", color="white", markersize=3, zorder=3)
    axes.set_xlim(-0.5, max(1, len(labels)) - 0.5)
    name_columns(axes, labels, thin)
    axes.set_ylabel(unit)
    axes.grid(axis="y")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, borderpad=0.2)
    return figure


@drawn_late
def point_panels(names: Sequence[str], panels: Mapping[str, _Floats], groups: Mapping[str, Sequence[str]]) -> Figure:
    """Points of each panel side by side on one scale, coloured by group; `names` are the groups in order.

    `panels`: name -> float32 (n, 2), positions. `groups`: name -> the group of each of its points.
    """
    colours = {name: _TOPIC_COLOURS[2 * place % len(_TOPIC_COLOURS)] for place, name in enumerate(names)}
    wide, top = COLUMN_WIDTH / max(1, len(panels)), EDGE + 2 * HEAD
    figure = new_figure(top + wide + EDGE)
    every = np.concatenate([*panels.values()]) if panels else np.zeros((1, 2), np.float32)
    least, most = every.min(axis=0), every.max(axis=0)
    spare = 0.05 * (most - least) + 1e-6
    for place, (name, points) in enumerate(panels.items()):
        left = place * wide
        axes = panel(figure, left + EDGE, COLUMN_WIDTH - left - wide + EDGE, top, EDGE)
        of_point = np.array(groups[name], object)
        for group, colour in colours.items():
            x, y = points[of_point == group].T
            axes.plot(x, y, "o", color=colour, markersize=4, markeredgewidth=0, alpha=0.7, label=shown_name(group, 30))
        axes.set(xlim=(least[0] - spare[0], most[0] + spare[0]), ylim=(least[1] - spare[1], most[1] + spare[1]))
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_title(shown_name(name), loc="left", fontsize=TEXT_POINTS)
        if place == 0:
            axes.legend(loc="lower left", bbox_to_anchor=(0, 1 + HEAD / wide), ncols=6, frameon=False, borderpad=0.2)
    return figure


@drawn_late
def densities(edges: Sequence[float], series: Mapping[str, Sequence[float]], unit: str, *, faded: bool) -> Figure:
    """Histograms as outlines over the same bins, two colours; grey when `faded`."""
    figure = new_figure(_LINES_HEIGHT + BELOW + 24)
    axes = panel(figure, 66, 2 * EDGE, 24, BELOW)
    for (name, density), colour in zip(series.items(), (FADED, GREY) if faded else (BLUE, RED), strict=True):
        axes.stairs(density, edges, color=colour, fill=True, alpha=0.25)
        axes.stairs(density, edges, color=colour, label=name, linewidth=1.4)
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set_xlabel(unit)
    axes.set_ylabel("density")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, borderpad=0.2)
    return figure


@drawn_late
def merges(tree: Sequence[tuple[int, int, float]], names: Sequence[str], most: int) -> Figure:
    """A dendrogram. Row i of `tree` (two nodes and their distance) makes node len(names) + i, as in scipy.

    With more than `most` leaves only the last merges are drawn, and a leaf may represent several topics.
    """
    sizes = [1] * len(names)
    for left, right, _ in tree:
        sizes.append(sizes[left] + sizes[right])
    linkage = np.array([(*row, size) for row, size in zip(tree, sizes[len(names) :], strict=True)], np.float64)
    drawn = dendrogram(linkage, p=most, truncate_mode="lastp", no_plot=True, show_leaf_counts=False)
    labels = [shown_name(names[n]) if n < len(names) else f"({sizes[n]} topics)" for n in drawn["leaves"] or []]
    figure = new_figure(rows_height(len(labels), 14.4))
    axes = panel(figure, 2 * EDGE, EDGE + width_beside(labels), EDGE, BELOW)
    for across, along in zip(drawn["icoord"], drawn["dcoord"], strict=True):
        axes.plot(along, (np.array(across) - 5) / 10, color=BLUE, linewidth=1)
    axes.set_xlim(1.05 * (np.max(drawn["dcoord"]) or 1.0), 0)
    axes.yaxis.tick_right()
    axes.spines["left"].set_visible(False)
    name_rows(axes, labels, "mean cosine distance")
    return figure


def _darkness(values: npt.NDArray[np.float64], low_is_dark: bool) -> npt.NDArray[np.float64]:
    """Shade of each cell, 0 (light) to 1 (dark): by value, or with `low_is_dark` from 0.5 (lowest) to 0 (highest)."""
    finite = values[np.isfinite(values)]
    span = np.ptp(finite) if len(finite) else 0.0
    share = (values - finite.min()) / span if span else np.where(np.isfinite(values), 0.0, np.nan)
    return np.asarray(0.5 * (1 - share) if low_is_dark else share)
