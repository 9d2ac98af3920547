"""Who was given what, and votes counted as WildVision's Table 1 counts them, by length of the answers too."""

import json
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest

from schemas.policy import ModelFacts
from schemas.rating import Rating, RatingMethod
from tasks.leaderboard.battle_files import read_battles
from tasks.leaderboard.fairness import best_of, exposure, model_lives, months
from tasks.leaderboard.leaderboard import leaderboard
from tasks.leaderboard.vote_statistics import length_differences, vote_statistics
from tasks.leaderboard.votes import rateable, votes
from tests.places import PUBLISHED
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


def test_months_count_who_came_and_left_and_tell_when_votes_do_not_connect_all_models():
    battles = games(("m0", "m1", "tie"), ("m2", "m3", "tie"), ("m1", "m2", "tie"))
    battles = battles.with_columns(tstamp=pl.Series([BEGIN, BEGIN, BEGIN + timedelta(days=35)]))
    assert [(month.groups, month.groups_so_far) for month in months(battles)] == [(2, 2), (1, 1)]
    assert months(battles.drop("tstamp")) == []
    times = [BEGIN, BEGIN + timedelta(days=1), BEGIN + timedelta(days=40), BEGIN + timedelta(days=41)]
    battles = games(("m0", "m1", "model_a"), ("m1", "m0", "model_a"), ("m0", "m2", "model_a"), ("m2", "m0", "model_a"))
    battles = battles.with_columns(tstamp=pl.Series(times), prompt=pl.Series([1, 2, 2, 3]))
    lives = {row.model: row for row in model_lives(battles, leaderboard(votes(battles)), RatingMethod(), FACTS)}
    assert {name: row.left for name, row in lives.items()} == {"m0": False, "m1": True, "m2": False}
    assert str(lives["m1"].last_day) == "2026-01-02" and lives["m2"].provider == "Bo"
    first, second = months(battles)
    assert (first.came, first.left, first.groups, first.seen_before) == (2, 1, 1, None)
    assert (second.came, second.prompts, second.seen_before) == (1, 2, 0.5)


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


PRINTED = {"leftvote": 2932, "rightvote": 2839, "tievote": 979, "bothbad_vote": 1326}
"""WildVision's Table 1: votes by kind, of which 1,440 are named; 102 days; 10,884 rounds."""
NAMED, DAYS, ROUNDS = 1440, 102, 10_884


@pytest.fixture(scope="module")
def table1(tmp_path_factory):
    """A table with as many votes of each kind as WildVision printed, over its days, with its rounds."""
    winners = [name for name, count in PRINTED.items() for _ in range(count)]
    more = ROUNDS - len(winners)  # votes after a second round
    rows = {
        "model_a": ["x"] * len(winners),
        "model_b": ["y"] * len(winners),
        "winner": winners,
        "anony": [n >= NAMED for n in range(len(winners))],
        "num_turns": [2 if n < more else 1 for n in range(len(winners))],
        "tstamp": [1_707_000_000.0 + 86_400 * (n % DAYS) for n in range(len(winners))],
        "conv_metadata": [
            {"context_tokens": 30 + 2 * (n % 2), "a": {"assistant_tokens": 100}, "b": {"assistant_tokens": 120}}
            for n in range(len(winners))
        ],
    }
    path = tmp_path_factory.mktemp("votes") / "votes.parquet"
    pl.DataFrame(rows).write_parquet(path)
    return path


def test_wildvisions_table_is_counted_again_and_named_votes_only_when_asked_for(curate, table1):
    code, out, err = curate("rate", table1, "--table", "vote_statistics", "--named", "--json")
    assert code == 0, err
    row = json.loads(out)
    assert (row["votes"], row["anonymous"], row["named"]) == (8076, 6636, 1440)
    assert [row[name] for name in ("left", "right", "ties", "both_bad")] == [*PRINTED.values()]
    assert (row["days"], row["rounds"], round(row["mean_rounds"], 3)) == (102, 10_884, 1.348)
    assert (row["mean_input_tokens"], row["mean_output_tokens"]) == (31.0, 110.0)
    assert row["longer_won_fraction"] == pytest.approx(2839 / (2932 + 2839))
    _, out, _ = curate("rate", table1, "--table", "vote_statistics", "--json", "--slice", "all")
    rows = {row["slice"]: row for row in map(json.loads, out.splitlines())}
    assert (rows["overall"]["votes"], rows["overall"]["named"]) == (6636, 0)
    assert rows["category:multi_turn"]["mean_rounds"] == 2.0
    assert rows["exclude_ties"]["ties"] == rows["exclude_ties"]["both_bad"] == 0


def test_what_a_table_does_not_hold_is_null_and_not_zero():
    (row,) = vote_statistics(rateable(pl.DataFrame({"model_a": ["x"], "model_b": ["y"], "winner": ["tie"]})))
    unknown = ("days", "rounds", "mean_rounds", "mean_input_tokens", "mean_output_tokens", "longer_won_fraction")
    assert {name: getattr(row, name) for name in unknown} == dict.fromkeys(unknown)
    assert (row.votes, row.ties, row.left) == (1, 1, 0)


def test_votes_are_counted_by_difference_of_length_and_the_rest_is_in_rows_without_a_bound():
    tokens_a = [100.0, 90, 50, 10, 5000, None, 30]
    winners = ["model_a", "model_a", "model_b", "model_b", "model_a", "model_a", "tie"]
    battles = rateable(pl.DataFrame({"model_a": ["x"] * 7, "model_b": ["y"] * 7, "winner": winners}))
    rows = length_differences(battles.with_columns(tokens_a=pl.Series(tokens_a), tokens_b=pl.lit(50.0)))
    assert sum(row.left for row in rows) == 3 and sum(row.right for row in rows) == 2  # no tie, none without a count
    inside = [row for row in rows if row.low is not None and row.high is not None]
    width = inside[0].high - inside[0].low
    assert all(row.high - row.low == width for row in inside) and inside[0].low == -inside[-1].high
    assert sum(row.right_density for row in inside) * width == pytest.approx(1)
    (at_zero,) = [row for row in inside if row.low == 0]
    assert (at_zero.left, at_zero.right) == (2, 1) and at_zero.flags == ["few_battles"]
    assert (rows[-1].low, rows[-1].left_density) == (inside[-1].high, None)


def test_the_longer_answer_wins_0_410_of_llmfaos_decisive_votes():
    lengths = pl.read_csv(PUBLISHED / "llmfao-answer-lengths.csv")
    at, characters = lengths.select(pl.format("{} {}", "prompt", "model")).to_series(), lengths["characters"]
    raw = pl.read_csv(PUBLISHED / "llmfao-votes.csv")
    battles = rateable(read_battles(PUBLISHED / "llmfao-votes.csv")).with_columns(
        raw.select(
            pl.format("{} {}", "prompt", side).replace_strict(at, characters).cast(pl.Float64).alias(to)
        ).to_series()
        for side, to in (("model_x", "tokens_a"), ("model_y", "tokens_b"))
    )
    (row,) = vote_statistics(battles)
    equal = battles.filter(pl.col("winner") != "tie", pl.col("tokens_a") == pl.col("tokens_b")).height
    decisive = row.left + row.right
    assert decisive == 5460 == sum(each.left + each.right for each in length_differences(battles))
    assert round((row.longer_won_fraction * (decisive - equal) + equal / 2) / decisive, 3) == 0.410
