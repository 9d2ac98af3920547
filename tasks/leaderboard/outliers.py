"""Finds voters whose votes contradict those of others: the sequential test of FastChat's `outlier_detect`.

Each vote gets two p-values: the share of decisive votes on the same pair that are at most, and at least, as favourable
to the first model. A voter is an outlier when the product of 1 / (2 p) over the votes exceeds 1 / 0.05 at any point.
A p-value is (1 + k) / (1 + n) for n decisive votes, as in the Chatbot Arena paper (arXiv 2403.04132, sec. 5.1, eq. 10;
the paper then uses Fisher's method). FastChat's code uses k / n: a single tie on a pair whose decisive votes all agree
then has p = 0 and makes the voter an outlier.
"""

import numpy as np
import polars as pl

from schemas.rating import OutlierJudge
from tasks.leaderboard.votes import Votes

VOTES_MIN = 5
VOTES_MAX = 100
EVIDENCE_MIN = 20.0
"""1 / 0.05."""


def outlier_judges(votes: Votes, judges: pl.Series) -> list[OutlierJudge]:
    """Outliers among voters with at least 5 votes, strongest evidence first. `judges` is the voter of each vote."""
    for_first, for_second = votes.score > 0.5, votes.score < 0.5
    won, lost = (np.bincount(votes.pair, each)[votes.pair] for each in (for_first, for_second))
    at_most = (1 + np.where(for_first, lost + won, lost)) / (1 + lost + won)
    at_least = (1 + np.where(for_second, lost + won, won)) / (1 + lost + won)
    tests = pl.DataFrame({"judge": judges, "at_most": -np.log(2 * at_most), "at_least": -np.log(2 * at_least)})
    tested = tests.drop_nulls("judge").filter(pl.len().over("judge") >= VOTES_MIN)
    evidence = (
        tested.group_by("judge", maintain_order=True)
        .head(VOTES_MAX)
        .group_by("judge", maintain_order=True)
        .agg(
            votes=pl.len(),
            evidence=pl.max_horizontal(pl.col("at_most").cum_sum().max(), pl.col("at_least").cum_sum().max()).exp(),
        )
    )
    found = evidence.filter(pl.col("evidence") > EVIDENCE_MIN).sort("evidence", "judge", descending=[True, False])
    return [OutlierJudge(**row) for row in found.iter_rows(named=True)]


def without_outliers(battles: pl.DataFrame, outliers: list[OutlierJudge]) -> pl.DataFrame:
    """Battles without the votes of outliers."""
    names = [outlier.judge for outlier in outliers]
    return battles.filter(~pl.col("judge").is_in(names).fill_null(False))
