"""How many majorities of people a metric or a judge reproduces, by agreement, and how its board agrees with theirs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from schemas.benches.agreement import MetricAgreement, MetricBoard
from schemas.errors import BadInput
from tasks.judging.agreement.label_files import in_our_columns
from tasks.judging.agreement.metrics import Metric
from tasks.leaderboard.agreement import agreement
from tasks.leaderboard.battle_files import COLUMN_NAMES, read_table
from tasks.leaderboard.intervals import quantiles95
from tasks.leaderboard.leaderboard import leaderboard
from tasks.leaderboard.votes import Vector, rateable, votes
from tasks.runtime.untrusted import one_line

_COLUMNS: Mapping[str, list[str]] = {
    "item": ["question_id", "item_id", "item", "prompt"],
    **{name: COLUMN_NAMES["battle"][name] for name in ("model_a", "model_b", "winner")},
    "rater": ["rater", *COLUMN_NAMES["battle"]["judge"]],
}
"""Our column -> its names in files, the first one present is used."""
_PAIR = ["item", "model_a", "model_b"]


@dataclass(frozen=True)
class Comparisons:
    """Pairs of answers that so many people voted on."""

    rows: pl.DataFrame
    """item, model_a and model_b in order of name, `a_wins`, `bin` such as 4/5."""
    left_out: int
    """Pairs with another number of decisive votes, or without a majority."""


def read_comparisons(path: Path, votes: int) -> Comparisons:
    """The comparisons of a table of single votes with exactly so many decisive votes; ties are no such votes.

    Raises BadInput for a table without the columns, without a comparison, and for a rater who votes twice on one.
    """
    raw = read_table(path, {name for names in _COLUMNS.values() for name in names})
    return comparisons(raw, repr(str(path)), votes)


def comparisons(raw: pl.DataFrame, where: str, votes: int | None) -> Comparisons:
    """The same of a table that is read; `votes` None: the number of votes that most comparisons have.

    `where` names the table in errors.
    """
    choices = in_our_columns(raw, _COLUMNS, where).drop_nulls(["item", "winner"])
    turned = pl.col("model_a") > pl.col("model_b")
    cast = rateable(choices).with_columns(
        a_wins=(pl.col("winner") == "model_a") != turned,
        model_a=pl.min_horizontal("model_a", "model_b"),
        model_b=pl.max_horizontal("model_a", "model_b"),
    )
    _check_once(cast, where)
    decisive = cast.filter(pl.col("winner").is_in(["model_a", "model_b"]))
    counted = decisive.group_by(_PAIR).agg(votes=pl.len(), wins=pl.col("a_wins").sum()).sort(_PAIR)
    if votes is None:
        votes = int(counted["votes"].mode().max() or 0)  # type: ignore[arg-type]
    most = pl.max_horizontal("wins", pl.col("votes") - pl.col("wins"))
    chosen = counted.filter(votes=votes).filter(2 * most > votes)
    if chosen.is_empty():
        raise BadInput(
            f"{where}: none of its {counted.height:,} comparisons has {votes} votes for one side or the other; "
            "give another number as --votes"
        )
    rows = chosen.select(*_PAIR, a_wins=2 * pl.col("wins") > votes, bin=pl.format("{}/{}", most, pl.lit(votes)))
    return Comparisons(rows, counted.height - chosen.height)


def _check_once(cast: pl.DataFrame, where: str) -> None:
    if "rater" not in cast.columns:
        return
    named = cast.drop_nulls("rater")
    twice = named.filter(named.select(*_PAIR, "rater").is_duplicated())
    if not twice.is_empty():
        row = twice.row(0, named=True)
        rater, item, one, other = (one_line(row[name], 60) for name in ("rater", *_PAIR))
        raise BadInput(f"{where}: rater {rater!r} votes twice on {one!r} and {other!r} at item {item!r}; keep one")


AnswerTexts = Mapping[tuple[str, str], str]
"""(item, model) -> text."""
Winners = Mapping[tuple[str, str, str], str]
"""(item, model_a, model_b), models in order of name -> model_a, model_b or tie."""
_WINNER = {1.0: "model_a", 0.0: "model_b", 0.5: "tie"}


def scored(metric: Metric, rows: pl.DataFrame, answers: AnswerTexts, references: Mapping[str, str]) -> Vector:
    """For each comparison 1 where model_a's answer scores higher, 0 where lower, 0.5 for a tie, NaN without a score."""
    wins = np.full(rows.height, np.nan)
    for place, (item, a, b) in enumerate(rows.select("item", "model_a", "model_b").iter_rows()):
        texts, reference = (answers.get((item, a)), answers.get((item, b))), references.get(item)
        if None in texts or (metric.needs_reference and reference is None):
            continue
        ours, theirs = (metric.score(reference if metric.needs_reference else "", text or "") for text in texts)  # type: ignore[arg-type]
        wins[place] = 0.5 if ours == theirs else float(ours > theirs)
    return wins


