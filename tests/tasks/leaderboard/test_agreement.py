"""Agreement between boards, by numbers worked out by hand, and of the benchmark's topics beside random battles."""

import numpy as np
import polars as pl
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import BadInput
from schemas.rating import Rating
from tasks.leaderboard.agreement import SAMPLES, agreement, bench_agreement
from tasks.leaderboard.votes import rateable, votes


@pytest.fixture(autouse=True)
def all_samples(monkeypatch):
    """As many as users get; tests of whole runs draw fewer, in the same process."""
    monkeypatch.setattr("tasks.leaderboard.agreement.SAMPLES", SAMPLES)


def board(**ratings: tuple[float, float]) -> list[Rating]:
    """model=(rating, half the width of its interval)."""
    return [
        Rating(slice="x", model=m, rating=r, ci95_low=r - h, ci95_high=r + h, rank=1, battles=1, flags=[])
        for m, (r, h) in ratings.items()
    ]


REFERENCE = board(a=(1300, 10), b=(1200, 10), c=(1100, 10), d=(1095, 10))


def test_a_board_agrees_with_itself_and_a_reversed_one_disagrees():
    same = agreement(REFERENCE, REFERENCE)
    assert (same.spearman, same.kendall, same.pearson) == pytest.approx((1, 1, 1))
    assert (same.agreement, same.agreement_strict) == (1, 1)
    assert same.separability == same.separability_reference == pytest.approx(5 / 6)
    reverse = board(a=(1000, 1), b=(1100, 1), c=(1200, 1), d=(1210, 1))
    found = agreement(reverse, REFERENCE)
    assert found.spearman == pytest.approx(-1)
    assert (found.agreement, found.agreement_strict) == (0, -1)
    assert found.brier == pytest.approx(1, abs=1e-6)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=12))
def test_rank_correlations_are_those_of_scipy_also_with_ties(ratings):
    ours, theirs = ({f"m{n:02}": (float(pair[side]), 1.0) for n, pair in enumerate(ratings)} for side in (0, 1))
    found = agreement(board(**ours), board(**theirs))
    if any(len(set(each.values())) == 1 for each in (ours, theirs)):
        assert found.spearman is found.kendall is None
        return
    first, second = zip(*ratings, strict=True)
    assert found.kendall == pytest.approx(scipy.stats.kendalltau(first, second).statistic)
    assert found.spearman == pytest.approx(scipy.stats.spearmanr(first, second).statistic)


def test_confidence_agreement_has_both_published_variants():
    # Of the five pairs the reference separates: a-b reversed, a-c, a-d, b-c, b-d right, but a-d and b-d overlap.
    mixed = board(a=(1200, 10), b=(1300, 10), c=(1100, 10), d=(1250, 80))
    found = agreement(mixed, REFERENCE)
    order = {"ab": 0, "ac": 1, "ad": 0.5, "bc": 1, "bd": 0.5}
    strict = {"ab": -1, "ac": 1, "ad": 0, "bc": 1, "bd": 0}
    assert found.agreement == pytest.approx(sum(order.values()) / 5)
    assert found.agreement_strict == pytest.approx(sum(strict.values()) / 5)
    assert found.separability == pytest.approx(4 / 6)


def test_brier_is_of_the_normal_probability_that_one_is_better():
    ten = 10 * 1.959964
    two = [board(a=(1010, ten), b=(1000, ten)), board(a=(1100, 5), b=(1000, 5))]
    chance = 0.7602499389  # of a standard normal below 10 / sqrt(10^2 + 10^2)
    assert agreement(*two).brier == pytest.approx((1 - chance) ** 2, abs=1e-7)


def test_only_models_on_both_boards_count_and_what_is_not_defined_is_null():
    assert agreement(board(a=(1, 1), b=(2, 1), z=(9, 1)), REFERENCE).models == 2
    with pytest.raises(BadInput, match="share 1 models"):
        agreement(board(a=(1, 1), z=(2, 1)), REFERENCE)
    flat = agreement(board(a=(1000, 0), b=(1000, 0)), board(a=(1000, 5), b=(1001, 5)))
    assert (flat.spearman, flat.agreement, flat.brier) == (None, None, None)


MODELS = 8


def _arena(sizes, reversed_topics=(), seed=0):
    """Votes of models whose strength falls with their number, or rises on some topics; a topic of each vote."""
    generator = np.random.default_rng(seed)
    topic = np.repeat(np.arange(len(sizes)), sizes)
    first = generator.integers(0, MODELS, len(topic))
    second = (first + generator.integers(1, MODELS, len(topic))) % MODELS
    sign = np.where(np.isin(topic, reversed_topics), -1, 1)
    chance = 1 / (1 + np.exp(sign * (first - second) * 1.0))
    won = np.where(generator.random(len(topic)) < chance, "model_a", "model_b")
    names = np.array([f"m{n}" for n in range(MODELS)])
    return votes(rateable(pl.DataFrame({"model_a": names[first], "model_b": names[second], "winner": won}))), topic


def _means(rows):
    return {(row.reference, row.sample, row.metric): row.mean for row in rows}


def test_where_all_topics_rank_alike_both_samples_agree_with_all_battles():
    rows = bench_agreement(*_arena([1500, 1500]), seats={0: 150, 1: 150}, seed=0)
    means = _means(rows)
    assert means["all_battles", "bench", "spearman"] > 0.9
    assert means["all_battles", "bench", "spearman"] == pytest.approx(
        means["all_battles", "random", "spearman"], abs=0.05
    )
    assert {row.battles for row in rows} == {300}
    assert {row.samples for row in rows} == {SAMPLES}


def test_an_even_benchmark_agrees_with_even_topics_where_one_topic_holds_most_battles():
    # 3,600 battles in one topic, 300 in each of eight others that rank the models the other way round
    held = _arena([3600] + [300] * 8, reversed_topics=range(1, 9))
    means = _means(bench_agreement(*held, seats=dict.fromkeys(range(9), 30), seed=0))
    assert means["even_topics", "bench", "spearman"] > 0.8 > means["even_topics", "random", "spearman"]
    assert means["all_battles", "random", "kendall"] > means["all_battles", "bench", "kendall"]


def test_both_published_agreements_and_separability_are_told_and_only_of_the_board_with_intervals():
    rows = bench_agreement(*_arena([400, 400]), seats={0: 40, 1: 40}, seed=0)
    told = {(row.reference, row.metric) for row in rows}
    assert {("all_battles", name) for name in ("agreement", "agreement_strict", "separability", "models")} <= told
    assert {metric for reference, metric in told if reference == "even_topics"} == {"spearman", "kendall"}


def test_too_little_data_is_said_and_the_same_votes_and_seed_give_the_same():
    rows = bench_agreement(*_arena([50, 5]), seats={0: 10, 1: 10}, seed=0)
    assert set(rows[0].flags) == {"few_battles", "few_votes", "repeats"}
    assert bench_agreement(*_arena([2000, 2000]), seats={0: 40, 1: 40}, seed=0)[0].flags == []
    held = _arena([200, 100])
    assert bench_agreement(*held, seats={0: 20, 1: 20}, seed=3) == bench_agreement(*held, seats={0: 20, 1: 20}, seed=3)


@pytest.mark.parametrize("seats", [{}, {7: 3}])
def test_without_a_battle_on_its_topics_nothing_is_said_of_a_benchmark(seats):
    assert bench_agreement(*_arena([30]), seats=seats, seed=0) == []
