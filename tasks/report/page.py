"""Writes the report: index.html (one file that opens offline), figures as SVG, tables as CSV.

Also elements of all figures: their size and look, panels, rows with names, and SVG text with the same bytes twice. Text
stays text, so it can be selected, and the browser chooses fonts for any script. Names come from logs: they are never
parsed as math (`$`), characters that XML forbids are removed, and matplotlib escapes the rest. Lengths are in points.
"""

import base64
import io
import re
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, wraps
from pathlib import Path
from typing import Any, ParamSpec

import matplotlib as mpl
import polars as pl
import yaml
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.textpath import text_to_path
from matplotlib.ticker import MaxNLocator

from schemas.run import Funnel
from tasks.runtime.untrusted import csv_cell, one_file, one_line
from tasks.storage.records import REPEATS

LABEL_CHARACTERS = 52
COLUMN_WIDTH = 633.6
"""Width of the page's column."""
TEXT_POINTS, SMALL = 9.0, 8.0
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
in_report_style = mpl.rc_context(dict(_LOOK))


def new_figure(height: float, width: float = COLUMN_WIDTH) -> Figure:
    """An empty figure, in points."""
    return Figure((width / 72, height / 72))


def panel(figure: Figure, left_margin: float, right: float, top: float, below: float) -> Axes:
    """Axes with these margins."""
    width, height = figure.get_size_inches() * 72
    wide, high = max(width - left_margin - right, 1) / width, max(height - top - below, 1) / height
    return figure.add_axes((left_margin / width, below / height, wide, high))


P = ParamSpec("P")


class Drawn:
    """A figure that is drawn when it is first asked for; the same bytes for the same data."""

    def __init__(self, draw: Callable[[], Figure]) -> None:
        self._draw = draw

    @cached_property
    @in_report_style
    def figure(self) -> Figure:
        """The figure of matplotlib."""
        return self._draw()

    @cached_property
    @in_report_style
    def svg(self) -> str:
        """The figure as SVG text."""
        text = io.StringIO()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", _MISSING)  # the browser has other fonts
            self.figure.savefig(text, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
        return text.getvalue()[text.getvalue().index("<svg") :]

    def _repr_svg_(self) -> str:
        """The SVG text, for notebooks; the name is IPython's."""
        return self.svg

    @in_report_style
    def pdf(self) -> tuple[bytes, bool]:
        """(the figure for print with its fonts inside, whether a character is a box because no font here has it)."""
        written = io.BytesIO()
        with warnings.catch_warnings(record=True) as caught:
            warnings.filterwarnings("always", _MISSING)
            self.figure.savefig(written, format="pdf", metadata=dict.fromkeys(("CreationDate", "Creator", "Producer")))
        return written.getvalue(), any(re.match(_MISSING, str(warning.message)) for warning in caught)


def drawn_late(draw: Callable[P, Figure]) -> Callable[P, Drawn]:
    """Decorator of a function that draws: it is called when the figure is asked for; `curate verify` never asks."""

    @wraps(draw)
    def later(*data: P.args, **options: P.kwargs) -> Drawn:
        return Drawn(partial(draw, *data, **options))

    return later


def bar_rows(
    figure: Figure, left_edge: float, labels: list[str], values: Sequence[float], colours: list[str], unit: str,
    digits: int = 0,
) -> None:  # fmt: skip
    """Bars with names on the left and values on the right, from `left_edge` to the right, at the top of the figure."""
    below = figure.get_figheight() * 72 - rows_height(len(labels)) + BELOW
    axes = panel(figure, left_edge + width_beside(labels), 2 * EDGE, EDGE, below)
    draw_bars(axes, values, colours, axes.get_position().width * COLUMN_WIDTH, digits)
    name_rows(axes, labels, unit)


def draw_bars(
    axes: Axes, values: Sequence[float | None], colours: list[str], wide: float, digits: int = 0, longest: float = 1.0
) -> None:
    """Bars with their values behind them, on axes that are `wide` points wide and have room for `longest`.

    None is a row without a bar and a value.
    """
    most = max([1.0, longest, *(value for value in values if value is not None)])
    drawn = axes.barh(range(len(values)), [value or 0.0 for value in values], 0.7, color=colours)
    numbers = ["" if value is None else f"{value:,.{digits}f}" for value in values]
    axes.bar_label(drawn, numbers, padding=3, fontsize=SMALL)
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
    font = mpl.font_manager.FontProperties(size=TEXT_POINTS)
    return float(text_to_path.get_text_width_height_descent(_NO_DEJAVU.sub("W", text), font, ismath=False)[0])


NO_VALUE = "–"
"""Text in place of a figure that there is not."""
ROWS_MAX, OPEN_ROWS_MAX = 200, 12
"""Most rows of a table on the page, and of one that is shown without a click."""
SECTIONS: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("sections.yaml").read_text("utf-8"))
"""Key of a section -> its title, text and the group of the contents that it is in."""


