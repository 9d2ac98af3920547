"""Figures stay readable, safe and well formed for any numbers and names."""

import re
import xml.etree.ElementTree as ET
from datetime import date, timedelta

import numpy as np
import pytest

from tasks.report.figures import bars, daily_panels, matrix, merges, rating_intervals, shares, topic_map

NAN = float("nan")


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_names_are_text_and_neither_markup_nor_math():
    names = ["<script>\x00\ufffe&\"'", "$x_1$ costs $2", "\\frac{1}{2}", "中文模型", "_private"]
    for svg in (
        bars(dict.fromkeys(names, 3), "a < b"),
        rating_intervals(names, *np.ones((3, 5)), "points"),
        shares(names, {"one": [1.0] * 5, "two": [0.0] * 5, "three": [0.0] * 5}),
        matrix(names, names, np.eye(5)),
    ):
        assert {"<script>&\"'", "$x_1$ costs $2", "\\frac{1}{2}", "中文模型", "_private"} <= set(texts(svg))
        assert "<script" not in svg


@pytest.mark.parametrize("name", ["W" * 30, "i" * 30, "中" * 30])
def test_the_longest_name_starts_inside_the_figure(name):
    svg = bars({name: 5, "b": 1}, "votes")
    (end,) = (float(x) for x in re.findall(rf'x="([\d.]+)"[^>]*>{name}<', svg))  # text-anchor: end
    wide = {"W": 0.99, "i": 0.28, "中": 1.0}[name[0]] * 9 * len(name)
    assert 0 <= end - wide < 20


def test_an_interval_with_one_end_ends_in_an_arrow_and_one_without_ends_is_not_drawn():
    closed, open_ended, none = (
        rating_intervals(["a", "b"], [1.0, 2.0], [0.5, low], [1.5, high], "points")
        for low, high in ((1.5, 2.5), (1.5, None), (None, None))
    )
    assert "nan" not in closed + open_ended + none
    assert [svg.count("stroke-width: 5") for svg in (closed, open_ended, none)] == [2, 2, 1]
    assert [len(re.findall("<use [^>]*fill: #b9d0e8", svg)) for svg in (closed, open_ended, none)] == [0, 1, 0]


def test_days_name_their_months_and_years():
    whole_years = [date(2023, 11, 1) + timedelta(days=n) for n in range(200)]
    assert {"2024", "Dec"} <= set(texts(daily_panels(whole_years, {"votes": [1] * 200})))
    assert {"Feb", "29"} & set(texts(daily_panels([date(2024, 2, 28), date(2024, 3, 1)], {"votes": [1, 2]})))


def test_every_document_is_a_point_and_outliers_are_grey():
    x, y = np.arange(7, dtype=np.float32), np.zeros(7, np.float32)
    svg = topic_map(x, y, np.array([-1, -1, 0, 0, 1, 18, 18], np.int32), {0: "a", 1: "b", 18: "c"}, {0: 2, 1: 1, 18: 2})
    points = re.findall(r'<use [^>]*style="fill: (#\w+)"', svg)
    assert {colour: points.count(colour) for colour in ("#c9ced6", "#1f77b4", "#aec7e8")} == {
        "#c9ced6": 2, "#1f77b4": 4, "#aec7e8": 1,
    }  # fmt: skip


def test_the_topics_with_most_documents_are_named_whatever_their_numbers():
    sizes = {number: number + 1 for number in range(25)}
    none = np.empty(0, np.float32)
    svg = topic_map(none, none, np.empty(0, np.int32), {n: f"topic {n}" for n in sizes}, sizes)
    named = [text.split()[1] for text in texts(svg) if text.startswith("topic ")]
    assert named == [str(number) for number in range(24, 4, -1)]


def test_empty_cells_stay_empty_and_numbers_can_be_read_on_their_shade():
    svg = matrix(["a", "b"], ["c", "d"], np.array([[0.0, 100.0], [50.0, NAN]]))
    assert sorted(text for text in texts(svg) if text.isdigit()) == ["0", "100", "50"]
    assert len(re.findall(r"fill: #ffffff[^>]*>100<", svg)) == 1 and not re.search(r"fill: #ffffff[^>]*>0<", svg)


def test_a_large_tree_is_drawn_by_its_last_merges():
    tree = [(n if n == 0 else 99 + n, n + 1, 0.01 * (n + 1)) for n in range(99)]
    figure = merges(tree, [f"name{n}" for n in range(100)], 10)
    assert sum("name" in text for text in texts(figure)) == 9
    assert "(91 topics)" in texts(figure)


def test_figures_of_nothing_are_figures():
    nothing = np.empty(0)
    for svg in (
        bars({}, "votes"),
        rating_intervals([], [], [], [], "points"),
        rating_intervals(["a"], [NAN], [NAN], [NAN], "points"),
        shares([], {"one": [], "two": [], "three": []}),
        topic_map(nothing.astype(np.float32), nothing.astype(np.float32), nothing.astype(np.int32), {}, {}),
        matrix(["a"], ["b"], np.array([[NAN]])),
    ):
        assert ET.fromstring(svg).tag.endswith("svg")
