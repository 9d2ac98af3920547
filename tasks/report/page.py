"""Writes the report: index.html (one file that opens offline), figures as SVG, tables as CSV."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from schemas.run import Funnel
from tasks.look import one_file
from tasks.report.panels import Drawn
from tasks.runtime.untrusted import csv_cell, one_line

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
    """SVG text, which can be drawn as PDF."""


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
    """Write the files. `about` has version, first_day, last_day, policy, policy_hash and embedded (list).

    Sections are in the order of the groups of `sections.yaml`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("figures", "tables") if content.parts else ():
        (folder / name).mkdir(exist_ok=True)
    for each in content.parts:
        (folder / "figures" / f"{each.key}.svg").write_text(each.figure, encoding="utf-8")
        _write_table(each, folder / "tables")
    groups: dict[str, list[dict[str, Any]]] = {}
    for each in content.parts:
        groups.setdefault(SECTIONS[each.key]["group"], []).append(_shown(each))
    shown = {"funnel": content.funnel, "numbers": content.numbers, "withheld": content.withheld, "groups": groups}
    here = Path(__file__).parent
    page = one_file(here / "page.html", {}, [here / "report.css"], **shown, **about)
    (folder / "index.html").write_text(page, encoding="utf-8")


def _write_table(section: Part, folder: Path) -> None:
    texts = pl.selectors.string().map_elements(csv_cell, return_dtype=pl.String)
    section.table.with_columns(texts).write_csv(folder / f"{section.key}.csv")


def write_figures(folder: Path, parts: Sequence[Part]) -> list[str]:
    """Write every figure as SVG and PDF with its table as CSV; returns the names of those with boxes for characters.

    PDFs are in no release: what one holds beside its picture cannot be checked.
    """
    boxes = []
    for each in parts:
        printed, has_boxes = each.figure.pdf()
        (folder / f"{each.key}.svg").write_text(each.figure, encoding="utf-8")
        (folder / f"{each.key}.pdf").write_bytes(printed)
        _write_table(each, folder)
        boxes += [each.key] * has_boxes
    return boxes


def _shown(section: Part) -> dict[str, Any]:
    """Template variables of a part. The figure is embedded as an image, where scripts and links do not work."""
    head = section.table.head(ROWS_MAX)
    return {
        "part": section,
        "figure": base64.b64encode(section.figure.encode()).decode(),
        "columns": [(name.replace("_", " "), dtype.is_numeric()) for name, dtype in head.schema.items()],
        "rows": [[_cell(cell) for cell in row] for row in head.iter_rows()],
        "open": section.table.height <= OPEN_ROWS_MAX,
    }


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, str):
        return one_line(value)
    return f"{value:,}" if isinstance(value, int | float) else str(value)
