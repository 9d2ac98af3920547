"""Leaderboards of a release: every rating, safe in a spreadsheet; their certificate, and how few votes change them."""

import csv
import json
from dataclasses import replace
from operator import itemgetter
from pathlib import Path

import polars as pl
import pytest

from flows.products import problems_of
from schemas.benches.bench import HiddenItem
from schemas.policy import VoteRules
from schemas.rating import OVERALL, Fragility, Rating, RatingMethod
from schemas.row import arrow_schema
from tasks.leaderboard.battle_files import read_battles
from tasks.leaderboard.rating_tables import ALL_SLICES, RatingTables
from tasks.release.certificate.file import CERTIFICATE, PAGE
from tasks.release.checks.boards import FRAGILE, unlike_votes
from tasks.release.contents import declared_columns
from tasks.release.core_parts import BOARDS, write_leaderboards
from tasks.release.fetched import read_manifest
from tasks.release.registered import FRAGILITY, OpenRelease, write_table
from tasks.storage.tables import frame_of
from tests.builders import facts_frame
from tests.small_store import make_release
from tests.tampered_release import add_file, reseal
from tests.tasks.leaderboard.battle_tables import drawn

FORMULA = "=HYPERLINK(1)"


def _rating(name, model="m", value=1000.0):
    return Rating(
        slice=name,
        model=model,
        rating=value,
        ci95_low=value - 1,
        ci95_high=value + 1,
        rank=1,
        battles=3,
        flags=["a", "b"],
    )


@pytest.fixture(scope="module")
def boards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("boards")
    slices = {
        "overall": ["overall", "exclude_ties", "exclude_refusal", "exclude_preset", "without_suspects"],
        "by_category": ["category:ocr", "category:code"],
        "by_language": ["language:en"],
        "by_question": ["question:Analytical", "question:Analytical / Data Analysis"],
        "by_image": ["image:Expert"],
        "by_month": ["month:2024-09"],
        "style_control": ["style_control"],
    }
    rows = [_rating(name) for names in slices.values() for name in names]
    rows += [_rating("overall", FORMULA, 1200.0), _rating("overall", "z", 900.0)]
    write_leaderboards(frame_of(Rating, rows), folder)
    return folder / "leaderboard", slices


def test_every_slice_is_in_exactly_its_board_and_its_csv_holds_no_formula(boards):
    folder, slices = boards
    for board, names in slices.items():
        frame = pl.read_parquet(folder / f"{board}.parquet")
        assert set(frame["slice"]) == set(names)
        assert frame.schema == pl.Schema(pl.from_arrow(arrow_schema(Rating).empty_table()).schema)
    with (boards[0] / "overall.csv").open(newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["slice"] == "overall"]
    assert [row["model"] for row in rows] == [f"'{FORMULA}", "m", "z"]
    assert rows[0]["rating"] == "1200.00"
    assert rows[0]["flags"] == "a b"


def test_boards_are_those_that_curate_rate_makes_of_the_released_battles_without_hidden_ones(own_store, curate):
    asked = own_store.read("conversations").filter(conversation_id="b3")["document_id"].item()
    about = {"topic": 0, "first_month": "2024-09", "last_month": "2024-11", "drawn": True}
    own_store.replace("hidden", frame_of(HiddenItem, [HiddenItem(document_id=asked, **about)]))
    documents = own_store.read("battles").join(
        own_store.read("conversations"), left_on="conversation_a", right_on="conversation_id"
    )
    labels = {"question_category": "Analytical", "question_subcategory": "Data Analysis", "image_domain": "Expert"}
    own_store.replace("signals/taxonomy", facts_frame("taxonomy", dict.fromkeys(documents["document_id"], labels)))
    release = Path(own_store.root) / make_release(own_store, release="rated").result
    released = pl.read_parquet(release / "battle" / "data" / "*.parquet")["question_id"].to_list()
    assert len(released) == 5 and "b3" not in released
    found = []
    for options in (("--slice", "all"), ("--table", "style_control")):
        code, out, _ = curate("rate", release / "battle", "--json", *options)
        assert code == 0
        found += [json.loads(line) for line in out.splitlines()]
    rows = [row for board in BOARDS for row in pl.read_parquet(release / "leaderboard" / f"{board}.parquet").to_dicts()]
    by = itemgetter("slice", "model")
    assert sorted(rows, key=by) == sorted(found, key=by)
    classes = {"question:Analytical", "question:Analytical / Data Analysis", "image:Expert"}
    assert {"overall", "exclude_preset", "language:English", "style_control", *classes} <= {
        row["slice"] for row in rows
    }
    assert sum(row["battles"] for row in rows if row["slice"] == "overall") == 2 * 5
    assert problems_of(release) == []


def test_without_ratings_the_boards_are_empty_and_have_their_columns(tmp_path):
    write_leaderboards(frame_of(Rating, []), tmp_path)
    for board in BOARDS:
        assert pl.read_parquet(tmp_path / "leaderboard" / f"{board}.parquet").columns == list(Rating.model_fields)
        assert (tmp_path / "leaderboard" / f"{board}.csv").read_text().startswith("slice,model")


def _told(release) -> dict:
    return json.loads((release / CERTIFICATE).read_bytes())


