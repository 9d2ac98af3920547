"""Writes the report: index.html, one file that opens offline; figures as SVG; tables as CSV."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import polars as pl
from markupsafe import Markup

from schemas.run import Funnel
from tasks.report.content import Part
from tasks.untrusted import csv_cell, one_line

ROWS_MAX = 200


def write_report(folder: Path, funnel: Funnel, parts: Sequence[Part], about: Mapping[str, Any]) -> None:
    """`about` has first_day, last_day, policy, policy_hash and embedded (list of capabilities)."""
    for name in ("figures", "tables"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for part in parts:
        if part.figure is not None:
            (folder / "figures" / f"{part.key}.svg").write_text(part.figure, encoding="utf-8")
        texts = pl.selectors.string().map_elements(csv_cell, return_dtype=pl.String)
        part.table.with_columns(texts).write_csv(folder / "tables" / f"{part.key}.csv")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string((Path(__file__).parent / "page.html").read_text(encoding="utf-8"))
    page = template.render(funnel=funnel, parts=[_shown(part) for part in parts], **about)
    (folder / "index.html").write_text(page, encoding="utf-8")


def _shown(part: Part) -> dict[str, Any]:
    """A part as the template sees it. Only our own SVG is trusted; every cell is escaped by the template."""
    head = part.table.head(ROWS_MAX)
    return {
        "key": part.key,
        "title": part.title,
        "about": part.about,
        "figure": Markup(part.figure) if part.figure else None,  # noqa: S704 - matplotlib escapes its text
        "columns": head.columns,
        "rows": [[one_line(cell) if isinstance(cell, str) else cell for cell in row] for row in head.iter_rows()],
        "total": part.table.height,
    }
