"""Slices hold the battles they say; pair records, win rates, sequential Elo and outlier voters are counted."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import numpy as np
import polars as pl
import pytest

from schemas.rating import RatingMethod
from tasks.leaderboard.leaderboard import slice_boards, slice_masks
from tasks.leaderboard.rating_tables import RatingTables
from tasks.leaderboard.records import (
    elo_ratings,
    outlier_judges,
    pair_records,
    vote_shares,
    win_rates,
    without_outliers,
)
from tasks.leaderboard.votes import rateable, votes
from tests.tasks.leaderboard.battle_tables import beats, drawn, games
from tests.tasks.leaderboard.test_bradley_terry import FOOD

FOOD_ELO = {"Tacos": 1013.3587772, "Sushi": 1002.0980590, "Burger": 998.0260933, "Pasta": 994.1913059}
"""evalica's golden Elo ratings of the thirty games on food (K 4, start 1000)."""
MIXED = games(*beats("A", "B", 3), *beats("B", "A", 1), ("A", "B", "tie"), ("B", "A", "both_bad"), ("A", "C", "tie"))


def test_pair_records_count_both_sides_together_and_add_up_to_the_battles():
    records = {(r.model, r.opponent): r for r in pair_records(rateable(MIXED))}
    ours = records["A", "B"]
    assert (ours.battles, ours.wins, ours.losses, ours.ties, ours.both_bad) == (6, 3, 1, 1, 1)
    assert (ours.win_fraction, records["B", "A"].win_fraction) == (0.75, 0.25)
    assert records["A", "C"].win_fraction is None and len(records) == 4
    records = pair_records(rateable(drawn(500, 6)))
    assert sum(r.battles for r in records) == 2 * 500
    assert all(r.battles == r.wins + r.losses + r.ties + r.both_bad for r in records)


def test_every_opponent_weighs_the_same_in_the_average_win_rate():
    lopsided = games(*beats("A", "B", 90), *beats("B", "A", 10), *beats("C", "A", 1))
    rates = {row.model: row for row in win_rates(pair_records(rateable(lopsided)), "A")}
    assert rates["A"].average_win_rate == pytest.approx((0.9 + 0.0) / 2)
    assert (rates["B"].wins_vs_reference, rates["B"].battles_vs_reference) == (10, 100)
    assert rates["B"].win_rate_vs_reference == pytest.approx(0.1)
    assert rates["A"].win_rate_vs_reference is None


def test_online_elo_is_the_published_one():
    told = votes(rateable(games(*(tuple(game.split()) for game in FOOD.replace("\n", "|").split("|")))))
    found = {row.model: row.rating for row in elo_ratings(told)}
    assert {name: found[name] for name in FOOD_ELO} == pytest.approx(FOOD_ELO)


def test_shuffled_elo_depends_on_its_seed_alone():
    battles = drawn(400, 4)
    first, again, other = (elo_ratings(votes(battles), seed) for seed in (1, 1, 2))
    assert first == again and [r.rating for r in first] != [r.rating for r in other]
    assert {r.order for r in first} == {"shuffled"} and {r.order for r in elo_ratings(votes(battles))} == {"given"}


@pytest.fixture
def voted() -> pl.DataFrame:
    """200 honest voters with 20 votes each on a clear order, one who votes the other way, one who always ties."""
    honest = drawn(4000, 4, seed=1, tie_probability=0.05, judge=[f"honest-{n % 200}" for n in range(4000)])
    sample = drawn(30, 4, seed=2, tie_probability=0.0)
    stronger = pl.col("model_a") > pl.col("model_b")
    wrong = sample.with_columns(
        winner=pl.when(stronger).then(pl.lit("model_b")).otherwise(pl.lit("model_a")), judge=pl.lit("contrary")
    )
    undecided = sample.head(5).with_columns(winner=pl.lit("tie"), judge=pl.lit("undecided"))
    return rateable(pl.concat([honest, wrong, undecided]))


def test_a_voter_against_everybody_is_found_and_few_others(voted):
    found = outlier_judges(votes(voted), voted["judge"])
    assert found[0].judge == "contrary" and found[0].evidence > 20 and found[0].votes == 30
    assert len(found) <= 1 + 0.05 * 200 and "undecided" not in {row.judge for row in found}
    assert "contrary" not in set(without_outliers(voted, found)["judge"])


@pytest.mark.parametrize("pair", ["AB", "BA"])
def test_ties_where_all_others_agree_are_evidence_but_one_is_not_enough(pair):
    table = games(*beats(*pair, 15), ("A", "B", "tie"), *beats(*pair, 4), *[("A", "B", "tie")] * 5)
    judges = pl.Series([f"j{n}" for n in range(15)] + ["once"] * 5 + ["always"] * 5)
    found = outlier_judges(votes(rateable(table)), judges)
    assert [(row.judge, row.votes) for row in found] == [("always", 5)]
    p = 1 / (1 + 19)  # none of nineteen decisive votes is as bad for the winner, and one's own
    assert found[0].evidence == pytest.approx((1 / (2 * p)) ** 5)


def test_votes_without_a_voter_are_kept_and_not_tested():
    battles = rateable(drawn(50, 3).with_columns(judge=pl.lit(None, pl.String)))
    assert outlier_judges(votes(battles), battles["judge"]) == []
    assert without_outliers(battles, []).height == 50


