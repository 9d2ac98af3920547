"""Leaderboards of a release: every rating in one file, best first, safe to open in a spreadsheet."""

import csv
import json
from operator import itemgetter
from pathlib import Path

import polars as pl
import pytest

from flows.products import problems_of
from schemas.benches.bench import HiddenItem
from schemas.rating import Rating
from schemas.row import arrow_schema
from tasks.release.core_parts import BOARDS, write_leaderboards
from tasks.storage.tables import frame_of
from tests.builders import facts_frame
from tests.small_store import make_release

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


def test_every_slice_is_in_exactly_its_board(boards):
    folder, slices = boards
    for board, names in slices.items():
        frame = pl.read_parquet(folder / f"{board}.parquet")
        assert set(frame["slice"]) == set(names)
        assert frame.schema == pl.Schema(pl.from_arrow(arrow_schema(Rating).empty_table()).schema)


def test_the_csv_says_the_same_and_holds_no_formula(boards):
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
