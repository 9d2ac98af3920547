"""Boards, votes and figures of the report: rows by rank, WildVision's tables, well formed for any numbers and names."""

import re
import xml.etree.ElementTree as ET
from datetime import date, timedelta
from itertools import cycle

import numpy as np
import polars as pl
import pytest
from matplotlib.colors import to_hex

from schemas.benches.certificate import Exposure
from schemas.rating import Fragility, RankChange, Rating, RatingMethod, StyleCoefficient
from tasks.leaderboard.rating_tables import RatingTables
from tasks.report.boards import battle_parts, vote_parts
from tasks.report.figures import (
    BLUE,
    bars,
    daily_panels,
    matrix,
    merges,
    paired_bars,
    rating_intervals,
    shares,
    topic_map,
)
from tasks.report.figures import GREY as FEW
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


def test_rows_are_by_rank_and_slices_with_few_votes_grey_with_their_number(parts):
    board = parts(
        ("overall", "alone", 1900.0, 1, 4, ["separate_group"]),
        ("overall", "second", 1010.0, 2, 200, []),
        ("overall", "winner", 1500.0, None, 3, ["only_wins"]),
        ("overall", "first", 1000.0, 1, 200, []),
    )["leaderboard_overall"]
    assert board.table["model"].to_list() == ["first", "second", "winner", "alone"]
    assert ">first<" in board.figure.svg and ">alone<" not in board.figure.svg
    assert board.about.endswith("they are last in the table and not in the figure: alone.")
    sizes = (("overall", 500), ("category:ocr", 99), ("category:code", 100))
    figure = parts(
        *((name, model, 1000.0, place, votes, []) for name, votes in sizes for place, model in enumerate("ab", 1))
    )["ranks"].figure.svg
    labels = re.findall(r"<text [^>]*>[^<]+</text>", figure)
    assert sum(label.endswith((">overall (500)</text>", ">code (100)</text>")) for label in labels) == 2
    grey = [label for label in labels if "#8a929c" in label]
    assert [re.sub("<[^>]*>", "", label) for label in grey] == ["ocr (99)", "1", "2"]  # its name and both ranks


NAMES = {
    (700, 900): "are counted on both sides of 700 of 900 votes, and style control is fitted on these",
    (400, 900): "are counted on both sides of only 400 of 900 votes; their effect is from these",
    (12, 900): "are counted on both sides of 12 of 900 votes, too few to tell their effect",
    (900, 900): "",
    (900, None): "",
}


@pytest.mark.parametrize(("battles", "of"), NAMES)
def test_sections_on_style_say_on_how_many_votes_names_are_counted(tmp_path, battles, of):
    flags = {400: ["not_on_board"], 12: ["unknown"]}.get(battles, [])
    effect = None if battles == 12 else 0.25
    about = {"slice": "overall", "preset": "fastchat", "of": of}
    known, names = (
        StyleCoefficient(covariate=name, coefficient=at, ci95_low=at, ci95_high=at, battles=count, flags=marks, **about)
        for name, at, count, marks in (("tokens", 0.5, of or 900, []), ("entities", effect, battles, flags))
    )
    board = Rating(
        slice="style_control", model="a", rating=1000, ci95_low=900, ci95_high=1100, rank=1, battles=900, flags=[]
    )
    store = store_with(tmp_path, style_coefficients=[known, names], ratings=[board])
    found = {part.key: part for part in battle_parts(store, pl.DataFrame()) if part}
    for key in ("style_coefficients", "leaderboard_style_control"):
        assert NAMES[battles, of] in found[key].about and ("Named" in found[key].about) == bool(NAMES[battles, of])
    assert ("entities", battles, of) in found["style_coefficients"].table.select("covariate", "battles", "of").rows()
    assert (">entities<" in found["style_coefficients"].figure.svg) == (effect is not None)


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
    assert ">a / b<" in section.figure.svg and ">33<" in section.figure.svg and "of 900," in section.about


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
    svg = rings.figure.svg
    assert "Data Analysis 120" in svg and "&lt;script&gt; 40" in svg and "<script" not in svg
    assert {row[0] for row in found["votes_by_image"].table.iter_rows()} == {"Expert", "Objects"}
    board = found["ratings_by_class"]
    assert board.table.columns == [
        *("model", "overall", "question:Analytical", "question:Recognition", "image:Expert", "image:Objects")
    ]
    assert {"Recognition (40)", "Objects (40)"} <= grey_texts(board.figure.svg)
    assert not {"Analytical (120)", "all"} & grey_texts(board.figure.svg)
    assert grey_texts(found["best_by_class"].figure.svg) == {"Recognition (40)", "Objects (40)"}
    lengths = found["length_differences"]
    assert "left side won (80)" in lengths.figure.svg and GREY not in lengths.figure.svg
    assert lengths.table["left"].sum() == 80 and lengths.table.filter(pl.col("low") < 0)["left"].sum() == 0


