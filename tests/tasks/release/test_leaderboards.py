"""Leaderboards of a release: every rating in one file, best first, safe to open in a spreadsheet."""

import csv

import polars as pl
import pytest

from schemas.rating import Rating
from schemas.row import arrow_schema
from tasks.release.leaderboards import BOARDS, write_leaderboards
from tasks.storage.tables import frame_of

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
        "overall": ["overall", "exclude_ties", "exclude_refusal", "exclude_preset"],
        "by_category": ["category:ocr", "category:code"],
        "by_language": ["language:en"],
        "by_month": ["month:2024-09"],
        "style_control": ["style_control"],
    }
    rows = [_rating(name) for names in slices.values() for name in names]
    rows += [_rating("overall", FORMULA, 1200.0), _rating("overall", "z", 900.0)]
    write_leaderboards(frame_of(Rating, rows), folder)
    return folder, slices


def test_every_slice_is_in_exactly_its_board(boards):
    folder, slices = boards
    for board, names in slices.items():
        frame = pl.read_parquet(folder / f"{board}.parquet")
        assert set(frame["slice"]) == set(names)
        assert frame.schema == pl.Schema(pl.from_arrow(arrow_schema(Rating).empty_table()).schema)


def test_every_slice_that_ratings_can_have_belongs_to_a_board(boards):
    _, slices = boards
    names = [name for each in slices.values() for name in each]
    frame = pl.DataFrame({"slice": names})
    assert [sum(frame.select(chosen.alias(b)).sum().item() for b, chosen in BOARDS.items())] == [len(names)]


def test_the_best_model_comes_first(boards):
    overall = pl.read_parquet(boards[0] / "overall.parquet").filter(slice="overall")
    assert overall["model"].to_list() == [FORMULA, "m", "z"]


def test_the_csv_says_the_same_and_holds_no_formula(boards):
    with (boards[0] / "overall.csv").open(newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["slice"] == "overall"]
    assert [row["model"] for row in rows] == [f"'{FORMULA}", "m", "z"]
    assert rows[0]["rating"] == "1200.00"
    assert rows[0]["flags"] == "a b"


def test_without_ratings_the_boards_are_empty_and_have_their_columns(tmp_path):
    write_leaderboards(frame_of(Rating, []), tmp_path)
    for board in BOARDS:
        assert pl.read_parquet(tmp_path / f"{board}.parquet").columns == list(Rating.model_fields)
        assert (tmp_path / f"{board}.csv").read_text().startswith("slice,model")
