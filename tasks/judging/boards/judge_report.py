"""Sections about boards by judges: the judge beside the people, its verdicts, and boards of written benchmarks."""

from collections.abc import Iterator
from typing import Any

import polars as pl

from schemas.benches.judging import STAND_IN, JudgeRating, WrittenRating
from tasks.judging.boards.written_boards import by_family
from tasks.judging.released_texts import judged_by
from tasks.report.boards import MATRIX_MODELS_MAX, board_intervals, heat_map, intervals, rounded_table
from tasks.report.figures import matrix, shares
from tasks.report.page import SECTIONS, Part, part
from tasks.runtime.untrusted import one_line
from tasks.storage.queries.bench import best_first
from tasks.storage.tables import Store

_FEW = 10
"""Families in which fewer battles with the reference were decided are grey."""


def judge_parts(store: Store) -> list[Part | None]:
    """The sections, in reading order; none when the release has no judge's board."""
    about = judged_by(store)
    if about is None:
        return []
    overall = best_first(store.read("judge_ratings").filter(slice="overall"), "score")
    people = store.read("ratings").filter(slice="overall")
    table = rounded_table(overall.drop("slice", "judge"), 2)
    rated = overall.drop_nulls("score")
    figure = board_intervals(rated["model"], rated, JudgeRating.board)
    names = {name: one_line(str(about[name]), 60) for name in ("judge", "protocol", "baseline", "draw")}
    caution = SECTIONS["judge_board"]["stand_in"] if about["judge"] == STAND_IN else ""
    return [
        part("judge_board", table, figure, **names, prompts=about["prompts"], caution=caution),
        _beside(overall, people, about),
        _verdicts(overall, store.read("judge_cards"), about),
    ]


def _beside(board: pl.DataFrame, people: pl.DataFrame, about: dict[str, Any]) -> Part | None:
    """Ranks of both boards; None when they share fewer than two models."""
    if about["models"] < 2:
        return None
    votes = people.select("model", "rating", rank_of_people="rank", battles="battles")
    both = board.select("model", "score", "rank").join(votes, on="model", maintain_order="left")
    ranks = both.head(MATRIX_MODELS_MAX).select(pl.col("rank", "rank_of_people").cast(pl.Float64)).to_numpy()
    figure = matrix(both["model"].head(MATRIX_MODELS_MAX).to_list(), ["judge", "people"], ranks, low_is_dark=True)
    words = {name: _number(about[name]) for name in ("spearman", "kendall", "pair_agreement", "separability")}
    return part("judge_agreement", both.with_columns(pl.col("score", "rating").round(1)), figure, **words)


def _verdicts(board: pl.DataFrame, cards: pl.DataFrame, about: dict[str, Any]) -> Part:
    compared_rows = board.filter(pl.col("model") != about["baseline"]).head(MATRIX_MODELS_MAX)
    counts = {
        "better": compared_rows["much_better"] + compared_rows["better"],
        "tie": compared_rows["tie"],
        "worse": compared_rows["worse"] + compared_rows["much_worse"],
    }
    total = (counts["better"] + counts["tie"] + counts["worse"]).to_list()
    parts = {
        name: [n / max(1, verdicts) for n, verdicts in zip(column, total, strict=True)]
        for name, column in counts.items()
    }
    figure = shares(compared_rows["model"].to_list(), parts, "% of verdicts")
    seat = _percent(about["first_seat_fraction"])
    words = {"cards": cards.height, "no_verdicts": about["no_verdicts"], "flipped": _percent(about["flipped_fraction"])}
    return part("judge_verdicts", cards, figure, baseline=one_line(about["baseline"], 60), first_seat=seat, **words)


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3f}"


def _percent(value: float | None) -> str:
    return "unknown" if value is None else f"{100 * value:.1f} %"


def written_board_parts(store: Store) -> Iterator[Part]:
    """The sections, in reading order; none without a board."""
    board, metrics = store.read("written_board"), store.read("written_metrics")
    several = board["bench"].n_unique() > 1
    if board.height:
        overall = best_first(board.filter(slice="overall"), within=["bench"])
        labels = [f"{model} ({bench})" if several else model for model, bench in overall["model", "bench"].iter_rows()]
        figure = board_intervals(labels, overall, WrittenRating.board)
        judges = ", ".join(one_line(name, 60) for name in board["judge"].unique().sort())
        yield part("written_board", rounded_table(board, 3), figure, judges=judges)
        yield from _families(board)
    if metrics.height:  # a judge or metric with each bin of agreement (VisIT-Bench Fig. 7)
        metric_rows, several = (
            metrics.sort("bench", "metric", "bin", descending=[False, False, True]),
            metrics["bench"].n_unique() > 1,
        )
        names = metric_rows.select("bench", "metric", "bin").iter_rows()
        labels = [f"{metric}, {bin_name}{f' ({bench})' if several else ''}" for bench, metric, bin_name in names]
        percent = metric_rows.select(pl.col("reproduced", "ci95_low", "ci95_high") * 100)
        unit = "% of people's choices named, with the 95 % interval"
        figure = intervals(labels, percent, ("reproduced", "ci95_low", "ci95_high"), unit)
        yield part("written_metrics", rounded_table(metrics, 3), figure)


def _families(board: pl.DataFrame) -> Iterator[Part]:
    """Win rate against the reference by family (VisIT-Bench Fig. 8)."""
    rows = by_family(board)
    if rows.is_empty():
        return
    name = "win_rate_vs_reference"
    decisive_counts = rows.group_by("family").agg(pl.col("decisive_vs_reference").sum()).sort(
        "decisive_vs_reference", "family", descending=[True, False]
    )  # fmt: skip
    columns = dict(decisive_counts.head(MATRIX_MODELS_MAX).iter_rows())
    models = rows.group_by("model").agg(pl.col("wins_vs_reference").sum()).sort("wins_vs_reference", "model")["model"]
    win_counts = rows.group_by("model", "family").agg(
        pl.col("wins_vs_reference").sum(), pl.col("decisive_vs_reference").sum()
    )
    cells = {(model, family): 100 * won / n for model, family, won, n in win_counts.iter_rows() if n}
    table = rows.select("bench", "family", "model", "wins_vs_reference", "decisive_vs_reference", pl.col(name).round(3))
    yield part(
        "written_wins", table, heat_map(models.reverse().to_list()[:MATRIX_MODELS_MAX], columns, cells, _FEW), few=_FEW
    )
