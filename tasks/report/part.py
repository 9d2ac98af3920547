"""One section of the report."""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from schemas.run import Funnel


@dataclass(frozen=True)
class Part:
    """One section: a table that is also a CSV file, and a figure that is also an SVG file."""

    key: str
    """Name of the files and of the anchor."""
    title: str
    about: str
    """One or two sentences: what is counted, and what the words mean."""
    table: pl.DataFrame
    figure: str
    """SVG text."""
    show_table: bool = False
    """Whether the table is unfolded."""


@dataclass(frozen=True)
class Content:
    """What a report shows."""

    funnel: Funnel
    """Where the input lines went."""
    numbers: Mapping[str, int]
    """How much of what is released, for the head of the page."""
    parts: list[Part]
    """Sections in reading order."""
