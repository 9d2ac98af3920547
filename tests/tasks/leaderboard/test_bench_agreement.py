"""Boards of the benchmark's topics beside boards of as many random battles."""

import numpy as np
import polars as pl
import pytest

from tasks.leaderboard.agreement import SAMPLES, bench_agreement
from tasks.leaderboard.votes import rateable, votes

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


def test_too_little_data_is_said():
    rows = bench_agreement(*_arena([50, 5]), seats={0: 10, 1: 10}, seed=0)
    assert set(rows[0].flags) == {"few_battles", "few_votes", "repeats"}
    assert bench_agreement(*_arena([2000, 2000]), seats={0: 40, 1: 40}, seed=0)[0].flags == []


@pytest.mark.parametrize("seats", [{}, {7: 3}])
def test_without_a_battle_on_its_topics_nothing_is_said_of_a_benchmark(seats):
    assert bench_agreement(*_arena([30]), seats=seats, seed=0) == []


def test_the_same_votes_and_seed_give_the_same_numbers():
    held = _arena([200, 100])
    assert bench_agreement(*held, seats={0: 20, 1: 20}, seed=3) == bench_agreement(*held, seats={0: 20, 1: 20}, seed=3)
