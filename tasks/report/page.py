"""Writes the report: index.html (one file that opens offline), figures as SVG, tables as CSV."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import polars as pl

from schemas.run import Funnel
from tasks.runtime.untrusted import csv_cell, one_line

ROWS_MAX = 200


@dataclass(frozen=True)
class Part:
    """One section: a table that is also a CSV file, and a figure that is also an SVG file."""

    key: str
    """Name of the CSV and SVG files, and of the anchor in the page."""
    title: str
    about: str
    """One or two sentences that explain the figure and the table."""
    table: pl.DataFrame
    figure: str
    """SVG text."""
    show_table: bool = False
    """Whether the table is shown without a click."""


@dataclass(frozen=True)
class Content:
    """Everything that a report shows."""

    funnel: Funnel
    """Numbers of input lines kept, dropped and rejected."""
    numbers: Mapping[str, int]
    """Label -> count, for the head of the page."""
    parts: list[Part]
    """Sections in reading order."""


def write_report(folder: Path, content: Content, about: Mapping[str, Any]) -> None:
    """Write the files. `about` has first_day, last_day, policy, policy_hash and embedded (list of capabilities)."""
    for name in ("figures", "tables"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for part in content.parts:
        (folder / "figures" / f"{part.key}.svg").write_text(part.figure, encoding="utf-8")
        texts = pl.selectors.string().map_elements(csv_cell, return_dtype=pl.String)
        part.table.with_columns(texts).write_csv(folder / "tables" / f"{part.key}.csv")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    template = environment.from_string((Path(__file__).parent / "page.html").read_text(encoding="utf-8"))
    shown = {"funnel": content.funnel, "numbers": content.numbers, "parts": [_shown(part) for part in content.parts]}
    (folder / "index.html").write_text(template.render(**shown, **about), encoding="utf-8")


def _shown(part: Part) -> dict[str, Any]:
    """Template variables of a part. The figure is embedded as an image, where scripts and links do not work."""
    head = part.table.head(ROWS_MAX)
    return {
        "part": part,
        "figure": base64.b64encode(part.figure.encode()).decode(),
        "columns": [(name.replace("_", " "), dtype.is_numeric()) for name, dtype in head.schema.items()],
        "rows": [[_cell(cell) for cell in row] for row in head.iter_rows()],
    }


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, str):
        return one_line(value)
    return f"{value:,}" if isinstance(value, int | float) else str(value)