@dataclass(frozen=True)
class Part:
    """One section: a table that is also a CSV file, and a figure that is also an SVG file."""

    key: str
    """Name of the CSV and SVG files, and of the anchor in the page."""
    title: str
    about: str
    """One or two sentences that explain the figure and the table."""
    table: pl.DataFrame
    figure: Drawn
    """The figure, as SVG or PDF."""
    characters_max: int = 200
    """Most characters of a text in the CSV file."""


@dataclass(frozen=True)
class ShownPart:
    """A section as the page shows it."""

    key: str
    title: str
    about: str
    height: int
    """Rows of its table, of which the page shows the first."""
    svg: bytes
    columns: Sequence[tuple[str, bool]]
    """Names, and whether they are shown as numbers."""
    rows: Sequence[Sequence[str]]

    @property
    def figure(self) -> str:
        """The figure in base64; it is embedded as an image, where scripts and links do not work."""
        return base64.b64encode(self.svg).decode()

    @property
    def is_open(self) -> bool:
        """Whether the table is shown without a click."""
        return self.height <= OPEN_ROWS_MAX


@dataclass(frozen=True)
class Content:
    """Everything that a report shows."""

    funnel: Funnel
    """Numbers of input lines kept, dropped and rejected."""
    numbers: Mapping[str, int]
    """Label -> count of what is released, for the head of the page."""
    withheld: Mapping[str, int]
    """Kept conversations and battles that no configuration holds."""
    parts: list[Part]
    """Sections in reading order."""


def part(key: str, table: pl.DataFrame, figure: Drawn, **words: object) -> Part:
    """The section with the title and text of sections.yaml, where `{name}` stands for one of `words`."""
    about = SECTIONS[key]["about"].format(**words)
    return Part(key, SECTIONS[key]["title"], about, table, figure)