def judged(winners: Winners, rows: pl.DataFrame) -> Vector:
    """For each comparison 1, 0 or 0.5 as a judge named the winner, NaN where it did not."""
    score = {"model_a": 1.0, "model_b": 0.0, "tie": 0.5}
    keys = rows.select("item", "model_a", "model_b").iter_rows()
    return np.array([score.get(winners.get(key, ""), np.nan) for key in keys])


def reproduced(name: str, scores: Vector, rows: pl.DataFrame, rounds: int, seed: int) -> list[MetricAgreement]:
    """One row for each bin, the most agreed first, and one for all; none where nothing is scored."""
    right = np.where(rows["a_wins"].to_numpy(), scores, 1 - scores)
    bins = sorted(rows["bin"].unique(), reverse=True)
    agreements = []
    for name_of_bin in [*bins, "all"]:
        inside = np.ones(rows.height, bool) if name_of_bin == "all" else (rows["bin"] == name_of_bin).to_numpy()
        is_scored = inside & ~np.isnan(right)
        if not is_scored.any():
            continue
        low, high = _interval(right[is_scored], rows["item"].filter(pl.Series(is_scored)), rounds, seed)
        agreements.append(MetricAgreement(
            metric=name, bin=name_of_bin, comparisons=int(is_scored.sum()), missing=int(inside.sum() - is_scored.sum()),
            ties=int((right[is_scored] == 0.5).sum()), reproduced=float(right[is_scored].mean()),
            ci95_low=low, ci95_high=high,
        ))  # fmt: skip
    return agreements


def _interval(right: Vector, items: pl.Series, rounds: int, seed: int) -> tuple[float, float]:
    """Resamples whole items, because comparisons of one item are not independent."""
    place = (items.rank("dense").cast(pl.Int64) - 1).to_numpy()
    wins, counts = np.bincount(place, right), np.bincount(place)
    drawn = np.random.default_rng(seed).multinomial(len(counts), np.full(len(counts), 1 / len(counts)), rounds)
    means = (drawn @ wins) / (drawn @ counts)
    low, high = quantiles95(means[:, None], np.array([right.mean()]))
    return float(low[0]), float(high[0])


def board_agreement(name: str, scores: Vector, rows: pl.DataFrame) -> MetricBoard | None:
    """Both boards from the comparisons that it has a score for; None with fewer than two models."""
    scored_rows = rows.filter(pl.Series(~np.isnan(scores)))
    ours = scored_rows.with_columns(
        winner=pl.Series([_WINNER[share] for share in scores[~np.isnan(scores)]], dtype=pl.String)
    )
    theirs = scored_rows.with_columns(winner=pl.when("a_wins").then(pl.lit("model_a")).otherwise(pl.lit("model_b")))
    if scored_rows.is_empty():
        return None
    boards = [leaderboard(votes(rateable(battles))) for battles in (ours, theirs)]
    rank_agreement = agreement(*boards)
    return MetricBoard(
        metric=name,
        comparisons=scored_rows.height,
        models=rank_agreement.models,
        spearman=rank_agreement.spearman,
        kendall=rank_agreement.kendall,
    )


def every(
    rows: pl.DataFrame, scores_by_name: Mapping[str, Vector], rounds: int, seed: int
) -> tuple[list[MetricAgreement], list[MetricBoard], list[str]]:
    """Agreement and boards of what each name says, and the names that have a score for no comparison."""
    agreements = {name: reproduced(name, vector, rows, rounds, seed) for name, vector in scores_by_name.items()}
    boards = [board for name, vector in scores_by_name.items() if (board := board_agreement(name, vector, rows))]
    return (
        [row for of_name in agreements.values() for row in of_name],
        boards,
        [name for name in agreements if not agreements[name]],
    )
