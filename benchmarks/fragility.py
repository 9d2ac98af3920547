"""How few votes change a board, against a greedy search: one vote at a time, and one fit after each."""

import csv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.rate import battles
from benchmarks.timing import compare
from schemas.rating import Fragility, RatingMethod
from tasks.leaderboard.fragility import fragility
from tasks.leaderboard.influence import Ballots
from tasks.leaderboard.votes import rateable, votes

TABLE = Path(__file__).parents[1] / "tests" / "published" / "wildvision-table4.csv"
BASELINE = "Claude-3-Sonnet"
GREEDY_PAIRS = 4
"""Pairs of the large board that the greedy search does; its seconds are scaled to all."""


def judged() -> pl.DataFrame:
    """The 19,366 votes of WildVision's judge on 21 models, by the counts of Table 4; a strong verdict is three."""
    rows = []
    for row in csv.DictReader(TABLE.read_text(encoding="utf-8").splitlines()):
        if row["much_better"]:
            won, better, tie, worse, lost = (
                int(float(row[name])) for name in ("much_better", "better", "tie", "worse", "much_worse")
            )
            for winner, times in (("model_a", 3 * won + better), ("tie", tie), ("model_b", 3 * lost + worse)):
                rows += [(row["model"], BASELINE, winner)] * times
    return rateable(pl.DataFrame(rows, schema=["model_a", "model_b", "winner"], orient="row"))


def greedy(table: pl.DataFrame, rows: Sequence[Fragility]) -> list[int]:
    """Votes that each contest takes when the vote of most influence is changed, and the board fitted anew."""
    ballots = Ballots.of(votes(table))
    return [_one_by_one(replace(ballots, turned=row.change == "reversed"), row) for row in rows]


def _one_by_one(ballots: Ballots, row: Fragility) -> int:
    contest = ballots.cast.models.index(str(row.model)), ballots.cast.models.index(str(row.rival))
    changed = np.zeros(len(ballots.most))
    at, known = ballots.refit(changed)
    while at[contest[0]] - at[contest[1]] > -1e-7:
        gains = ballots.gains(changed, at, np.asarray(known.core), contest)
        changed[int(np.argmax(np.where(changed < ballots.most, gains, -np.inf)))] += 1
        at, known = ballots.refit(changed, at)
    return int(changed.sum())


def run() -> list[dict[str, Any]]:
    """Published votes, all neighbours; and 2 million votes on 200 models.

    `more_than_greedy` counts contests that need more votes than the greedy search finds; `fewest` and `most` are the
    least and the largest number of votes removed between neighbours.
    """
    method = RatingMethod()
    return [
        _row("fragility: published judge votes, 21 models", judged(), method, None),
        _row("fragility: 200 models, all neighbours", rateable(battles(2_000_000, 200)), method, GREEDY_PAIRS),
    ]


def _row(bench: str, table: pl.DataFrame, method: RatingMethod, pairs: int | None) -> dict[str, Any]:
    found = fragility(table, "overall", method)
    asked = found if pairs is None else found[2 : 2 + 2 * pairs]
    least = greedy(table, asked)
    removed = [row.needed or 0 for row in found if row.change == "removed" and row.contest == "neighbours"]
    return compare(
        bench,
        table.height,
        lambda: fragility(table, "overall", method),
        "greedy: one vote, one fit",
        lambda: greedy(table, asked),
        peer_times=len(found) / len(asked),
        more_than_greedy=sum((row.needed or 0) > other for row, other in zip(asked, least, strict=True)),
        contests=len(asked),
        fewest=min(removed),
        most=max(removed),
        first_place=found[0].needed,
    )