def write_report(folder: Path, content: Content, about: Mapping[str, Any]) -> None:
    """Write the files.

    `about` has version, first_day, last_day, policy, policy_hash, embedded (list) and benchmark_alone (bool).
    Sections are in the order of the groups of `sections.yaml`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("figures", "tables") if content.parts else ():
        (folder / name).mkdir(exist_ok=True)
    for section in content.parts:
        (folder / "figures" / f"{section.key}.svg").write_text(section.figure.svg, encoding="utf-8")
        _write_table(section, folder / "tables")
    sections = [_shown(section) for section in content.parts]
    page_values = {"funnel": content.funnel, "numbers": content.numbers, "withheld": content.withheld}
    (folder / "index.html").write_text(report_page(sections, **page_values, **about), encoding="utf-8")


@dataclass(frozen=True)
class Decisive:
    """One of the figures at the start of the page, by which one decides whether to publish."""

    question: str
    value: str
    about: str
    """The unit of the value in a few words, or why there is none."""
    key: str = ""
    """The section that says more; empty without one."""


def decisive_figures(
    sections: Sequence[ShownPart], funnel: Funnel, numbers: Mapping[str, int], embedded: Sequence[str]
) -> list[Decisive]:
    """The ten figures of the start, from what the page shows below: `curate verify` makes them again from there."""
    tables = {section.key: _rows_by_name(section) for section in sections}

    def figure(question: str, key: str, value: str, about: str, missing: str) -> Decisive:
        """A figure that rests on a section; without a value it says what is `missing`."""
        words = about if value != NO_VALUE else missing
        return Decisive(question, value, " ".join(words.split()), key if key in tables else "")

    # Lines that repeat others say nothing of the data.
    removed = next((row for row in tables.get("removed", ()) if row.get("reason") not in REPEATS), {})
    board = _first(tables, "leaderboard_overall")
    suspects = _first(tables, "vote_checks", check="suspects").get("votes", NO_VALUE)
    lighter = _first(tables, "vote_checks", check="not_in_full").get("votes", NO_VALUE)
    contest = _first(tables, "fragility", slice="overall", contest="first_place").get("removed", NO_VALUE)
    # Findings that people reviewed, the least precise first.
    precisions = [(number, row) for row in tables.get("detector_precision", ())
                  if (number := _number(row.get("precision", ""))) is not None]  # fmt: skip
    lowest = min(precisions, key=lambda pair: pair[0])[1] if precisions else {}
    replaced = [_number(row.get("replaced", "")) or 0 for row in tables.get("redactions", ())]
    kept = f"{100 * funnel.kept / funnel.lines:.1f} %" if funnel.lines else NO_VALUE
    released = f"{numbers.get('conversations', 0):,} + {numbers.get('battles', 0):,}"
    return [
        Decisive("Does a stand-in measure anything?", f"{len(embedded):,}", "stand-ins; publishing asks for 0"),
        figure("How much of the logs is kept?", "removed", kept, f"of {funnel.lines:,}", "nothing came in"),
        figure(
            "What removed most?", "removed", removed.get("reason", NO_VALUE), f"{removed.get('lines')} lines",
            "nothing was removed",
        ),
        figure("How much is released?", "days", released, "conversations + battles", ""),
        figure(
            "What was redacted?", "redactions", f"{sum(replaced):,.0f}" if replaced else NO_VALUE,
            "places in texts and images", "nothing; the policy may drop instead",
        ),
        figure(
            "Do people confirm the detectors?", "detector_precision", lowest.get("precision", NO_VALUE),
            f"lowest precision, of {lowest.get('type')}", "nobody reviewed what they found",
        ),
        figure(
            "Do votes look wrong?", "vote_checks", suspects, f"votes of suspects; {lighter} votes not in full",
            "it was not checked",
        ),
        figure(
            "How few votes change the first place?", "fragility", contest, "votes removed, the fewest found",
            "it was not computed, or no removal was found",
        ),
        figure(
            "Which model is first?", "leaderboard_overall", board.get("model", NO_VALUE),
            f"{board.get('battles')} battles, {board.get('flags') or 'no flags'}", "there is no board",
        ),
        figure(
            "How many prompts fit no topic?", "topics", _outliers(tables.get("topics", ())), "of those with a place",
            "there are no topics",
        ),
    ]  # fmt: skip


def _rows_by_name(section: ShownPart) -> list[dict[str, str]]:
    """The rows that the page shows of a section, as column -> cell; columns are named with spaces."""
    names = [name for name, _ in section.columns]
    return [dict(zip(names, row, strict=False)) for row in section.rows]


def _first(tables: Mapping[str, Sequence[Mapping[str, str]]], key: str, **cells: str) -> Mapping[str, str]:
    """The first row of a table that has these cells; empty without one."""
    return next((row for row in tables.get(key, ()) if all(row.get(name) == cell for name, cell in cells.items())), {})


def _number(cell: str) -> float | None:
    """The number in a cell; None for any other text."""
    try:
        return float(cell.replace(",", ""))
    except ValueError:
        return None


def _outliers(rows: Sequence[Mapping[str, str]]) -> str:
    """The share of documents in topic -1, of those in the rows; – without any."""
    documents = [_number(row.get("documents", "")) or 0 for row in rows]
    outliers = sum(count for row, count in zip(rows, documents, strict=True) if row.get("topic") == "-1")
    return f"{100 * outliers / sum(documents):.1f} %" if sum(documents) else NO_VALUE


def report_page(sections: Sequence[ShownPart], **shown: Any) -> str:
    """index.html. `shown` has what `Content` has beside its parts, and what `write_report` takes."""
    figures = decisive_figures(sections, shown["funnel"], shown["numbers"], shown["embedded"])
    groups: dict[str, list[ShownPart]] = {}
    for section in sections:
        groups.setdefault(SECTIONS[section.key]["group"], []).append(section)
    here = Path(__file__).parent
    return one_file(here / "page.html", {}, [here / "report.css"], groups=groups, figures=figures, **shown)


def _write_table(section: Part, folder: Path) -> None:
    csv_frame(section.table, section.characters_max).write_csv(folder / f"{section.key}.csv")


def csv_frame(table: pl.DataFrame, characters_max: int = 200) -> pl.DataFrame:
    """A table as it stands in its CSV file: no text of it, nor a name of a column, is read as a formula."""
    cell = partial(csv_cell, characters_max=characters_max)
    return table.with_columns(pl.selectors.string().map_elements(cell, return_dtype=pl.String)).rename(csv_cell)


def write_figures(folder: Path, parts: Sequence[Part]) -> list[str]:
    """Write every figure as SVG and PDF with its table as CSV; returns the names of those with boxes for characters.

    PDFs are in no release: what one holds beside its picture cannot be checked.
    """
    boxes = []
    for section in parts:
        printed, has_boxes = section.figure.pdf()
        (folder / f"{section.key}.svg").write_text(section.figure.svg, encoding="utf-8")
        (folder / f"{section.key}.pdf").write_bytes(printed)
        _write_table(section, folder)
        boxes += [section.key] * has_boxes
    return boxes


def _shown(section: Part) -> ShownPart:
    head = section.table.head(ROWS_MAX)
    columns = [(name.replace("_", " "), dtype.is_numeric()) for name, dtype in head.schema.items()]
    rows = [[_cell(cell) for cell in row] for row in head.iter_rows()]
    figure = section.figure.svg.encode()
    return ShownPart(section.key, section.title, section.about, section.table.height, figure, columns, rows)


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, str):
        return one_line(value)
    return f"{value:,}" if isinstance(value, int | float) else str(value)
