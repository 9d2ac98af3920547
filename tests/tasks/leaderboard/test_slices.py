"""Slices hold the battles they say, and all boards are on one scale."""

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest

from schemas.rating import RatingMethod
from tasks.leaderboard.leaderboard import slice_boards, slice_masks
from tasks.leaderboard.records import vote_shares
from tasks.leaderboard.votes import rateable, votes
from tests.tasks.leaderboard.battle_tables import drawn, games

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


def test_every_slice_holds_its_battles(battles):
    held = {name: battles.filter(pl.Series(mask)) for name, mask in slice_masks(battles).items()}
    assert held["overall"].height == 600
    assert set(held["exclude_ties"]["winner"]) == {"model_a", "model_b"}
    assert held["category:ocr"]["category:ocr"].to_list() == [True] * 150
    assert held["exclude_refusal"].height == 400 and True not in held["exclude_refusal"]["refusal"]
    assert held["exclude_preset"].height == 540
    assert held["language:Russian"].height == 200 and "language:None" not in held
    assert {name for name in held if name.startswith("month")} == {"month:2024-08", "month:2024-09"}
    assert held["month:2024-08"].height == 48


def test_a_slice_without_battles_is_left_out():
    table = rateable(drawn(50, 3, language=["English"] * 50, **{"category:ocr": [False] * 50}))
    assert set(slice_masks(table)) == {"overall", "exclude_ties", "language:English"}


def test_a_slice_is_rated_as_its_battles_alone_would_be(battles):
    masks = slice_masks(battles)
    rows = [row for row in slice_boards(votes(battles), masks, QUICK) if row.slice == "language:Russian"]
    alone = slice_boards(votes(battles.filter(language="Russian")), {"x": np.ones(200, bool)}, QUICK)
    shift = rows[0].rating - alone[0].rating
    assert [(r.model, r.battles, r.rank) for r in rows] == [(r.model, r.battles, r.rank) for r in alone]
    assert [r.ci95_low for r in rows] == pytest.approx([r.ci95_low + shift for r in alone])


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
