"""Suspects: who pulls one model is named, honest people of any taste or habit are not, and boards say what was done."""

import json
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from schemas.errors import BadInput
from schemas.rating import BothBad, RatingMethod
from tasks.leaderboard.battle_files import asks_identity, sorted_words
from tasks.leaderboard.rating_tables import ALL_SLICES, WITHOUT_SUSPECTS, RatingTables
from tasks.leaderboard.suspects import named
from tasks.leaderboard.suspects.evidence import TASTE, TILTS, history, holm
from tasks.leaderboard.suspects.named import fast_votes, suspects
from tasks.leaderboard.votes import beyond_day, rateable, repeats_counted_once, votes
from tests.tasks.leaderboard.battle_tables import beats, drawn, games

PUBLISHED = Path(__file__).parents[2] / "published"
START = datetime(2024, 9, 1, tzinfo=UTC)


def at(minutes):
    return [START + timedelta(minutes=m) for m in minutes]


@pytest.fixture(scope="module")
def honest():
    """4,000 votes of 200 voters on eight models, five hours apart for each; one always votes left, one always ties."""
    judges = [f"honest {n % 200}" for n in range(4000)]
    battles = drawn(4000, 8, seed=1, judge=judges, tstamp=at(float(n) * 1.5 for n in range(4000)))
    habit = pl.when(judge="honest 0").then(pl.lit("model_a")).when(judge="honest 1").then(pl.lit("tie"))
    return battles.with_columns(winner=habit.otherwise("winner"))


