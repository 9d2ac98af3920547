"""Sections about the benchmark: where its prompts come from, and how well they stand for the arena."""

import polars as pl

from tasks.report.figures import bars, rating_intervals
from tasks.report.part import Part
from tasks.tables import Store

_FUNNEL = (
    "Distinct kept prompts, with their pictures, that each filter left, in this order; the last are the benchmark. "
    "What is reserved for the hidden split is in nothing that is released."
)
_MEASURES = (
    "Points: the benchmark. Bars: 95 % of 100 random samples of the same size from the same pool. Larger is better for "
    "topic coverage and nearest cosine, smaller for distances. Drawn evenly over topics, a benchmark is near even "
    "topics; a random sample is near the pool's."
)
_AGREEMENT = (
    "Boards of as many battles as the benchmark has prompts on topics with battles, drawn topic by topic as its "
    "prompts are (bench) or from all alike (random), against the board of all battles on topics and, in order only, "
    "the board on which every topic weighs the same. Bars: 95 % of 100 draws. Agreement counts pairs that the "
    "reference separates: 1 same order, 0.5 not separated, 0 reversed (Arena-Hard's notebook); strict counts them 1, 0 "
    "and -1 (its paper). Separability is the share of pairs whose 95 % intervals do not overlap."
)
_SAID = {
    "few_battles": "There are fewer than ten times as many battles, so draws share many and agree too well.",
    "few_votes": "A draw has fewer than ten battles a model, so its order is mostly chance.",
    "few_models": "There are fewer than five models.",
    "repeats": "Some topics have fewer battles than prompts, so some battles count more than once.",
}


def bench_parts(store: Store) -> list[Part]:
    """Sections in reading order; those without data are left out."""
    parts = (_funnel(store.read("bench_funnel")), _measures(store.read("bench_measures")))
    return [part for part in (*parts, _agreement(store.read("bench_agreement"))) if part is not None]


def _funnel(table: pl.DataFrame) -> Part | None:
    if table.is_empty():
        return None
    shown = table.sort("step").select("filter", "prompts")
    return Part("bench_funnel", "The benchmark's prompts", _FUNNEL, shown, bars(dict(shown.iter_rows()), "prompts"))


def _measures(table: pl.DataFrame) -> Part | None:
    if table.is_empty():
        return None
    shown = table.sort("measure").with_columns(pl.col(pl.Float64).round(3))
    names = [name.replace("_", " ") for name in shown["measure"]]
    point, low, high = (shown[name].to_list() for name in ("value", "random_low", "random_high"))
    figure = rating_intervals(names, point, low, high, unit="benchmark, and random samples of its size")
    title = "How well the benchmark stands for its pool"
    return Part("bench_measures", title, _MEASURES, shown, figure, show_table=True)


def _agreement(table: pl.DataFrame) -> Part | None:
    if table.is_empty():
        return None
    shown = table.sort("reference", "metric", "sample").with_columns(
        pl.col(pl.Float64).round(3), pl.col("flags").list.join(" ")
    )
    drawn = shown.filter(pl.col("metric") != "models")
    names = [
        f"{metric}, {sample}{', even topics' if reference == 'even_topics' else ''}".replace("_", " ")
        for metric, sample, reference in drawn.select("metric", "sample", "reference").iter_rows()
    ]
    point, low, high = (drawn[name].to_list() for name in ("mean", "low", "high"))
    figure = rating_intervals(names, point, low, high, unit="mean and 95 % of the draws")
    flags = sorted({flag for flags in table["flags"] for flag in flags})
    about = " ".join([_AGREEMENT, *(_SAID[flag] for flag in flags)])
    title = "Do models rank alike on the benchmark's topics?"
    return Part("bench_agreement", title, about, shown, figure, show_table=True)
