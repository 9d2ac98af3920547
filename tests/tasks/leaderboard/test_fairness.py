"""Who was given what: shares, models that left, months, and the luck of the best of several."""

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest

from schemas.policy import ModelFacts
from schemas.rating import Rating, RatingMethod
from tasks.leaderboard.fairness import best_of, exposure, model_lives, months
from tasks.leaderboard.leaderboard import leaderboard
from tasks.leaderboard.votes import rateable, votes
from tests.tasks.leaderboard.battle_tables import drawn, games

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
FACTS = {
    "m0": ModelFacts(provider="Ada", licence="apache-2.0", open=True),
    "m1": ModelFacts(provider="Ada", open=True),
    "m2": ModelFacts(provider="Bo", open=False),
}


def _row(model: str, rating: float, half: float) -> Rating:
    known = {"slice": "overall", "rank": 1, "battles": 500, "flags": []}
    return Rating(model=model, rating=rating, ci95_low=rating - half, ci95_high=rating + half, **known)


def test_shares_add_up_to_one_and_count_each_side():
    battles = games(("m0", "m1", "tie"), ("m0", "m2", "model_a"), ("m0", "m3", "model_b"))
    rows = exposure(battles, FACTS)
    assert {row.group: row.share for row in rows if row.by == "model"} == {
        "m0": 0.5,
        "m1": 1 / 6,
        "m2": 1 / 6,
        "m3": 1 / 6,
    }
    providers = {row.group: (row.models, row.appearances, row.votes_a_model) for row in rows if row.by == "provider"}
    assert providers == {"Ada": (2, 4, 2.0), "Bo": (1, 1, 1.0), "unknown": (1, 1, 1.0)}
    assert {row.by for row in exposure(battles, {})} == {"model"}, "nothing is said where nobody told facts"


def test_a_model_without_a_vote_for_a_month_has_left_and_a_month_counts_who_came():
    times = [BEGIN, BEGIN + timedelta(days=1), BEGIN + timedelta(days=40), BEGIN + timedelta(days=41)]
    battles = games(("m0", "m1", "model_a"), ("m1", "m0", "model_a"), ("m0", "m2", "model_a"), ("m2", "m0", "model_a"))
    battles = battles.with_columns(tstamp=pl.Series(times), prompt=pl.Series([1, 2, 2, 3]))
    lives = {row.model: row for row in model_lives(battles, leaderboard(votes(battles)), RatingMethod(), FACTS)}
    assert {name: row.left for name, row in lives.items()} == {"m0": False, "m1": True, "m2": False}
    assert str(lives["m1"].last_day) == "2026-01-02" and lives["m2"].provider == "Bo"
    first, second = months(battles)
    assert (first.came, first.left, first.groups, first.seen_before) == (2, 1, 1, None)
    assert (second.came, second.prompts, second.seen_before) == (1, 2, 0.5)


def test_months_tell_when_votes_do_not_connect_all_models():
    battles = games(("m0", "m1", "tie"), ("m2", "m3", "tie"), ("m1", "m2", "tie"))
    battles = battles.with_columns(tstamp=pl.Series([BEGIN, BEGIN, BEGIN + timedelta(days=35)]))
    assert [(month.groups, month.groups_so_far) for month in months(battles)] == [(2, 2), (1, 1)]
    assert months(battles.drop("tstamp")) == []


def test_a_rating_moves_by_no_more_than_chance_when_nothing_changed():
    outside, told = 0, 0
    for seed in range(12):
        battles = rateable(drawn(3_000, 6, seed=seed))
        battles = battles.with_columns(tstamp=pl.Series([BEGIN + timedelta(minutes=n) for n in range(battles.height)]))
        for row in model_lives(battles, leaderboard(votes(battles)), RatingMethod(), {}):
            told += 1
            outside += abs(row.moved) > row.moved_by_chance
    assert told == 72 and outside <= 9, "about 5 in 100 are beyond the interval"


@pytest.mark.parametrize("ratings", [(1000.0, 1000.0, 1000.0), (1000.0, 980.0, 400.0)])
def test_the_best_of_several_gains_what_a_simulation_gains(ratings):
    half = 39.2
    board = [_row(f"m{n}", rating, half) for n, rating in enumerate(ratings)]
    (row,) = best_of(board, {f"m{n}": ModelFacts(provider="Ada") for n in range(3)})
    noise = np.random.default_rng(0).normal(scale=half / 1.959963984540054, size=(400_000, 3))
    assert row.models == 3
    assert row.bias == pytest.approx((noise + ratings).max(axis=1).mean() - max(ratings), abs=0.15)
    assert best_of(board[:1], FACTS) == [], "one model is no choice"
