"""How few votes change a board: proved by rating the rest, as few as a plain search finds, said where unknown."""

import csv
import json
from functools import partial
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from schemas.rating import Fragility, RatingMethod
from tasks.leaderboard.bradley_terry import log_strengths
from tasks.leaderboard.fragility import fragility, lead_after, styled_fragility
from tasks.leaderboard.leaderboard import leaderboard
from tasks.leaderboard.style_control import style_board
from tasks.leaderboard.vote_plan import separations
from tasks.leaderboard.votes import rateable, votes
from tests.places import PUBLISHED
from tests.tasks.leaderboard.battle_tables import beats, drawn, games

METHOD = RatingMethod()


@pytest.fixture
def curate(curate):
    """Run `curate rate`: (exit status, stdout, stderr)."""
    return partial(curate, "rate")


def judged():
    """The votes of WildVision's judge, by the counts of Table 4; a strong verdict is three votes."""
    rows = []
    for row in csv.DictReader((PUBLISHED / "wildvision-table4.csv").read_text().splitlines()):
        if row["much_better"]:
            won, better, tie, worse, lost = (
                int(float(row[name])) for name in ("much_better", "better", "tie", "worse", "much_worse")
            )
            for winner, times in (("model_a", 3 * won + better), ("tie", tie), ("model_b", 3 * lost + worse)):
                rows += [(row["model"], "Claude-3-Sonnet", winner)] * times
    return games(*rows)


def numbered(battles):
    return rateable(battles).with_columns(question_id=pl.format("q{}", pl.int_range(pl.len())))


def after(battles, row):
    """The battles that the row's change leaves."""
    named = pl.col("question_id").is_in(row.needed_ids)
    turned = pl.col("winner").replace({"model_a": "model_b", "model_b": "model_a"})
    if row.change == "removed":
        return battles.filter(~named)
    return battles.with_columns(winner=pl.when(named).then(turned).otherwise("winner"))


def greedy(battles, above, below):
    """Votes that go one by one, each time the one without which the lead is smallest, until the order changes."""
    cast = votes(battles).grouped()
    ends, times, names = [cast.models.index(name) for name in (above, below)], cast.times.copy(), len(cast.models)

    def lead(left):
        at = log_strengths(cast.pairs, *cast.sums(left), names)
        return at[ends[0]] - at[ends[1]]

    gone = 0
    while lead(times) > -1e-7:
        met = [kind for kind in range(len(times)) if times[kind] > 0]
        tried = [lead(times - (np.arange(len(times)) == kind)) for kind in met]
        times[met[int(np.argmin(tried))]] -= 1
        gone += 1
    return gone


def test_published_judge_votes_change_first_place_with_97_and_places_three_and_four_with_33():
    rows = fragility(numbered(judged()), "overall", METHOD)
    needed = {(row.contest, row.place, row.change): row for row in rows}
    first, third = needed["first_place", 1, "removed"], needed["neighbours", 3, "removed"]
    assert (first.model, first.rival, first.needed) == ("GPT-4o", "GPT-4-Vision", 97)
    assert (third.model, third.rival, third.needed) == ("Reka-Flash", "Claude-3-Opus", 33)
    assert third.difference == pytest.approx(19.6, abs=0.05) and third.needed_fraction == 33 / third.of


@pytest.mark.parametrize(("battles", "models", "seed"), [(150, 5, 0), (400, 4, 1), (130, 6, 4)])
def test_no_pair_needs_more_votes_than_a_greedy_search_finds(battles, models, seed):
    told = numbered(drawn(battles, models, seed))
    rows = [
        row for row in fragility(told, "overall", METHOD) if row.contest == "neighbours" and row.change == "removed"
    ]
    assert len(rows) == models - 1
    assert all(row.needed <= greedy(told, row.model, row.rival) for row in rows)


def test_without_the_named_votes_exactly_the_rival_leads():
    battles = numbered(drawn(1500, 8, seed=3))
    rows = fragility(battles, "overall", METHOD)
    assert len(rows) == 2 + 2 * 7
    for row in rows:
        assert len(row.needed_ids) == row.needed
        place = {each.model: each.rating for each in leaderboard(votes(after(battles, row)))}
        assert place[row.rival] > place[row.model], row
    ranked = sorted(leaderboard(votes(battles)), key=lambda row: -row.rating)
    assert [(row.model, row.rival) for row in rows[2::2]] == [(a.model, b.model) for a, b in pairwise(ranked)]


def test_under_style_control_the_remaining_votes_are_standardised_and_rated_anew():
    generator = np.random.default_rng(5)
    counts = {f"tokens_{side}": generator.poisson(100, 600) for side in ("a", "b")}
    battles = numbered(drawn(600, 5, seed=2, **counts))
    rows = styled_fragility(battles, METHOD)
    assert len(rows) == 10 and {row.slice for row in rows} == {"style_control"}
    for row in rows:
        place = {each.model: each.rating for each in style_board(after(battles, row), METHOD)[0]}
        assert place[row.rival] > place[row.model], row