def rigged(voters, each, minutes, target="m1", rest=8):
    """Votes for the target against each other model in turn, `each` of every voter, at these minutes in turn."""
    others = [f"m{n}" for n in range(rest) if f"m{n}" != target]
    rows = [beats(target, others[n % len(others)], 2)[n // voters % 2] for n in range(voters * each)]
    names = [f"rigger {n % voters}" for n in range(voters * each)]
    return games(*rows).with_columns(judge=pl.Series(names), tstamp=pl.Series(at(minutes)))


def names(found):
    return {row.judge for row in found}


def test_a_voter_or_a_crowd_for_one_model_is_named_and_honest_ones_of_any_habit_are_not(honest):
    found = suspects(rateable(pl.concat([honest, rigged(1, 20, [200.0 * n for n in range(20)])])))
    assert [(row.judge, row.model, row.for_model, row.group) for row in found] == [("rigger 0", "m1", 20, None)]
    assert found[0].p_value <= 0.05 and found[0].pull > 1 and found[0].p_focus < 1e-6
    assert suspects(rateable(honest)) == []
    crowd = rigged(60, 20, [5.0 * n for n in range(1200)])
    found = suspects(rateable(pl.concat([honest, crowd])))
    assert names(found) == {f"rigger {n}" for n in range(60)} and {row.model for row in found} == {"m1"}


def test_votes_that_the_history_expects_or_a_taste_explains_name_nobody(honest):
    for_best = rigged(1, 20, [200.0 * n for n in range(20)], target="m7")
    loses_some = honest.filter(judge="honest 2").with_columns(judge=pl.lit("fan"))
    fan = loses_some.with_columns(winner=pl.when(model_a="m3").then(pl.lit("model_a")).otherwise("winner"))
    mixed = pl.concat([honest, for_best.with_columns(winner=pl.lit("tie")), fan])
    assert suspects(rateable(mixed)) == []


def test_voters_of_four_votes_are_named_together_when_they_come_in_one_hour_and_not_when_spread(honest):
    together = suspects(rateable(pl.concat([honest, rigged(10, 4, [610 + n for n in range(40)])])))
    assert names(together) == {f"rigger {n}" for n in range(10)}
    assert {(row.group, row.group_voters, row.group_shares) for row in together} == {(1, 10, "hour")}
    spread = suspects(rateable(pl.concat([honest, rigged(10, 4, [140.0 * n for n in range(40)])])))
    assert spread == []


def pressed(voters, each, down, slept=0, models=8):
    """Votes against the models in `down`, `each` of every voter over a month; the first `slept` by the strengths."""
    generator, cast = np.random.default_rng(3), []
    while len(cast) < voters * each:
        a, b = generator.choice(models, 2, replace=False).tolist()
        honest = len(cast) < voters * slept
        if honest or (a in down) != (b in down):
            first = generator.random() < 1 / (1 + np.exp(0.3 * (b - a))) if honest else b in down
            cast.append((f"m{a}", f"m{b}", "model_a" if first else "model_b"))
    names = [f"rigger {n % voters}" for n in range(len(cast))]
    return games(*cast).with_columns(judge=pl.Series(names), tstamp=pl.Series(at(np.linspace(0, 6000, len(cast)))))


@pytest.mark.parametrize("slept", [0, 20])
def test_who_presses_several_models_down_is_named_by_the_votes_on_all_of_them_together(honest, slept):
    found = suspects(rateable(pl.concat([honest, pressed(3, 60 + slept, {2, 3, 4, 5}, slept)]).sort("tstamp")))
    assert names(found) == {f"rigger {n}" for n in range(3)}
    assert all(row.p_joint < 1e-4 and row.p_joint < min(row.p_history, row.p_pull) for row in found)
    assert all(abs(row.pull) > 2 for row in found)


def test_of_honest_voters_with_tastes_for_every_model_at_most_one_in_a_hundred_looks_odd_on_all_together(honest):
    generator = np.random.default_rng(5)
    voters, each = 300, 40
    first = generator.integers(0, 8, (voters, each))
    second = (first + generator.integers(1, 8, first.shape)) % 8
    liked = 0.3 * np.arange(8) + generator.normal(0, TASTE, (voters, 8))
    lead = np.take_along_axis(liked, first, 1) - np.take_along_axis(liked, second, 1)
    won = generator.random(first.shape) < 1 / (1 + np.exp(-lead))
    table = pl.DataFrame(
        {
            "model_a": [f"m{n}" for n in first.ravel()],
            "model_b": [f"m{n}" for n in second.ravel()],
            "winner": np.where(won.ravel(), "model_a", "model_b"),
            "judge": [f"fan {n}" for n in np.repeat(np.arange(voters), each)],
        }
    )
    result = named.tested(rateable(pl.concat([honest.drop("tstamp"), table])))
    odd = result.of_all[result.row] <= 0.01
    assert odd.mean() <= 0.01 and (result.of_all[result.row] <= 0.5).sum() > 0


def test_no_honest_taste_gains_from_looking_after_every_vote():
    cast = votes(rateable(drawn(600, 4, seed=3)))
    known = history(cast, np.full(600, -1), np.zeros(1, bool))
    for taste in (-1.0, 0.0, TASTE):
        scores = np.array([1.0, 0.5, 0.0])[:, None]
        weight = known.chances * np.exp(taste * scores)
        for tilt in TILTS:
            total = (known.chances * np.exp(tilt * scores)).sum(axis=0)
            least = (known.chances * np.exp(TASTE * scores)).sum(axis=0)
            gain = np.exp((tilt - TASTE) * scores) / total * least
            assert ((weight * gain).sum(axis=0) / weight.sum(axis=0)).max() < 1 + 1e-9
    own = np.where(cast.score == 0.5, 0.5, cast.score > 0.5)
    row = int(np.flatnonzero(own == 1)[0])
    odds = np.exp([TASTE, TASTE / 2, 0]) @ known.chances[:, row], np.exp([3.0, 1.5, 0]) @ known.chances[:, row]
    assert known.gains[1, 0, 0, row] == pytest.approx(3 - TASTE + np.log(odds[0] / odds[1]))


def test_repeated_votes_count_as_one_and_holms_correction_is_that_of_the_textbook():
    assert holm(np.array([0.01, 0.04, 0.03, 0.005])) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    table = games(*beats("A", "B", 6), *beats("A", "C", 2)).with_columns(judge=pl.lit("j"))
    table = pl.concat([table, games(*beats("A", "B", 9)).with_columns(judge=pl.lit(None, pl.String))])
    weights = repeats_counted_once(table, 2)["weight"]
    assert weights[:6].to_list() == [1, 1, 0.25, 0.25, 0.25, 0.25] and weights[6:].to_list() == [1] * 11
    assert repeats_counted_once(table, None) is table


def test_of_124_people_of_a_published_arena_two_are_named_one_of_them_for_106_of_110_votes_for_one_model():
    table = pl.read_csv(PUBLISHED / "llmfao-votes.csv", infer_schema=False)
    found = suspects(rateable(table.select("winner", model_a="left", model_b="right", judge="worker")))
    first = found[0]
    assert (first.judge, first.model, first.for_model, first.against_model) == ("15", "Weaver 12k", 106, 3)
    assert names(found) == {"15", "70"}


def test_a_vote_is_fast_when_nobody_could_have_read_both_answers():
    table = games(*beats("A", "B", 4)).with_columns(
        judge=pl.lit("j"), tstamp=pl.Series(at([0, 1, 1.5, 3])), tokens_a=pl.Series([10, 100, 2000, 2000]), tokens_b=10
    )
    assert fast_votes(table).to_list() == [None, False, True, True]
    assert fast_votes(table.drop("tokens_a", "tokens_b")).to_list() == [None, False, False, False]
    assert fast_votes(table.drop("tstamp")).null_count() == 4


@pytest.mark.parametrize(
    ("prompt", "asks"),
    [
        ("Which model are you? Describe this.", True), ("WHO ARE YOU", True), ("Are you GPT or Claude?", True),
        ("Wer bist du?", True), ("你是谁", True), ("What are you seeing here?", False),
        ("Which model of car is in the picture?", False), ("Who built the tower?", False),
    ],
)  # fmt: skip
def test_prompts_that_ask_which_model_answers_are_known(prompt, asks):
    assert pl.select(asks_identity(pl.lit(prompt))).item() is asks


def test_texts_of_the_same_words_are_equal_and_short_ones_are_not_compared():
    texts = pl.DataFrame({"text": ["Left is better, 9 of 10!", "better is LEFT of", "of course", None]})
    told = texts.select(sorted_words(pl.col("text"))).to_series()
    assert told[0] == told[1] is not None and told[2:].to_list() == [None, None]


@pytest.fixture
def curate(curate):
    return partial(curate, "rate")


def policy_with(folder, votes):
    (folder / "mine.yaml").write_text(f"name: mine\nrules: []\nvotes: {{{votes}}}\n")
    return folder / "mine.yaml"


def rows(out):
    return [json.loads(line) for line in out.splitlines()]


@pytest.fixture
def attacked(tmp_path, honest):
    pl.concat([honest, rigged(1, 40, [20.0 * n for n in range(40)])]).write_parquet(tmp_path / "v.parquet")
    return tmp_path / "v.parquet"


def test_the_board_without_suspects_is_a_slice_and_the_default_board_has_all_votes(curate, attacked):
    code, out, err = curate(attacked, "--table", "suspects", "--json")
    without = policy_with(attacked.parent, "exclude_suspects: true")
    assert (code, [row["judge"] for row in rows(out)]) == (0, ["rigger 0"]) and "no prompts" in err
    boards = {
        name: {row["model"]: row for row in rows(curate(attacked, "--json", *options)[1])}
        for name, options in {
            "default": (), "slice": ("--slice", "without_suspects"), "rule": ("--policy", without),
            "flags": ("--slice", "overall", "--policy", without),
        }.items()
    }  # fmt: skip
    battles = {name: sum(row["battles"] for row in board.values()) // 2 for name, board in boards.items()}
    assert battles == {"default": 4040, "slice": 4000, "rule": 4000, "flags": 4000}
    assert boards["default"]["m1"]["rating"] > boards["slice"]["m1"]["rating"] + 3
    assert boards["slice"]["m1"]["flags"] == [] and boards["flags"]["m1"]["flags"] == ["suspects_excluded"]


def test_checks_count_votes_and_what_they_weigh_and_name_nobody(curate, attacked):
    without = policy_with(attacked.parent, "exclude_suspects: true, pair_votes_max: 1, day_votes_max: 3")
    code, out, _ = curate(attacked, "--table", "vote_checks", "--json", "--policy", without)
    found = {row["check"]: row for row in rows(out)}
    assert code == 0 and "rigger" not in out
    assert (found["suspects"]["voters"], found["suspects"]["votes"], found["suspects"]["counted"]) == (1, 40, 0)
    assert found["repeated"]["votes"] > 0 and "prompts" in found["asks_identity"]["note"]
    assert found["beyond_day"]["votes"] > 40 - 3 and found["beyond_day"]["counted"] == 0
    lighter = [found[name]["votes"] for name in ("suspects", "beyond_day", "repeated", "not_in_full")]
    assert max(lighter[:3]) < lighter[3] <= sum(lighter[:3])
    board = rows(curate(attacked, "--json", "--slice", "overall", "--policy", without)[1])
    assert all(row["flags"] == ["repeats_count_once", "days_limited", "suspects_excluded"] for row in board)
    assert sum(row["battles"] for row in board) == 2 * (4040 - 40 - found["beyond_day"]["votes"] + (40 - 3))


def test_the_first_votes_of_a_voter_on_a_utc_day_count_and_later_ones_do_not():
    table = games(*beats("A", "B", 5)).with_columns(
        judge=pl.Series(["j", "j", "j", "j", None]), tstamp=pl.Series(at([30, 0, 60, 24 * 60, 40]))
    )
    assert beyond_day(table, 1).to_list() == [True, False, True, False, False]
    assert not beyond_day(table, None).any() and not beyond_day(table.drop("judge"), 1).any()


def test_answers_that_name_their_model_or_hold_hidden_marks_are_counted_from_the_texts_of_a_table(curate, tmp_path):
    plain, marks = "It is a cat.", "It is\u200b a\u202fcat."
    answers = [
        (plain, plain),
        ("I am GPT-4o mini!", plain),
        (plain, marks),
        ("می\u200cخواهم 👩\u200d🔬 1\ufe0f\u20e3 ภาษา\u200bไทย", plain),
    ]
    told = [
        [[{"role": "user", "content": "gpt-4o-mini?"}, {"role": "assistant", "content": text}] for text in pair]
        for pair in answers
    ]
    table = pl.DataFrame({"model_a": "gpt-4o-mini", "model_b": "claude", "winner": ["model_a", "model_b"] * 2})
    table = table.with_columns(
        conversation_a=pl.Series([a for a, _ in told]), conversation_b=pl.Series([b for _, b in told])
    )
    table.write_parquet(tmp_path / "v.parquet")
    found = {
        row["check"]: row["votes"]
        for row in rows(curate(tmp_path / "v.parquet", "--table", "vote_checks", "--json")[1])
    }
    assert (found["names_model"], found["unseen_marks"], found["suspects"], found["not_in_full"]) == (1, 1, None, 0)


@pytest.mark.parametrize(
    ("without", "options", "note"),
    [
        ("judge", ("--policy",), "no judge: exclude_suspects of the policy leaves no vote out"),
        ("tstamp", ("--policy",), "no tstamp: day_votes_max of the policy leaves no vote out"),
        ("judge", ("--slice", "without_suspects"), "without_suspects has all votes"),
        ("tstamp", ("--table", "months"), "who came and left when is not told"),
        ("judge", ("--table", "best_of"), "names no provider of a model"),
        ("judge", ("--table", "fragility"), "which votes these are is not told"),
    ],
)
def test_a_rule_or_a_table_that_needs_more_than_there_is_says_so(curate, tmp_path, honest, without, options, note):
    honest.drop(without).write_parquet(tmp_path / "v.parquet")
    mine = policy_with(tmp_path, "exclude_suspects: true, day_votes_max: 9") if "--policy" in options else None
    code, out, err = curate(tmp_path / "v.parquet", *options, *([mine] if mine else ()))
    assert code == 0 and out and note in err


@pytest.mark.parametrize(
    ("without", "models", "note"),
    [
        (("judge",), 8, "names no voters"),
        (("tstamp",), 8, "no times"),
        ((), 2, "two models"),
        (("others",), 8, "names one voter"),
    ],
)
def test_a_table_that_cannot_tell_says_what_it_lacks(curate, tmp_path, honest, without, models, note):
    table = honest.filter(pl.col("model_a").is_in(["m0", "m1"]), pl.col("model_b").is_in(["m0", "m1"]))
    table = table if models == 2 else honest
    table = table.filter(judge="honest 5") if "others" in without else table
    table.drop(*without, strict=False).write_parquet(tmp_path / "v.parquet")
    code, out, err = curate(tmp_path / "v.parquet", "--table", "suspects")
    assert code == 0 and "suspects: no rows" in out and note in err


def test_the_votes_of_the_board_without_suspects_are_those_of_nobody_among_them(honest):
    battles = pl.concat([honest, rigged(1, 40, [20.0 * n for n in range(40)])])
    tables = RatingTables(battles, RatingMethod(), (ALL_SLICES,))
    assert tables.votes_of(WITHOUT_SUSPECTS).height == 4000


def test_a_board_without_suspects_on_which_no_vote_is_left_is_one_clear_line(honest):
    undecided = honest.with_columns(winner=pl.lit("both_bad"))
    battles = pl.concat([undecided, rigged(1, 40, [20.0 * n for n in range(40)])])
    with pytest.raises(BadInput, match="no battles in slice 'without_suspects'"):
        RatingTables(battles, RatingMethod(both_bad=BothBad.EXCLUDE), (WITHOUT_SUSPECTS,)).rows("ratings")
