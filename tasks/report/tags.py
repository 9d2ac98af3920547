"""Tags on the page: how many conversations have each, which come together, and where they stand in the taxonomy."""

from collections.abc import Mapping

import numpy as np
import polars as pl

from schemas.tag_evaluation import TagCount
from tasks.lookup.conversation_features import ALL_TAGS, CRITERIA, TAXONOMY, overlap, tag_counts, taxonomy_counts
from tasks.report.figures import bars, matrix
from tasks.report.part import Part

MOST = 20
"""Places of the taxonomy in the figure; the table holds all."""
_EMBEDDED = "The embedded default goes by words and layout, and is of lower assurance."


def tag_parts(tallies: Mapping[tuple[str, ...], pl.DataFrame]) -> list[Part]:
    """The sections, without those that nothing was measured for. `tallies` are those of tags, criteria and taxonomy."""
    tags, met = tallies[ALL_TAGS], tallies[CRITERIA]
    if tags.is_empty():
        return []
    places, criteria = taxonomy_counts(tallies[TAXONOMY]), tag_counts(met, CRITERIA)
    parts = [_counts("categories", "Categories", tag_counts(tags, ALL_TAGS), "category"), _overlap(tags)]
    if any(row.not_told < met["conversations"].sum() for row in criteria):
        parts.append(_counts("criteria", "BenchBuilder's criteria", criteria, "criterion"))
    if places:
        parts.append(_counts("taxonomy", "Taxonomy", places, "place"))
    return parts


def _counts(key: str, title: str, rows: list[TagCount], column: str) -> Part:
    table = pl.DataFrame(
        [(row.tag, row.items, row.not_told) for row in rows],
        schema={column: pl.String, "conversations": pl.Int64, "not_measured": pl.Int64},
        orient="row",
    )
    shown = table.sort("conversations", descending=True, maintain_order=True).head(MOST)
    return Part(
        key, title, _ABOUT[key], table, bars(dict(shown.select(column, "conversations").iter_rows()), "conversations")
    )


_ABOUT = {
    "categories": "Kept conversations of each category; one may have several (VisionArena Fig. 5).",
    "criteria": f"Kept conversations whose prompt meets each criterion; not measured includes undecided. {_EMBEDDED}",
    "taxonomy": f"Kept conversations at each place of WildVision's taxonomy, {MOST} in the figure. {_EMBEDDED}",
}


def _overlap(tally: pl.DataFrame) -> Part:
    table = overlap(tally, ALL_TAGS)
    shares = table.drop("tag").fill_null(float("nan")).to_numpy()
    about = (
        "Of the kept conversations with the category of the row, % that have the category of the column as well "
        "(VisionArena Fig. 24); empty where none has it."
    )
    return Part("overlap", "Overlap of categories", about, table, matrix(ALL_TAGS, ALL_TAGS, 100 * np.asarray(shares)))