def test_a_density_of_few_votes_is_grey_and_without_lengths_or_classes_sections_are_left_out(voted_parts):
    assert GREY in voted_parts(battles(20, 5))["length_differences"].figure.svg
    bare = voted_parts(battles(150, 0).select("model_a", "model_b", "winner"))
    assert set(bare) == {"vote_statistics"}


NAN = float("nan")


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_names_are_text_and_neither_markup_nor_math():
    names = ["<script>\x00\ufffe&\"'", "$x_1$ costs $2", "\\frac{1}{2}", "中文模型", "_private"]
    for figure in (
        bars(dict.fromkeys(names, 3), "a < b"),
        rating_intervals(names, *np.ones((3, 5)), "points"),
        shares(names, {"one": [1.0] * 5, "two": [0.0] * 5, "three": [0.0] * 5}),
        matrix(names, names, np.eye(5)),
    ):
        svg = figure.svg
        assert {"<script>&\"'", "$x_1$ costs $2", "\\frac{1}{2}", "中文模型", "_private"} <= set(texts(svg))
        assert "<script" not in svg


@pytest.mark.parametrize("name", ["W" * 30, "i" * 30, "中" * 30])
def test_the_longest_name_starts_inside_the_figure(name):
    svg = bars({name: 5, "b": 1}, "votes").svg
    (end,) = (float(x) for x in re.findall(rf'x="([\d.]+)"[^>]*>{name}<', svg))  # text-anchor: end
    wide = {"W": 0.99, "i": 0.28, "中": 1.0}[name[0]] * 9 * len(name)
    assert 0 <= end - wide < 20


def test_an_interval_with_one_end_ends_in_an_arrow_and_one_without_ends_is_not_drawn():
    closed, open_ended, none = (
        rating_intervals(["a", "b"], [1.0, 2.0], [0.5, low], [1.5, high], "points").svg
        for low, high in ((1.5, 2.5), (1.5, None), (None, None))
    )
    assert "nan" not in closed + open_ended + none
    assert [svg.count("stroke-width: 5") for svg in (closed, open_ended, none)] == [2, 2, 1]
    assert [len(re.findall("<use [^>]*fill: #b9d0e8", svg)) for svg in (closed, open_ended, none)] == [0, 1, 0]


def test_days_name_their_months_and_years():
    whole_years = [date(2023, 11, 1) + timedelta(days=n) for n in range(200)]
    assert {"2024", "Dec"} <= set(texts(daily_panels(whole_years, {"votes": [1] * 200}).svg))
    assert {"Feb", "29"} & set(texts(daily_panels([date(2024, 2, 28), date(2024, 3, 1)], {"votes": [1, 2]}).svg))


def test_every_document_is_a_point_and_outliers_are_grey():
    x, y = np.arange(7, dtype=np.float32), np.zeros(7, np.float32)
    topics = np.array([-1, -1, 0, 0, 1, 18, 18], np.int32)
    svg = topic_map(x, y, topics, {0: "a", 1: "b", 18: "c"}, {0: 2, 1: 1, 18: 2}).svg
    points = re.findall(r'<use [^>]*style="fill: (#\w+)"', svg)
    assert {colour: points.count(colour) for colour in ("#c9ced6", "#1f77b4", "#aec7e8")} == {
        "#c9ced6": 2, "#1f77b4": 4, "#aec7e8": 1,
    }  # fmt: skip


def test_the_topics_with_most_documents_are_named_whatever_their_numbers():
    sizes = {number: number + 1 for number in range(25)}
    none = np.empty(0, np.float32)
    svg = topic_map(none, none, np.empty(0, np.int32), {n: f"topic {n}" for n in sizes}, sizes).svg
    named = [text.split()[1] for text in texts(svg) if text.startswith("topic ")]
    assert named == [str(number) for number in range(24, 4, -1)]


def test_empty_cells_stay_empty_and_numbers_can_be_read_on_their_shade():
    svg = matrix(["a", "b"], ["c", "d"], np.array([[0.0, 100.0], [50.0, NAN]])).svg
    assert sorted(text for text in texts(svg) if text.isdigit()) == ["0", "100", "50"]
    assert len(re.findall(r"fill: #ffffff[^>]*>100<", svg)) == 1 and not re.search(r"fill: #ffffff[^>]*>0<", svg)