def test_by_prompt_all_votes_of_a_prompt_go_together():
    battles = rateable(drawn(600, 4)).with_columns(question_id=pl.format("q{}", pl.int_range(pl.len()) // 6))
    alone, together = (fragility(battles, "overall", RatingMethod(cluster=each)) for each in (None, "question_id"))
    for one, many in zip(alone, together, strict=True):
        assert (many.unit, many.of) == ("question_id", 100) and 1 <= many.needed <= one.needed
        place = {each.model: each.rating for each in leaderboard(votes(after(battles, many)))}
        assert len(many.needed_ids) == many.needed and place[many.rival] > place[many.model]


def told(curate, tmp_path, battles, *options):
    battles.write_csv(tmp_path / "v.csv")
    code, out, err = curate(tmp_path / "v.csv", "--table", "fragility", "--json", *options)
    assert code == 0, err
    return [json.loads(line) for line in out.splitlines()]


def test_two_models_without_ids_are_one_pair(curate, tmp_path):
    rows = told(curate, tmp_path, games(*beats("a", "b", 70), *beats("b", "a", 50)))
    assert [(row["contest"], row["change"], row["needed"]) for row in rows] == [
        ("first_place", "removed", 21), ("first_place", "reversed", 11),
        ("neighbours", "removed", 21), ("neighbours", "reversed", 11),
    ]  # fmt: skip
    assert all(row["needed_ids"] == [] for row in rows)


@pytest.mark.parametrize(("won", "lost"), [(70, 30), (99, 3), (118, 2)])
def test_a_wide_lead_takes_most_of_its_votes_and_leaves_both_ratings_finite(won, lost):
    rows = fragility(games(*beats("a", "b", won), *beats("b", "a", lost)), "overall", METHOD)
    assert [row.needed for row in rows[2:]] == [won - lost + 1, (won - lost) // 2 + 1]


def test_a_leader_that_won_all_is_unbounded_and_the_others_are_told(curate, tmp_path):
    rows = told(curate, tmp_path, games(*drawn(400, 3).rows(), *beats("hero", "m0", 9)))
    assert (rows[0]["model"], rows[0]["flags"], rows[0]["needed"]) == ("hero", ["unbounded"], None)
    assert [row["rival"] for row in rows[1:]] == ["m1", "m1", "m0", "m0"]


@pytest.mark.parametrize(
    ("battles", "flag"), [(drawn(60, 3), "few_battles"), (games(*beats("a", "b", 120)), "unbounded")]
)
def test_what_cannot_be_told_is_a_row_that_says_so(curate, tmp_path, battles, flag):
    (row,) = told(curate, tmp_path, battles)
    assert row["flags"] == [flag] and row["needed"] is None


def test_one_model_gives_no_row_and_a_note(curate, tmp_path):
    games(*[("a", "a", "tie")] * 3).write_csv(tmp_path / "v.csv")
    code, out, err = curate(tmp_path / "v.csv", "--table", "fragility")
    assert (code, out) == (0, "fragility: no rows\n") and "3 battles of a model with itself are left out" in err


def test_people_see_counts_and_slices_and_programs_the_ids(curate, tmp_path):
    battles = numbered(drawn(900, 3, language=["English", "Thai", "Thai"] * 300))
    rows = told(curate, tmp_path, battles, "--slice", "language:Thai")
    assert {row["slice"] for row in rows} == {"language:Thai"} and all(row["of"] == 600 for row in rows)
    thai = set(battles.filter(language="Thai")["question_id"])
    assert all(row["needed_ids"] and set(row["needed_ids"]) <= thai for row in rows)
    code, out, _ = curate(tmp_path / "v.csv", "--table", "fragility")
    assert code == 0 and "needed_ids" not in out and "first_place" in out


def test_an_id_that_several_votes_share_names_none():
    battles = rateable(games(*beats("a", "b", 70), *beats("b", "a", 50)))
    (row, *_) = fragility(battles.with_columns(question_id=pl.format("q{}", pl.int_range(pl.len()) // 2)), "x", METHOD)
    assert (row.needed, row.needed_ids) == (21, [])


def test_votes_without_an_id_stay_when_named_ones_are_removed():
    battles = rateable(games(*beats("a", "b", 61), *beats("b", "a", 60)))
    battles = battles.with_columns(
        question_id=pl.when(pl.int_range(pl.len()) < 3).then(pl.format("q{}", pl.int_range(pl.len())))
    )
    row = Fragility(
        slice="x", contest="neighbours", change="removed", model="a", rival="b", of=121, unit="vote", needed_ids=["q1"]
    )
    assert lead_after(battles, row, METHOD) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_models_of_equal_records_are_neighbours_in_the_order_of_their_names(seed):
    generator, rows = np.random.default_rng(seed), []
    for rival in ("o0", "o1", "o2", "o3"):
        for twin_wins in (True, False):
            times = int(generator.integers(3, 20))
            for twin in ("x1", "x2"):
                rows += beats(*((twin, rival) if twin_wins else (rival, twin)), times)
    contests = fragility(rateable(games(*rows)), "x", METHOD)
    pairs = [(row.model, row.rival) for row in contests if row.contest == "neighbours"]
    assert ("x1", "x2") in pairs
    assert ("x1", "x2") in [(row.model, row.rival) for row in separations(rateable(games(*rows)), "x")]
