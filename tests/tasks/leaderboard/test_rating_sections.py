"""The report shows what the stage wrote: votes, style coefficients and rank changes."""

import polars as pl
import pytest

from schemas.settings import Settings
from tasks.leaderboard.steps import rate_models
from tasks.report.boards import battle_parts
from tasks.report.kept import count_battles
from tests.builders import VERSIONS, battle, decision, measure_clean, sides, store_with

SECTIONS = ["votes", "style_coefficients", "rank_changes"]


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    pairs = [sides(f"b{n}") for n in range(5)]
    battles = [battle(*pair, w) for pair, w in zip(pairs, ["model_a"] * 3 + ["model_b", "tie_bothbad"], strict=True)]
    conversations = [side for pair in pairs for side in pair]
    verdicts = [decision(item) for item in (*conversations, *battles)]
    store = store_with(
        tmp_path_factory.mktemp("rated"), conversations=conversations, battles=battles, decisions=verdicts
    )
    measure_clean(store, conversations)
    rate_models.fn(Settings(store=store.root, bootstraps=3), VERSIONS)
    return {part.key: part for part in battle_parts(store, count_battles(store)[1]) if part}


def test_every_section_has_a_table_and_a_figure(parts):
    assert [name for name in parts if name in SECTIONS] == SECTIONS
    assert all(parts[name].table.height and parts[name].figure.startswith("<svg") for name in SECTIONS)


def test_shares_are_those_of_the_kept_battles(parts):
    row = parts["votes"].table.row(by_predicate=pl.col("slice") == "overall", named=True)
    assert (row["battles"], row["decisive_fraction"], row["tie_fraction"], row["both_bad_fraction"]) == (5, 0.8, 0, 0.2)


def test_constant_style_is_marked(parts):
    assert set(parts["style_coefficients"].table["flags"]) == {"constant"}