def test_a_large_tree_is_drawn_by_its_last_merges():
    tree = [(n if n == 0 else 99 + n, n + 1, 0.01 * (n + 1)) for n in range(99)]
    figure = merges(tree, [f"name{n}" for n in range(100)], 10).svg
    assert sum("name" in text for text in texts(figure)) == 9
    assert "(91 topics)" in texts(figure)


def test_figures_of_nothing_are_figures():
    nothing = np.empty(0)
    for figure in (
        bars({}, "votes"),
        rating_intervals([], [], [], [], "points"),
        rating_intervals(["a"], [NAN], [NAN], [NAN], "points"),
        shares([], {"one": [], "two": [], "three": []}),
        topic_map(nothing.astype(np.float32), nothing.astype(np.float32), nothing.astype(np.int32), {}, {}),
        matrix(["a"], ["b"], np.array([[NAN]])),
    ):
        assert ET.fromstring(figure.svg).tag.endswith("svg")


def test_bars_of_both_configurations_have_one_scale_and_those_of_few_rows_are_grey():
    series, thin = {"chat": [62.0, 3.0], "battle": [4.0, 41.0]}, {"chat": [1], "battle": [0]}
    left, right = paired_bars.__wrapped__(["en", "th"], series, "% of rows", digits=1, thin=thin).axes
    assert left.get_xlim() == right.get_xlim()
    assert [[to_hex(bar.get_facecolor()) for bar in axes.patches] for axes in (left, right)] == [
        [BLUE, FEW],
        [FEW, BLUE],
    ]
    assert [[bar.get_width() for bar in axes.patches] for axes in (left, right)] == [*series.values()]


def test_a_bar_that_is_unknown_has_no_number():
    axes = paired_bars.__wrapped__(["a", "b"], {"chat": [None, 3.0], "battle": [4.0, None]}, "tokens").axes
    assert [[text.get_text() for text in panel.texts if text.get_text().isdigit()] for panel in axes] == [["3"], ["4"]]


def test_an_overall_board_without_ranks_has_its_votes_in_the_figure(parts):
    figure = parts(
        ("overall", "a", 1000.0, None, 300, ["only_wins"]),
        ("overall", "b", 900.0, None, 300, ["only_losses"]),
        ("category:ocr", "a", 1000.0, 1, 100, []),
        ("category:ocr", "b", 900.0, 2, 100, []),
    )["ranks"].figure.svg
    assert "overall (300)" in texts(figure)


def test_battles_of_a_model_with_itself_are_no_pair(tmp_path):
    released = pl.DataFrame(
        [("a", "a", "model_a", 7), ("a", "b", "model_b", 3)],
        ["model_a", "model_b", "winner", "conversations"],
        orient="row",
    )
    sections = {part.key: part for part in battle_parts(store_with(tmp_path), released) if part}
    assert sections["battle_counts"].table.rows() == [("a", "b", 3, 0, 3), ("b", "a", 3, 3, 0)]


def test_models_whose_names_begin_alike_have_a_bar_each(tmp_path):
    names = [f"meta-llama/Llama-3.2-90B-Vision-Instruct-{end}" for end in ("fp8", "int4")]
    about = {"by": "model", "models": 1, "share": 0.5, "votes_a_model": 1.0}
    rows = [Exposure(group=name, appearances=count, **about) for name, count in zip(names, (7, 5), strict=True)]
    sections = {part.key: part for part in battle_parts(store_with(tmp_path, exposure=rows), pl.DataFrame()) if part}
    assert {f"model: {name}" for name in names} <= set(texts(sections["exposure"].figure.svg))


def test_rank_changes_of_slices_alone_are_a_figure_without_rows(tmp_path):
    change = RankChange(
        slice="category:ocr", model="a", rank=1, rank_style=1, rank_change=0, rating=1000.0, rating_style=1000.0
    )
    board = Rating(
        slice="category:ocr", model="a", rating=1000, ci95_low=900, ci95_high=1100, rank=1, battles=9, flags=[]
    )
    store = store_with(tmp_path, rank_changes=[change], ratings=[board])
    sections = {part.key: part for part in battle_parts(store, pl.DataFrame()) if part}
    assert ET.fromstring(sections["rank_changes"].figure.svg).tag.endswith("svg")
