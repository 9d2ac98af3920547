"""Examples of what people ask: a released prompt with its pictures for each class of the taxonomy (WildVision App. B).

In: rows of `battle` as a release would hold them. Out: one figure by question category, and one by image domain.
"""

from collections.abc import Mapping
from typing import Any

import polars as pl

from tasks.report.case_figures import DrawnCase, drawn_cases
from tasks.report.cases import pictures_of, words_of_role
from tasks.report.page import Part
from tasks.runtime.untrusted import CELL_CHARACTERS_MAX
from tasks.storage.queries.signals import StoredImages
from tasks.storage.tables import Store

EXAMPLES_OF = {
    "question_category": ("examples_by_question", "Examples by question category"),
    "image_domain": ("examples_by_image", "Examples by image domain"),
}
"""Column of the taxonomy -> key and title of the figure of examples."""


class ReleasedExamples:
    """One released battle of each question category and of each image domain, as the rows come by."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._first = dict[tuple[str, str], Mapping[str, Any]]()
        """(what is classified, class) -> the battle with the smallest id."""

    def add(self, config: str, rows: pl.DataFrame) -> None:
        """Take the battles among the rows of a released configuration."""
        if config != "battle" or rows.is_empty():
            return
        columns = ("question_id", "image_ids", "conversation_a", "taxonomy")
        with_image = rows.select(columns).filter(pl.col("image_ids").list.len() > 0)
        for column in EXAMPLES_OF:
            by_class = with_image.with_columns(pl.col("taxonomy").struct.field(column).alias("class"))
            first = by_class.drop_nulls("class").sort("question_id").unique("class", keep="first", maintain_order=True)
            for row in first.iter_rows(named=True):
                place = (column, row["class"])
                if place not in self._first or row["question_id"] < self._first[place]["question_id"]:
                    self._first[place] = row

    def parts(self) -> list[Part]:
        """A figure and a table of examples by question category, and one by image domain."""
        images = StoredImages(self._store, "images", "redacted_images")
        parts = list[Part]()
        for column, (key, title) in EXAMPLES_OF.items():
            rows = {name: row for (classified, name), row in sorted(self._first.items()) if classified == column}
            if not rows:
                continue
            cases = [
                DrawnCase(
                    question_id=row["question_id"], title=name, note=_classes(row["taxonomy"]),
                    prompt=words_of_role(row["conversation_a"], "user"), reference=None, reference_by=None,
                    pictures=pictures_of(images, row["image_ids"]), answers=(),
                )
                for name, row in rows.items()
            ]  # fmt: skip
            table = pl.DataFrame(
                [(case.title, case.question_id, *rows[case.title]["taxonomy"].values(), case.prompt) for case in cases],
                dict.fromkeys(("class", "question_id", *rows[cases[0].title]["taxonomy"], "prompt"), pl.String),
                orient="row",
            )
            parts.append(Part(key, title, "", table, drawn_cases(cases), CELL_CHARACTERS_MAX))
        return parts


def _classes(taxonomy: Mapping[str, str | None]) -> str:
    """The place of an example, such as `Analytical / Data Analysis, Expert / Business`."""
    pairs = (("question_category", "question_subcategory"), ("image_domain", "image_subdomain"))
    places = (" / ".join(filter(None, map(taxonomy.get, pair))) for pair in pairs)
    return ", ".join(filter(None, places))
