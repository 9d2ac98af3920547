"""Boards: rows by rank, what cannot be compared apart, and slices with few votes greyed with their number."""

import re

import polars as pl
import pytest

from schemas.rating import Rating
from tasks.report.boards import battle_parts
from tests.builders import store_with


@pytest.fixture
def parts(tmp_path):
    """Sections by name, of ratings given as (slice, model, rating, rank, battles, flags)."""

    def made(*rows: tuple):
        names = ("slice", "model", "rating", "rank", "battles", "flags")
        ends = {"ci95_low": 0.0, "ci95_high": 2000.0}
        ratings = [Rating(**ends, **dict(zip(names, row, strict=True))) for row in rows]
        found = battle_parts(store_with(tmp_path, ratings=ratings), pl.DataFrame())
        return {part.key: part for part in found if part}

    return made


def test_rows_are_by_rank_and_models_that_no_battle_connects_are_last_and_not_in_the_figure(parts):
    board = parts(
        ("overall", "alone", 1900.0, 1, 4, ["separate_group"]),
        ("overall", "second", 1010.0, 2, 200, []),
        ("overall", "winner", 1500.0, None, 3, ["only_wins"]),
        ("overall", "first", 1000.0, 1, 200, []),
    )["leaderboard_overall"]
    assert board.table["model"].to_list() == ["first", "second", "winner", "alone"]
    assert ">first<" in board.figure and ">alone<" not in board.figure
    assert board.about.endswith("they are last in the table and not in the figure: alone.")


def test_slices_with_few_votes_are_grey_and_every_slice_has_its_number_of_votes(parts):
    sizes = (("overall", 500), ("category:ocr", 99), ("category:code", 100))
    figure = parts(
        *((name, model, 1000.0, place, votes, []) for name, votes in sizes for place, model in enumerate("ab", 1))
    )["ranks"].figure
    labels = re.findall(r"<text [^>]*>[^<]+</text>", figure)
    assert sum(label.endswith((">overall (500)</text>", ">code (100)</text>")) for label in labels) == 2
    grey = [label for label in labels if "#8a929c" in label]
    assert [re.sub("<[^>]*>", "", label) for label in grey] == ["ocr (99)", "1", "2"]  # its name and both ranks
