"""8,931 real votes on 59 models have evalica's published ratings.

The votes are llmfao's crowd comparisons and evalica's golden scores of them.
"""

import numpy as np
import polars as pl
import pytest

from schemas.rating import Interval, RatingMethod
from tasks.leaderboard.battle_files import read_battles
from tasks.leaderboard.bradley_terry import SCALE
from tasks.leaderboard.leaderboard import leaderboard
from tasks.leaderboard.records import elo_ratings, outlier_judges, pair_records, win_rates
from tasks.leaderboard.votes import rateable, votes
from tests.places import PUBLISHED


@pytest.fixture(scope="module")
def battles() -> pl.DataFrame:
    return rateable(read_battles(PUBLISHED / "llmfao-votes.csv"))


@pytest.fixture(scope="module")
def golden() -> dict[str, dict[str, float]]:
    scores = pl.read_csv(PUBLISHED / "llmfao-golden-scores.csv")
    return {name: dict(scores.filter(algorithm=name).select("item", "score").iter_rows()) for name in NAMES}


NAMES = ("bradley_terry", "elo", "average_win_rate")


def test_bradley_terry_matches_evalicas_golden_scores(battles, golden):
    found = {row.model: row.rating for row in leaderboard(votes(battles), method=RatingMethod())}
    strengths = {model: np.log(score) for model, score in golden["bradley_terry"].items()}
    middle = np.mean(list(strengths.values()))
    expected = {model: 1000 + SCALE * (value - middle) for model, value in strengths.items()}
    assert found == pytest.approx(expected, abs=1e-4)  # the golden fit stopped at 1e-6
    assert sorted(found, key=found.get) == sorted(expected, key=expected.get)
    assert found["GPT 4"] == pytest.approx(1172.13, abs=0.005)


def test_online_elo_matches_evalicas_golden_scores(battles, golden):
    assert {row.model: row.rating for row in elo_ratings(votes(battles))} == pytest.approx(golden["elo"], abs=1e-6)


def test_average_win_rates_match_evalicas_golden_scores(battles, golden):
    found = {row.model: row.average_win_rate for row in win_rates(pair_records(battles))}
    assert found == pytest.approx(golden["average_win_rate"], abs=1e-9)


def test_votes_of_one_worker_are_not_independent(battles):
    plain, clustered = (
        leaderboard(votes(battles, cluster), method=RatingMethod(interval="bootstrap", bootstraps=300, cluster=cluster))
        for cluster in (None, "judge")
    )
    widths = [np.mean([row.ci95_high - row.ci95_low for row in rows]) for rows in (plain, clustered)]
    assert 1.02 < widths[1] / widths[0] < 1.6


def test_real_votes_give_the_same_intervals_either_way(battles):
    widths = [
        {row.model: row.ci95_high - row.ci95_low for row in leaderboard(votes(battles), method=method)}
        for method in (RatingMethod(interval=Interval.BOOTSTRAP, bootstraps=400), RatingMethod())
    ]
    ratio = np.array([widths[0][model] / widths[1][model] for model in widths[0]])
    assert 0.97 < ratio.mean() < 1.06 and ratio.min() > 0.85 and ratio.max() < 1.2


def test_few_real_voters_are_outliers(battles):
    assert len(outlier_judges(votes(battles), battles["judge"])) <= 6
