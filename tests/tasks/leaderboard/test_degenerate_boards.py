"""Boards that have no finite or no common optimum: null where a bound does not exist, and flags that say so."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.rating import Interval, RatingMethod
from tasks.leaderboard.bradley_terry import SCALE, structure
from tasks.leaderboard.leaderboard import leaderboard
from tasks.leaderboard.votes import rateable, votes
from tests.tasks.leaderboard.battle_tables import LABELS, beats, drawn, games

QUICK = RatingMethod()


def boarded(battles, method=QUICK):
    return {row.model: row for row in leaderboard(votes(rateable(battles)), method=method)}


@pytest.mark.parametrize("interval", Interval)
def test_a_model_that_never_lost_has_no_upper_bound_and_no_rank_and_changes_no_other_row(interval):
    battles, method = drawn(2000, 4), RatingMethod(bootstraps=20, interval=interval)
    unbeaten = [*battles.rows(), *beats("hero", "m1", 5), *beats("hero", "m3", 5)]
    rows = boarded(games(*unbeaten), method)
    hero = rows.pop("hero")
    assert {"only_wins", "unbounded", "few_battles", "few_votes"} == set(hero.flags)
    assert (hero.ci95_high, hero.rank) == (None, None) and hero.ci95_low < hero.rating
    alone = boarded(battles, method)
    assert [row.rating for row in rows.values()] == pytest.approx([row.rating for row in alone.values()])
    assert [row.rank for row in rows.values()] == [row.rank for row in alone.values()]


def test_an_unbeaten_model_has_a_lower_bound_by_its_record_and_a_beaten_one_an_upper():
    rows = boarded(games(*drawn(20_000, 2).rows(), *beats("hero", "m1", 30)))
    chance = 1 / (1 + 10 ** ((rows["m1"].rating - rows["hero"].ci95_low) / 400))
    assert 30 * np.log(chance) == pytest.approx(-(1.96**2) / 2, abs=1e-3)
    rows = boarded(games(*drawn(2000, 4).rows(), *beats("m0", "novice", 20)))
    assert {"only_losses", "unbounded"} <= set(rows["novice"].flags)
    assert (rows["novice"].ci95_low, rows["novice"].rank) == (None, None)
    assert rows["novice"].rating == min(row.rating for row in rows.values())
    assert rows["novice"].ci95_high > rows["novice"].rating


def test_the_unbeaten_one_of_two_models_has_no_interval_as_there_is_nobody_to_compare_with():
    rows = boarded(games(*beats("A", "B", 7)))
    assert rows["A"].rating + rows["B"].rating == pytest.approx(2000)
    assert 0 < rows["A"].rating - rows["B"].rating < 2000
    assert {(row.ci95_low, row.ci95_high, row.rank) for row in rows.values()} == {(None, None, None)}


def test_groups_that_never_met_have_their_own_mean_and_are_not_ranked_against_each_other():
    apart = games(*drawn(600, 3).rows(), *beats("x", "y", 3), *beats("y", "x", 1))
    rows = boarded(apart)
    assert np.mean([rows["x"].rating, rows["y"].rating]) == pytest.approx(1000)
    assert np.mean([rows[f"m{n}"].rating for n in range(3)]) == pytest.approx(1000)
    assert {"x", "y"} == {row.model for row in rows.values() if "separate_group" in row.flags}
    assert rows["x"].rank == 1


def test_an_unbeaten_model_has_the_rating_that_a_win_and_a_loss_of_half_a_game_add():
    rows = boarded(games(*drawn(2000, 4).rows(), *beats("hero", "m0", 6), *beats("hero", "m3", 3)))
    strength = {model: row.rating / SCALE for model, row in rows.items()}
    average = np.mean([strength[f"m{n}"] for n in range(4)])
    chance = {other: 1 / (1 + np.exp(strength[other] - strength["hero"])) for other in strength}
    to_prior = 0.5 - 1 / (1 + np.exp(average - strength["hero"]))
    assert 6 * (1 - chance["m0"]) + 3 * (1 - chance["m3"]) + to_prior == pytest.approx(0, abs=1e-6)


def test_an_anchor_moves_its_own_group_only():
    apart = games(*drawn(600, 3).rows(), *beats("x", "y", 3), *beats("y", "x", 1))
    rows = boarded(apart, RatingMethod(anchor_model="x", anchor_rating=1500))
    assert rows["x"].rating == pytest.approx(1500)
    assert np.mean([rows[f"m{n}"].rating for n in range(3)]) == pytest.approx(1000)


def test_a_model_against_itself_and_no_votes_say_nothing():
    battles = drawn(300, 3)
    assert boarded(games(*battles.rows(), ("m0", "m0", "model_a"), ("solo", "solo", "tie"))) == boarded(battles)
    assert boarded(games().cast({"model_a": str, "model_b": str, "winner": str})) == {}
    assert boarded(games(("A", "A", "tie"))) == {}


names = st.sampled_from("abcdefg")
battle = st.tuples(names, names, st.sampled_from(LABELS))


@settings(max_examples=100)
@given(st.lists(battle, min_size=1, max_size=25), st.sampled_from(Interval), st.integers(2, 6))
def test_whatever_the_votes_ratings_are_finite_and_only_unbounded_models_lack_an_end_or_a_rank(
    rows, interval, bootstraps
):
    board = leaderboard(votes(rateable(games(*rows))), method=RatingMethod(bootstraps=bootstraps, interval=interval))
    assert {row.model for row in board} == {name for a, b, _ in rows if a != b for name in (a, b)}
    for row in board:
        known = [end for end in (row.ci95_low, row.ci95_high) if end is not None]
        assert np.isfinite([row.rating, *known]).all()
        assert (row.rank is None) == (len(known) < 2) == ("unbounded" in row.flags)


@settings(max_examples=200)
@given(st.lists(battle, min_size=1, max_size=30))
def test_the_bounded_models_are_those_that_chains_of_wins_lead_to_and_from(rows):
    told = votes(rateable(games(*rows)))
    if not told.models:
        return
    group, core, below, above = structure(told.pairs, *told.sums(), len(told.models))
    ahead = {name: {name} for name in told.models}  # who is reached by wins, the slow and obvious way
    for _ in told.models:
        for a, b, winner in rows:
            for one, other in ((a, b), (b, a)) if a != b else ():
                if winner == "tie" or (winner == "model_a") == (one == a):
                    ahead[one] |= ahead[other]
    for number in range(group.max() + 1):
        members = [name for name, g in zip(told.models, group, strict=True) if g == number]
        sets = [{b for b in members if b in ahead[a] and a in ahead[b]} for a in members]
        inside = {name for name, c, g in zip(told.models, core, group, strict=True) if c and g == number}
        largest = max(map(len, sets))
        assert (inside in sets and len(inside) == largest) if largest > 1 else not inside
        for name in members:
            place = told.models.index(name)
            assert below[place] == any(other in ahead[name] for other in inside)
            assert above[place] == any(name in ahead[other] for other in inside)
