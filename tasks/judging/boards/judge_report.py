"""Sections about the judge: its board, beside the people's, and its verdicts."""

from typing import Any

import polars as pl

from schemas.benches.judging import STAND_IN
from tasks.judging.released_texts import judged_by
from tasks.report.boards import MODELS_MAX, intervals
from tasks.report.figures import matrix, shares
from tasks.report.page import SECTIONS, Part, part
from tasks.runtime.untrusted import one_line
from tasks.storage.queries.board_order import best_first
from tasks.storage.tables import Store

_SCORE = ("score", "score_ci95_low", "score_ci95_high")


def judge_parts(store: Store) -> list[Part | None]:
    """The sections, in reading order; none when the release has no judge's board."""
    about = judged_by(store)
    if about is None:
        return []
    overall = best_first(store.read("judge_ratings").filter(slice="overall"), "score")
    people = store.read("ratings").filter(slice="overall")
    shown = overall.drop("slice", "judge").with_columns(pl.col(pl.Float64).round(2), pl.col("flags").list.join(" "))
    rated = overall.drop_nulls("score")
    figure = intervals(rated["model"], rated, _SCORE, "score with its 95 % interval")
    names = {name: one_line(str(about[name]), 60) for name in ("judge", "protocol", "baseline", "draw")}
    caution = SECTIONS["judge_board"]["stand_in"] if about["judge"] == STAND_IN else ""
    return [
        part("judge_board", shown, figure, **names, prompts=about["prompts"], caution=caution),
        _beside(overall, people, about),
        _verdicts(overall, store.read("judge_cards"), about),
    ]


def _beside(board: pl.DataFrame, people: pl.DataFrame, about: dict[str, Any]) -> Part | None:
    """Ranks of both boards; None when they share fewer than two models."""
    if about["models"] < 2:
        return None
    votes = people.select("model", "rating", rank_of_people="rank", battles="battles")
    both = board.select("model", "score", "rank").join(votes, on="model", maintain_order="left")
    ranks = both.head(MODELS_MAX).select(pl.col("rank", "rank_of_people").cast(pl.Float64)).to_numpy()
    figure = matrix(both["model"].head(MODELS_MAX).to_list(), ["judge", "people"], ranks, low_is_dark=True)
    words = {name: _number(about[name]) for name in ("spearman", "kendall", "pair_agreement", "separability")}
    return part("judge_agreement", both.with_columns(pl.col("score", "rating").round(1)), figure, **words)


def _verdicts(board: pl.DataFrame, cards: pl.DataFrame, about: dict[str, Any]) -> Part:
    shown = board.filter(pl.col("model") != about["baseline"]).head(MODELS_MAX)
    counts = {
        "better": shown["much_better"] + shown["better"],
        "tie": shown["tie"],
        "worse": shown["worse"] + shown["much_worse"],
    }
    total = (counts["better"] + counts["tie"] + counts["worse"]).to_list()
    parts = {name: [n / max(1, of) for n, of in zip(each, total, strict=True)] for name, each in counts.items()}
    figure = shares(shown["model"].to_list(), parts, "% of verdicts")
    seat = _percent(about["first_seat_fraction"])
    words = {"cards": cards.height, "no_verdicts": about["no_verdicts"], "flipped": _percent(about["flipped_fraction"])}
    return part("judge_verdicts", cards, figure, baseline=one_line(about["baseline"], 60), first_seat=seat, **words)


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3f}"


def _percent(value: float | None) -> str:
    return "unknown" if value is None else f"{100 * value:.1f} %"
