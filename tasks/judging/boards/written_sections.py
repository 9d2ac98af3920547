"""Sections of the report about boards of written benchmarks, one figure for all benchmarks together."""

from collections.abc import Iterator

import polars as pl

from tasks.judging.boards.written_boards import by_family
from tasks.report.boards import MODELS_MAX, heat_map, intervals
from tasks.report.page import Part, part
from tasks.report.panels import Drawn
from tasks.runtime.untrusted import one_line
from tasks.storage.queries.board_order import best_first
from tasks.storage.tables import Store

_FEW = 10
"""Families in which fewer battles with the reference were decided are grey."""


def written_board_parts(store: Store) -> Iterator[Part]:
    """The sections, in reading order; none without a board."""
    board, metrics = store.read("written_board"), store.read("written_metrics")
    several = board["bench"].n_unique() > 1
    if board.height:
        overall = best_first(board.filter(slice="overall"), within=["bench"])
        labels = [f"{model} ({bench})" if several else model for model, bench in overall["model", "bench"].iter_rows()]
        figure = intervals(labels, overall, ("rating", "ci95_low", "ci95_high"), "rating with its 95 % interval")
        judges = ", ".join(one_line(name, 60) for name in board["judge"].unique().sort())
        table = board.with_columns(pl.col(pl.Float64).round(3), pl.col("flags").list.join(" "))
        yield part("written_board", table, figure, judges=judges)
        yield from _families(board)
    if metrics.height:
        table = metrics.with_columns(pl.col(pl.Float64).round(3))
        yield part("written_metrics", table, _metrics(metrics))


def _families(board: pl.DataFrame) -> Iterator[Part]:
    """Win rate against the reference by family (VisIT-Bench Fig. 8)."""
    rows = by_family(board)
    if rows.is_empty():
        return
    name = "win_rate_vs_reference"
    held = rows.group_by("family").agg(pl.col("decisive_vs_reference").sum()).sort(
        "decisive_vs_reference", "family", descending=[True, False]
    )  # fmt: skip
    columns = dict(held.head(MODELS_MAX).iter_rows())
    models = rows.group_by("model").agg(pl.col("wins_vs_reference").sum()).sort("wins_vs_reference", "model")["model"]
    shown = rows.group_by("model", "family").agg(
        pl.col("wins_vs_reference").sum(), pl.col("decisive_vs_reference").sum()
    )
    cells = {(model, of): 100 * won / n for model, of, won, n in shown.iter_rows() if n}
    table = rows.select("bench", "family", "model", "wins_vs_reference", "decisive_vs_reference", pl.col(name).round(3))
    yield part("written_wins", table, heat_map(models.reverse().to_list()[:MODELS_MAX], columns, cells, _FEW), few=_FEW)


def _metrics(metrics: pl.DataFrame) -> Drawn:
    """A judge or metric with each bin of agreement (VisIT-Bench Fig. 7)."""
    shown = metrics.sort("bench", "metric", "bin", descending=[False, False, True])
    several = metrics["bench"].n_unique() > 1
    labels = [
        f"{metric}, {of}{f' ({bench})' if several else ''}"
        for bench, metric, of in shown.select("bench", "metric", "bin").iter_rows()
    ]
    percent = shown.select(pl.col("reproduced", "ci95_low", "ci95_high") * 100)
    unit = "% of people's choices named, with the 95 % interval"
    return intervals(labels, percent, ("reproduced", "ci95_low", "ci95_high"), unit)
