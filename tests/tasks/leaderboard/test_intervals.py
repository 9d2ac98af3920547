"""Intervals: sandwich and bootstrap agree and hold the truth in 95 %, and ranks respect them."""

import numpy as np
import pytest

from schemas.rating import Interval, RatingMethod
from tasks.leaderboard.bradley_terry import SCALE, Structure, log_strengths
from tasks.leaderboard.intervals import bootstrap_strengths, draws, quantiles95, rank_upper_bound
from tasks.leaderboard.leaderboard import leaderboard
from tasks.leaderboard.votes import votes
from tests.tasks.leaderboard.battle_tables import beats, drawn, games

BOOTSTRAP = Interval.BOOTSTRAP


def widths(battles, **method):
    rows = leaderboard(votes(battles), method=RatingMethod(**method))
    return {row.model: row.ci95_high - row.ci95_low for row in rows}


@pytest.mark.parametrize("anchor", [None, "m1"])
def test_sandwich_and_bootstrap_agree_within_ten_percent(anchor):
    battles = drawn(4000, 6)
    bootstrap = widths(battles, interval=BOOTSTRAP, bootstraps=1500, anchor_model=anchor)
    sandwich = widths(battles, anchor_model=anchor)
    assert sandwich == pytest.approx(bootstrap, rel=0.1, abs=1e-9)


def test_95_percent_of_intervals_hold_the_true_rating():
    truth = {f"m{n}": SCALE * 0.3 * (n - 2) for n in range(5)}
    held = []
    for seed in range(200):
        for row in leaderboard(votes(drawn(300, 5, seed, tie_probability=0.0))):
            held.append(row.ci95_low - 1000 <= truth[row.model] <= row.ci95_high - 1000)
    assert 0.935 <= np.mean(held) <= 0.97


@pytest.mark.parametrize("votes_each", [2, 40])
def test_resampled_votes_are_as_many_and_spread_as_multinomial_counts(votes_each):
    told = votes(games(*beats("A", "B", votes_each), *beats("B", "A", 2 * votes_each), *beats("B", "C", votes_each)))
    counts = told.grouped().times
    rounds = np.stack(list(draws(told.grouped(), 4000, seed=1)))
    total = counts.sum()
    assert (rounds.sum(axis=1) == total).all() and len(counts) == 3
    share = counts / total
    assert rounds.mean(axis=0) == pytest.approx(counts, rel=0.05)
    assert rounds.var(axis=0) == pytest.approx(total * share * (1 - share), rel=0.12)


def test_the_same_seed_draws_the_same_and_another_seed_draws_others():
    battles = drawn(500, 4)
    assert widths(battles, interval=BOOTSTRAP, seed=3) == widths(battles, interval=BOOTSTRAP, seed=3)
    assert widths(battles, interval=BOOTSTRAP, seed=3) != widths(battles, interval=BOOTSTRAP, seed=4)


def test_more_rounds_begin_with_the_rounds_of_fewer():
    told = votes(drawn(300, 4)).grouped()
    point = log_strengths(told.pairs, *told.sums(), 4)
    few, many = (bootstrap_strengths(told, point, rounds, 0) for rounds in (7, 40))
    assert (many[:7] == few).all()


def test_a_round_of_the_bootstrap_is_the_fit_of_its_votes():
    told = votes(drawn(400, 5)).grouped()
    point = log_strengths(told.pairs, *told.sums(), 5)
    samples = bootstrap_strengths(told, point, 5, seed=2)
    cold = [log_strengths(told.pairs, *told.sums(times), 5) for times in draws(told, 5, seed=2)]
    assert samples == pytest.approx(np.array(cold), abs=1e-9)


def test_quantiles_are_those_at_rounds_plus_one_times_p():
    low, high = quantiles95(np.arange(1.0, 80.0)[:, None], np.zeros(1))  # the 2nd and the 78th of 79
    assert (low.item(), high.item()) == pytest.approx((2.0, 78.0))


def test_rounds_without_a_model_say_nothing_about_it():
    samples = np.array([[1.0, np.nan, np.nan], [3.0, 5.0, np.nan]])
    low, high = quantiles95(samples, np.array([2.0, 5.0, 9.0]))
    assert low == pytest.approx([1.0, 5.0, 9.0]) and high == pytest.approx([3.0, 5.0, 9.0])


def ranks(group, core):
    low, high = np.array([30.0, 20.0, 10.0, 0.0]), np.array([40.0, 31.0, 19.0, 50.0])
    core = np.array(core, bool)
    return rank_upper_bound(low, high, Structure(np.array(group), core, core, core))


def test_rank_counts_the_models_whose_interval_lies_wholly_above():
    assert ranks([0, 0, 0, 0], [1, 1, 1, 1]) == [1, 1, 3, 1]
    assert ranks([0, 0, 1, 0], [1, 1, 1, 1]) == [1, 1, 1, 1]


def test_a_model_outside_the_core_has_no_rank_and_counts_in_no_other():
    assert ranks([0, 0, 0, 0], [0, 1, 1, 1]) == [None, 1, 2, 1]
