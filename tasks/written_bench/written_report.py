"""The report's sections about written benchmarks: families, what instructions ask for, and what images show."""

from collections.abc import Callable, Mapping, Sequence

import polars as pl

from schemas.row import Row
from tasks.providers.embedded.texts import root_phrases
from tasks.report.figures import bars
from tasks.report.page import Drawn, Part, part
from tasks.storage.tables import Store, frame_of
from tasks.written_bench.figures import (
    EVERY,
    AskedFor,
    FamilyFigures,
    ItemFacts,
    Pictured,
    asked_for,
    facts_of_store,
    family_figures,
    pictured,
)

_MOST = 20
"""Most bars of a figure; the table lists all."""


def written_parts(store: Store) -> list[Part]:
    """The sections, in reading order; none without a written benchmark that has kept items."""
    benches = sorted(set(store.read("bench_items", ["bench"])["bench"]))
    facts = {bench: items for bench in benches if (items := facts_of_store(store, bench, released=True))}
    if not facts:
        return []
    families = _table(FamilyFigures, family_figures, facts)
    phrases = _table(AskedFor, lambda items: asked_for(items, root_phrases), facts)
    objects = _table(Pictured, pictured, facts)
    parts = [
        part("written_families", families, _figure(families, "family", of_all=False)),
        part("written_asked_for", phrases, _figure(phrases, "verb", "object")),
    ]
    if (named := objects.filter(pl.col("object") != "")).height:
        parts.append(part("written_pictured", objects, _figure(named, "object")))
    return parts


def _table(
    row: type[Row], count: Callable[[Sequence[ItemFacts]], Sequence[Row]], facts: Mapping[str, Sequence[ItemFacts]]
) -> pl.DataFrame:
    tables = (
        frame_of(row, count(items)).select(pl.lit(name).alias("bench"), pl.all()) for name, items in facts.items()
    )
    return pl.concat(tables)


def _figure(table: pl.DataFrame, *columns: str, of_all: bool = True) -> Drawn:
    """Bars of the rows with most items: of whole benchmarks, or of their families."""
    several = table["bench"].n_unique() > 1
    rows = table.filter((pl.col("family") == EVERY) == of_all).sort("items", descending=True, maintain_order=True)
    counts = dict[str, int]()
    for row in rows.head(_MOST).iter_rows(named=True):
        name = " ".join(row[column] for column in columns).strip() or "(none)"
        counts[f"{name} ({row['bench']})" if several else name] = row["items"]
    return bars(counts, "kept items")
