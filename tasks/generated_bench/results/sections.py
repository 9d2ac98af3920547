"""Sections of the report about benchmarks made on demand: accuracy, ranks, alignment of images, audit."""

from collections.abc import Iterator

import polars as pl

from tasks.report.boards import MATRIX_MODELS_MAX, heat_map, rounded_table
from tasks.report.figures import bars, shares
from tasks.report.page import Part, part
from tasks.storage.tables import Store

_FEW_ITEMS = 30
"""Slices of fewer items are grey."""
_DISTRIBUTED = {"whole": "all right", "between": "0.5 to under 1", "under_half": "under 0.5"}


def generated_parts(store: Store) -> Iterator[Part]:
    """The sections, in reading order; none without answers and images of a finished benchmark."""
    accuracy, alignment = store.read("generated_accuracy"), store.read("generated_alignment")
    audit, several = store.read("generated_audit"), alignment["bench"].n_unique() > 1
    if accuracy.height:
        yield from _accuracy(accuracy, several)
    if (checked := alignment.filter(pl.col("images") > 0)).height:
        labels = [f"{name}{f' ({bench})' if several else ''}" for name, bench in checked["slice", "bench"].iter_rows()]
        parts = checked.select("under_half", "whole", between=pl.col("from_half") + pl.col("from_80"))
        shares_by_range = {words: parts[name].to_list() for name, words in _DISTRIBUTED.items()}
        yield part("generated_alignment", rounded_table(alignment, 3), shares(labels, shares_by_range, "% of images"))
    figures = audit.filter(pl.col("measure").str.ends_with("_accuracy"), level="all").drop_nulls("value")
    if figures.height:
        rows = figures.select("measure", "model", "bench", pl.col("value") * 100).iter_rows()
        counts = {
            f"{model}, {measure.removesuffix('_accuracy')}{f' ({bench})' if several else ''}": value
            for measure, model, bench, value in rows
        }
        yield part("generated_audit", rounded_table(audit, 3), bars(counts, "% of items answered right", digits=1))


def _accuracy(accuracy: pl.DataFrame, several: bool) -> Iterator[Part]:
    """Accuracy of each model in each slice (AutoBench-V Fig. 6), and its rank there (Fig. 13)."""
    name = pl.format("{} {}", "bench", "slice") if several else pl.col("slice")
    named = accuracy.with_columns(name.alias("column"))
    columns = dict(named.group_by("column", maintain_order=True).agg(pl.col("items").max()).iter_rows())
    columns = dict(list(columns.items())[:MATRIX_MODELS_MAX])
    mean = pl.col("accuracy").filter(pl.col("slice") == "overall").mean().alias("mean")
    # names of models by their overall accuracy, best first, as far as the heat map has rows for them
    models = named.group_by("model").agg(mean).sort(-pl.col("mean"), "model")["model"].head(MATRIX_MODELS_MAX).to_list()
    for key, value in (("generated_accuracy", pl.col("accuracy") * 100), ("generated_ranks", pl.col("rank"))):
        cells = {(model, column): cell for model, column, cell in named.select("model", "column", value).iter_rows()}
        table = named.select("bench", "slice", "model", "rank", "accuracy", "ci95_low", "ci95_high", "items", "flags")
        yield part(
            key, rounded_table(table, 3), heat_map(models, columns, cells, _FEW_ITEMS, low_is_dark="rank" in key)
        )
