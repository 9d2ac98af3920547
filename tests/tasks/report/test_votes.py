"""Sections about votes: WildVision's tables and figures for any data, with what rests on few votes in grey."""

import re
from itertools import cycle

import polars as pl
import pytest

from schemas.rating import RatingMethod
from tasks.leaderboard.rating_tables import RatingTables
from tasks.report.boards import vote_parts
from tests.builders import store_with

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
def parts(tmp_path):
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


def test_every_section_says_what_the_votes_say_and_classes_with_few_votes_are_grey(parts):
    found = parts(battles(120, 40))
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


def test_a_density_of_few_votes_is_grey_and_without_lengths_or_classes_sections_are_left_out(parts):
    assert GREY in parts(battles(20, 5))["length_differences"].figure
    bare = parts(battles(150, 0).select("model_a", "model_b", "winner"))
    assert set(bare) == {"vote_statistics"}
