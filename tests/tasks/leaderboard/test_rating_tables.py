"""Rating tables say which rules changed their votes, and have the slices that they are asked for."""

from datetime import UTC, datetime

import polars as pl
import pytest

from schemas.policy import VoteRules
from schemas.rating import RatingMethod
from tasks.leaderboard.rating_tables import ALL_SLICES, RatingTables, StoredTables
from tests.tasks.leaderboard.battle_tables import drawn, games

METHOD = RatingMethod()


def flags_of(battles: pl.DataFrame, **rules: int) -> set[str]:
    """Flags of rules on the overall board."""
    rows = RatingTables(battles, METHOD, rules=VoteRules(**rules)).rows("ratings")
    return {flag for row in rows for flag in row.flags if flag in ("repeats_count_once", "days_limited")}


def test_stored_boards_under_style_control_have_the_flags_of_rules():
    voters = [f"j{n % 10}" for n in range(400)]
    battles = drawn(400, 4, judge=voters, tokens_a=[5, 9] * 200, tokens_b=[7, 3, 4, 6] * 100)
    rows = StoredTables(RatingTables(battles, METHOD, rules=VoteRules(pair_votes_max=1)), battles).rows("ratings")
    assert {row.slice for row in rows if "repeats_count_once" not in row.flags} == set()
    assert "style_control" in {row.slice for row in rows}


def test_repeats_lighter_than_in_the_table_are_flagged_beside_votes_that_are_as_light():
    battles = games(*[("A", "B", "model_a")] * 3, ("A", "B", "model_b"))
    battles = battles.with_columns(judge=pl.Series(["j", "j", "j", "k"]), weight=pl.Series([4.0, 4.0, 4.0, 2.0]))
    assert flags_of(battles, pair_votes_max=1) == {"repeats_count_once"}


def test_a_light_battle_of_a_model_with_itself_is_no_repeat():
    battles = games(("A", "B", "model_a"), ("A", "B", "model_b"), ("A", "A", "tie"))
    battles = battles.with_columns(judge=pl.Series(["j", "k", "j"]), weight=pl.Series([1.0, 1.0, 0.5]))
    assert flags_of(battles, pair_votes_max=1) == set()


def test_a_day_whose_only_vote_too_many_is_on_a_model_against_itself_limits_nothing():
    battles = games(("A", "B", "model_a"), ("B", "A", "model_a"), ("A", "A", "tie"))
    day = datetime(2024, 9, 1, tzinfo=UTC)
    battles = battles.with_columns(judge=pl.Series(["j", "k", "j"]), tstamp=pl.Series([day] * 3))
    assert flags_of(battles, day_votes_max=1) == set()


def test_strong_verdicts_made_lighter_do_not_count_in_full():
    battles = games(*[("A", "B", "A>>B")] * 3, ("A", "B", "B>A")).with_columns(judge=pl.Series(["j", "j", "j", "k"]))
    assert RatingTables(battles, METHOD, rules=VoteRules(pair_votes_max=1)).votes_in_full == 2


@pytest.mark.parametrize("more", [(), ("overall",), ("language:English",)])
def test_a_category_unknown_of_most_battles_has_no_board_among_all_slices(more):
    known = [True, False, None, None, None] * 40
    battles = drawn(200, 3, language=["English", "Thai"] * 100, **{"category:math": known})
    tables = RatingTables(battles, METHOD, (ALL_SLICES, *more))
    assert "category:math" not in {row.slice for row in tables.rows("ratings")}


def test_a_category_that_is_named_beside_all_slices_has_its_board():
    battles = drawn(200, 3, **{"category:math": [True, False, None, None, None] * 40})
    tables = RatingTables(battles, METHOD, (ALL_SLICES, "category:math"))
    assert "category:math" in {row.slice for row in tables.rows("ratings")}
