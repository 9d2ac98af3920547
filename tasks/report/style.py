"""Sections about style: what it is worth to voters, and whose rank it carries."""

import polars as pl

from tasks.report.figures import matrix, rating_intervals
from tasks.report.part import Part
from tasks.tables import Store

_MODELS_MAX = 40
_UNIT = "change of log-odds for one standard deviation, with its 95 % interval"


def style_parts(store: Store) -> list[Part]:
    """Sections in reading order; none where style was not measured."""
    parts = (_coefficients(store.read("style_coefficients")), _rank_changes(store.read("rank_changes")))
    return [part for part in parts if part is not None]


def _coefficients(table: pl.DataFrame) -> Part | None:
    if table.is_empty():
        return None
    names, point, low, high = (table[name].to_list() for name in ("covariate", "coefficient", "ci95_low", "ci95_high"))
    about = "How many more votes an answer gets for being longer or having more markdown or names (VisionArena Fig. 6)."
    shown = table.with_columns(pl.col(pl.Float64).round(4), pl.col("flags").list.join(" "))
    figure = rating_intervals(names, point, low, high, unit=_UNIT)
    return Part("style_coefficients", "What style is worth", about, shown, figure, show_table=True)


def _rank_changes(table: pl.DataFrame) -> Part | None:
    if table.is_empty():
        return None
    order = table.sort("rank", "rating", descending=[False, True])
    shown = order.with_columns(pl.col(pl.Float64).round(1))
    about = "Ranks of the same battles without and with style control (VisionArena Fig. 8)."
    ranks = order.head(_MODELS_MAX)
    values = ranks.select(pl.col("rank", "rank_style").cast(pl.Float64)).to_numpy()
    figure = matrix(ranks["model"].to_list(), ["without", "with control"], values, low_is_dark=True)
    return Part("rank_changes", "Ranks with and without style control", about, shown, figure)
