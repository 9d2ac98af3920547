"""Boards and votes: rows by rank, WildVision's tables and figures, and what rests on few votes in grey."""

import re
from itertools import cycle

import polars as pl
import pytest

from schemas.rating import Fragility, Rating, RatingMethod
from tasks.leaderboard.rating_tables import RatingTables
from tasks.report.boards import battle_parts, vote_parts
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


def test_a_section_says_how_few_votes_change_places_overall_board_first(tmp_path):
    about = {
        "model": "a",
        "rival": "b",
        "difference": 12.34,
        "of": 900,
        "unit": "vote",
        "place": 1,
        "contest": "neighbours",
    }
    rows = [
        Fragility(slice=name, change=change, needed=needed, needed_fraction=needed / 900, **about)
        for name, change, needed in (
            ("category:ocr", "removed", 7), ("category:ocr", "reversed", 4), ("overall", "removed", 33),
            ("overall", "reversed", 21),
        )
    ]  # fmt: skip
    found = {part.key: part for part in battle_parts(store_with(tmp_path, fragility=rows), pl.DataFrame()) if part}
    section = found["fragility"]
    assert section.table.select("slice", "removed", "reversed").rows() == [("overall", 33, 21), ("category:ocr", 7, 4)]
    assert ">a / b<" in section.figure and ">33<" in section.figure and "of 900," in section.about


CLASSES = (("Analytical", "Data Analysis", "Expert"), ("Recognition", "<script>", "Objects"))
GREY = "#8a929c"


def battles(votes: int, few: int) -> pl.DataFrame:
    """`votes` on analytical questions and `few` on recognition; the left side is longer and wins two of three."""
    pairs, winners = cycle((("x", "y"), ("y", "z"), ("z", "x"))), cycle(("model_a", "model_b", "model_a", "tie"))
    rows = []
    for n in range(votes + few):
        (a, b), (question, part, domain) = next(pairs), CLASSES[n >= votes]
        rows.append([a, b, next(winners), question, part, domain, 150.0 + n % 40, 100.0])
    names = "model_a model_b winner question_category question_subcategory image_domain tokens_a tokens_b"
    return pl.DataFrame(rows, names.split(), orient="row")


@pytest.fixture
def voted_parts(tmp_path):
    """Sections by name, of battles rated as the stage rates them."""

    def made(table: pl.DataFrame):
        whole, by_slice = (RatingTables(table, RatingMethod(), slices=slices) for slices in ((), ("all",)))
        rows = {name: by_slice.rows(name) for name in ("ratings", "vote_shares")}
        rows |= {name: whole.rows(name) for name in ("vote_statistics", "length_differences")}
        store = store_with(tmp_path, **rows)
        return {part.key: part for part in vote_parts(store) if part}

    return made


def grey_texts(svg: str) -> set[str]:
    labels = re.findall(r"<text [^>]*>[^<]+</text>", svg)
    return {re.sub("<[^>]*>", "", label) for label in labels if GREY in label}


def test_every_section_says_what_the_votes_say_and_classes_with_few_votes_are_grey(voted_parts):
    found = voted_parts(battles(120, 40))
    statistics = dict(found["vote_statistics"].table.iter_rows())
    assert (statistics["votes"], statistics["left"], statistics["right"], statistics["ties"]) == (
        "160",
        "80",
        "40",
        "40",
    )
    assert (statistics["longer won fraction"], statistics["rounds"]) == ("0.667", None)
    rings = found["votes_by_question"]
    assert rings.table.select("name", "part", "battles").rows()[:3] == [
        ("Analytical", None, 120),
        ("Analytical", "Data Analysis", 120),
        ("Recognition", None, 40),
    ]
    assert "Data Analysis 120" in rings.figure and "&lt;script&gt; 40" in rings.figure and "<script" not in rings.figure
    assert {row[0] for row in found["votes_by_image"].table.iter_rows()} == {"Expert", "Objects"}
    board = found["ratings_by_class"]
    assert board.table.columns == [
        *("model", "overall", "question:Analytical", "question:Recognition", "image:Expert", "image:Objects")
    ]
    assert {"Recognition (40)", "Objects (40)"} <= grey_texts(board.figure)
    assert not {"Analytical (120)", "all"} & grey_texts(board.figure)
    assert grey_texts(found["best_by_class"].figure) == {"Recognition (40)", "Objects (40)"}
    lengths = found["length_differences"]
    assert "left side won (80)" in lengths.figure and GREY not in lengths.figure
    assert lengths.table["left"].sum() == 80 and lengths.table.filter(pl.col("low") < 0)["left"].sum() == 0


def test_a_density_of_few_votes_is_grey_and_without_lengths_or_classes_sections_are_left_out(voted_parts):
    assert GREY in voted_parts(battles(20, 5))["length_differences"].figure
    bare = voted_parts(battles(150, 0).select("model_a", "model_b", "winner"))
    assert set(bare) == {"vote_statistics"}