QUICK = RatingMethod()


@pytest.fixture
def battles():
    start = datetime(2024, 8, 30, tzinfo=UTC)
    more = {
        "language": ["English", "Russian", None] * 200,
        "category:ocr": [True, False, None, False] * 150,
        "refusal": [True, None, False] * 200,
        "is_preset": [n % 10 == 0 for n in range(600)],
        "tstamp": [start + timedelta(hours=n) for n in range(600)],
    }
    return rateable(drawn(600, 4, **more))


def test_every_slice_holds_its_battles_and_is_rated_as_they_alone_would_be(battles):
    held = {name: battles.filter(pl.Series(mask)) for name, mask in slice_masks(battles).items()}
    assert held["overall"].height == 600
    assert set(held["exclude_ties"]["winner"]) == {"model_a", "model_b"}
    assert held["category:ocr"]["category:ocr"].to_list() == [True] * 150
    assert held["exclude_refusal"].height == 400 and True not in held["exclude_refusal"]["refusal"]
    assert held["exclude_preset"].height == 540
    assert held["language:Russian"].height == 200 and "language:None" not in held
    assert {name for name in held if name.startswith("month")} == {"month:2024-08", "month:2024-09"}
    assert held["month:2024-08"].height == 48
    masks = slice_masks(battles)
    rows = [row for row in slice_boards(votes(battles), masks, QUICK) if row.slice == "language:Russian"]
    alone = slice_boards(votes(battles.filter(language="Russian")), {"x": np.ones(200, bool)}, QUICK)
    shift = rows[0].rating - alone[0].rating
    assert [(r.model, r.battles, r.rank) for r in rows] == [(r.model, r.battles, r.rank) for r in alone]
    assert [r.ci95_low for r in rows] == pytest.approx([r.ci95_low + shift for r in alone])


def test_a_slice_without_battles_is_left_out():
    table = rateable(drawn(50, 3, language=["English"] * 50, **{"category:ocr": [False] * 50}))
    assert set(slice_masks(table)) == {"overall", "exclude_ties", "language:English"}


def test_a_category_that_is_unknown_of_most_battles_has_a_board_only_when_it_is_asked_for():
    draw = Random("unknown")
    for _ in range(8):
        known = draw.randint(1, 199)
        said = [True] * known + [None] * (200 - known)
        every = rateable(drawn(200, 3, **{"category:ocr": draw.sample(said, 200), "category:humor": [True] * 200}))
        whole = RatingTables(every, QUICK)
        boards = {row.slice for row in replace(whole, slices=("all",)).rows("ratings")}
        assert ("category:ocr" in boards, "category:humor" in boards) == (known >= 100, True)
        assert ("category:ocr" in {row.slice for row in whole.rows("vote_shares")}) == (known >= 100)
        alone = replace(whole, slices=("category:ocr",))
        assert sum(row.battles for row in alone.rows("ratings")) == 2 * known
        assert next(alone.lacking("ratings")).startswith(f"category:ocr: unknown of {(200 - known) / 200:.0%} of the")
        assert any("so it has no board" in line for line in replace(whole, slices=("all",)).lacking("ratings")) == (
            known < 100
        )


def test_a_slice_without_weak_models_keeps_the_level_of_the_strong_ones():
    everyone = drawn(8000, 6)
    strong = everyone["model_a"].is_in(["m4", "m5"]) & everyone["model_b"].is_in(["m4", "m5"])
    rows = slice_boards(votes(everyone), {"overall": np.ones(8000, bool), "top": strong.to_numpy()}, QUICK)
    overall = {row.model: row.rating for row in rows if row.slice == "overall"}
    top = {row.model: row.rating for row in rows if row.slice == "top"}
    assert np.mean(list(top.values())) == pytest.approx((overall["m4"] + overall["m5"]) / 2)
    assert min(top.values()) > 1050


def test_the_anchor_holds_in_every_slice_that_has_it_and_its_absence_is_flagged():
    everyone = drawn(3000, 5)
    without = ((everyone["model_a"] != "m2") & (everyone["model_b"] != "m2")).to_numpy()
    method = RatingMethod(anchor_model="m2", anchor_rating=1114)
    masks = {"overall": np.ones(3000, bool), "half": np.arange(3000) < 1500, "without": without}
    rows = slice_boards(votes(everyone), masks, method)
    assert [r.rating for r in rows if r.model == "m2"] == pytest.approx([1114, 1114])
    assert all(("anchor_missing" in row.flags) == (row.slice == "without") for row in rows)
    level = {name: [r.rating for r in rows if r.slice == name and r.model != "m2"] for name in ("overall", "without")}
    assert np.mean(level["without"]) == pytest.approx(np.mean(level["overall"]))


def test_vote_shares_tell_ties_from_both_bad_and_mark_small_slices():
    table = games(*[("A", "B", w) for w in ("model_a", "left", "tie", "tie (bothbad)", "both_bad")])
    told = rateable(table.with_columns(language=pl.Series(["en", "en", "en", "fr", "fr"])))
    shares = {row.slice: row for row in vote_shares(told, slice_masks(told))}
    whole = shares["overall"]
    assert (whole.decisive_fraction, whole.tie_fraction, whole.both_bad_fraction) == pytest.approx((0.4, 0.2, 0.4))
    assert shares["language:fr"].both_bad_fraction == 1 and whole.flags == ["few_battles"]
