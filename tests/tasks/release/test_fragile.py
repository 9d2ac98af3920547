"""How few votes change the boards of a release: the table is what its battles give, and older releases need none."""

import polars as pl
import pytest

from schemas.policy import VoteRules
from schemas.rating import Fragility, RatingMethod
from tasks.leaderboard.battle_files import read_battles
from tasks.leaderboard.leaderboard import OVERALL
from tasks.leaderboard.rating_tables import ALL_SLICES, RatingTables
from tasks.release.checks.vote_checks import FRAGILE
from tasks.release.declared import declared_columns
from tasks.release.fetched import read_manifest
from tasks.release.registered import FRAGILITY, OpenRelease, write_table
from tasks.storage.tables import frame_of
from tests.tasks.leaderboard.battle_tables import drawn

TABLE = f"{FRAGILITY}.parquet"


@pytest.fixture(scope="module")
def battles():
    told = drawn(600, 4, language=["English", "Thai", "Thai", "Thai", "Thai", "Thai", "Thai"] * 85 + ["Thai"] * 5)
    return told.with_columns(question_id=pl.format("q{}", pl.int_range(pl.len())), anony=True)


@pytest.fixture
def rated(release, battles, tmp_path):
    """A release's votes and their table, with the manifest of the small release."""
    (tmp_path / "battle").mkdir()
    battles.write_parquet(tmp_path / "battle" / "train.parquet")
    return OpenRelease(tmp_path, read_manifest(release), None)


@pytest.fixture(scope="module")
def rows(battles, tmp_path_factory):
    path = tmp_path_factory.mktemp("votes") / "v.parquet"
    battles.write_parquet(path)
    return frame_of(Fragility, RatingTables(read_battles(path), RatingMethod(), (ALL_SLICES,)).fragility)


def problems(release, rows):
    write_table(release.folder, FRAGILITY, rows)
    return list(FRAGILE.wrong(release))


def test_the_table_of_the_votes_is_whole_and_slices_of_few_votes_say_so(rated, rows):
    assert problems(rated, rows) == []
    assert rows.filter(slice="language:English")["flags"].to_list() == [["few_battles"]]
    assert rows.filter(slice="language:Thai")["needed"].null_count() == 0


def test_under_rules_about_votes_the_table_has_their_flags_and_is_what_these_votes_give(rated, battles):
    path, rules = rated.folder / "battle" / "train.parquet", VoteRules(pair_votes_max=1)
    battles.with_columns(judge=pl.format("j{}", pl.int_range(pl.len()) % 40)).write_parquet(path)
    told = RatingTables(read_battles(path), RatingMethod(), (ALL_SLICES,), rules=rules).rows("fragility")
    assert all("repeats_count_once" in row.flags for row in told)
    policy = rated.manifest.policy | {"votes": rules.model_dump()}
    under = rated._replace(manifest=rated.manifest.model_copy(update={"policy": policy}))
    assert problems(under, frame_of(Fragility, told)) == [] != problems(rated, frame_of(Fragility, told))


def test_a_number_that_the_votes_do_not_give_is_found(rated, rows):
    sturdy = rows.with_columns(pl.when(slice=OVERALL).then(pl.col("needed") + 5).otherwise("needed").alias("needed"))
    assert problems(rated, sturdy) == [f"{TABLE}: not what the votes of battle give"]


def test_equal_votes_prove_as_much_and_others_nothing(rated, rows, battles):
    row = rows.row(0, named=True)
    first = row["needed_ids"][0]
    kind = battles.row(by_predicate=pl.col("question_id") == first, named=True)
    same = {name: kind[name] for name in ("model_a", "model_b", "winner")}
    equal = battles.filter(~pl.col("question_id").is_in(row["needed_ids"]), **same)["question_id"][-1]
    places = pl.int_range(pl.len()) == 0
    for other, found in ((equal, []), ("q-unknown", ["its votes do not put 'm2' before 'm3' in 'overall'"])):
        ids = pl.lit([other, *row["needed_ids"][1:]])
        named = rows.with_columns(pl.when(places).then(ids).otherwise("needed_ids").alias("needed_ids"))
        assert problems(rated, named) == [f"{TABLE}: {problem}" for problem in found]


def test_only_releases_of_an_earlier_layout_may_lack_the_table(rated):
    assert list(FRAGILE.wrong(rated)) == [f"{TABLE}: not what the votes of battle give"]
    older = rated._replace(manifest=rated.manifest.model_copy(update={"layout": 6}))
    assert list(FRAGILE.wrong(older)) == []
    assert [FRAGILITY in declared_columns(layout) for layout in (6, 7)] == [False, True]


def test_the_card_names_places_models_and_shares(rated, rows):
    write_table(rated.folder, FRAGILITY, rows)
    section = FRAGILE.section.text(rated.folder, 0)
    first = rows.row(0, named=True)
    assert (
        f"| first | m3 | m2 | {first['difference']:.1f} | {first['needed']} ({100 * first['needed_fraction']:.2f} %)"
        in section
    )
    assert "not searched, because they have under 100 votes: 1." in section
    assert section.count("\n| ") == 1 + 1 + 3  # heading, first place and three pairs