def test_the_certificate_counts_the_votes_of_the_release_and_the_dropped_ones_by_reason(release, store):
    told = _told(release)
    sides = {row["group"]: row["appearances"] for row in told["exposure"] if row["by"] == "model"}
    assert told["votes"] > 0 and sum(sides.values()) == 2 * told["votes"]
    assert {row["model"] for row in told["lives"]} == sides.keys()
    card = (release / "README.md").read_text("utf-8")
    assert f"{told['votes']:,} votes" in card
    checks = {row["check"]: row for row in told["checks"]}
    seen = max((month["seen_before"] or 0 for month in told["months"]), default=0)
    assert ("of the prompts were of earlier months" in card) == (seen > 0)
    assert checks["not_in_full"]["votes"] == checks["names_model"]["votes"] == 0 and checks["repeated"]["note"]
    decided = store.read("decisions").filter(~pl.col("keep"), item_kind="battle")
    counted = dict(
        decided.select(pl.col("reasons").list.unique()).explode("reasons").group_by("reasons").len().iter_rows()
    )
    dropped = {row["reason"]: row["votes"] for row in _told(release)["dropped"]}
    assert dropped == counted != {}
    assert "leaves out of the release, by reason" in (release / "README.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "value"), [("votes", 99_999), ("exposure", []), ("months", []), ("largest_to_smallest", 1.01)]
)
def test_another_number_is_found(own_release, name, value):
    add_file(own_release, CERTIFICATE, json.dumps(_told(own_release) | {name: value}, indent=1).encode())
    assert f"{CERTIFICATE}: {name} is not what the votes of battle give" in problems_of(own_release)


def test_another_page_and_a_missing_certificate_are_found(own_release):
    page = (own_release / PAGE).read_text("utf-8")
    add_file(own_release, PAGE, page.replace("votes", "cheers", 1).encode())
    assert f"{PAGE}: not the page of certificate.json" in problems_of(own_release)
    (own_release / CERTIFICATE).unlink()
    reseal(own_release)
    assert f"{CERTIFICATE}: missing" in problems_of(own_release)


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


def test_the_table_is_whole_and_told_on_the_card_and_a_number_the_votes_do_not_give_is_found(rated, rows):
    assert problems(rated, rows) == []
    assert rows.filter(slice="language:English")["flags"].to_list() == [["few_battles"]]
    assert rows.filter(slice="language:Thai")["needed"].null_count() == 0
    write_table(rated.folder, FRAGILITY, rows)
    section = FRAGILE.section.text(rated.folder, 0)
    first = rows.row(0, named=True)
    assert (
        f"| first | m3 | m2 | {first['difference']:.1f} | {first['needed']} ({100 * first['needed_fraction']:.2f} %)"
        in section
    )
    assert "not searched, because they have under 100 votes: 1." in section
    assert section.count("\n| ") == 1 + 1 + 3  # heading, first place and three pairs
    sturdy = rows.with_columns(pl.when(slice=OVERALL).then(pl.col("needed") + 5).otherwise("needed").alias("needed"))
    assert problems(rated, sturdy) == [f"{TABLE}: not what the votes of battle give"]


def test_under_rules_about_votes_the_table_has_their_flags_and_is_what_these_votes_give(rated, battles):
    path, rules = rated.folder / "battle" / "train.parquet", VoteRules(pair_votes_max=1)
    battles.with_columns(judge=pl.format("j{}", pl.int_range(pl.len()) % 40)).write_parquet(path)
    told = RatingTables(read_battles(path), RatingMethod(), (ALL_SLICES,), rules=rules).rows("fragility")
    assert all("repeats_count_once" in row.flags for row in told)
    policy = rated.manifest.policy | {"votes": rules.model_dump()}
    under = replace(rated, manifest=rated.manifest.model_copy(update={"policy": policy}))
    assert problems(under, frame_of(Fragility, told)) == [] != problems(rated, frame_of(Fragility, told))


@pytest.mark.parametrize(("layout", "flags"), [(11, []), (12, ["repeats_count_once"])])
def test_boards_under_style_control_have_the_flags_of_rules_from_layout_12_on(rated, battles, layout, flags):
    rules = VoteRules(pair_votes_max=1)
    measured = battles.with_columns(
        judge=pl.format("j{}", pl.int_range(pl.len()) % 40), tokens_a=pl.int_range(pl.len()) % 7, tokens_b=3
    )
    measured.write_parquet(rated.folder / "battle" / "train.parquet")
    manifest = rated.manifest.model_copy(
        update={"layout": layout, "policy": rated.manifest.policy | {"votes": rules.model_dump()}}
    )
    rows = [
        row.model_copy(update={"flags": flags}) for row in RatingTables(measured, RatingMethod(), rules=rules).styled[0]
    ]
    (rated.folder / "leaderboard").mkdir()
    frame_of(Rating, rows).write_parquet(rated.folder / "leaderboard" / "style_control.parquet")
    release = replace(rated, manifest=manifest)
    assert list(unlike_votes(release, {"style_control": pl.col("slice") == "style_control"})) == []


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
    older = replace(rated, manifest=rated.manifest.model_copy(update={"layout": 6}))
    assert list(FRAGILE.wrong(older)) == []
    assert [FRAGILITY in declared_columns(layout) for layout in (6, 7)] == [False, True]
