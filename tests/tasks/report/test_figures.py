"""Figures stay readable and well formed for any numbers and names."""

import re
import xml.etree.ElementTree as ET
from datetime import date, timedelta

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tasks.report.axes import Scale, day_ticks, ticks
from tasks.report.drawing import Drawing, text_width
from tasks.report.figures import bars, days, matrix, rating_intervals, shares, topic_map
from tasks.report.palette import blues

VALUES = st.floats(-1e9, 1e9).map(lambda value: round(value, 3))


def shapes(svg: str, tag: str) -> list[ET.Element]:
    return ET.fromstring(svg).findall(f"{{http://www.w3.org/2000/svg}}{tag}")


@given(VALUES, VALUES, st.integers(2, 10), st.booleans())
def test_ticks_are_even_steps_within_the_axis_and_their_texts_are_their_values(low, high, most, whole):
    assume(high - low > max(1e-2, 1e-9 * max(abs(low), abs(high))))
    found = ticks(low, high, most, whole)
    values = [value for value, _ in found]
    assert len(values) <= most + 1
    spare = 1e-6 * (high - low)
    assert all(low - spare <= value <= high + spare for value in values)
    assert np.ptp(np.diff(values)) <= spare if len(values) > 2 else True
    written = [float(text.replace(",", "").replace("\N{MINUS SIGN}", "-")) for _, text in found]
    assert written == pytest.approx(values, abs=spare)
    assert not whole or all(value == round(value) for value in values)


def test_an_axis_has_at_least_two_round_numbers():
    assert [text for _, text in ticks(0, 194, 6, whole=True)] == ["0", "50", "100", "150"]
    assert [text for _, text in ticks(-0.16, 0.84, 8)] == ["0.0", "0.2", "0.4", "0.6", "0.8"]
    assert [text for _, text in ticks(0, 1, 6, whole=True)] == ["0", "1"]
    assert [text for _, text in ticks(-1500, 1500, 3)] == ["−1,000", "0", "1,000"]


@given(st.dates(date(1990, 1, 1), date(2090, 1, 1)), st.integers(0, 20_000))
def test_days_are_marked_rarely_enough_to_be_read(first, length):
    last = first + timedelta(length)
    marks = day_ticks(first, last, 8)
    assert len(marks) <= 10 and (marks or length < 1)
    assert all(first <= day <= last for day, _ in marks)
    assert len({day for day, _ in marks}) == len(marks)


def test_months_have_names_and_january_the_year():
    marks = day_ticks(date(2023, 10, 5), date(2024, 3, 2), 8)
    assert [text for _, text in marks] == ["Nov", "Dec", "2024", "Feb", "Mar"]
    assert [text for _, text in day_ticks(date(2024, 2, 28), date(2024, 3, 1), 8)] == ["Feb 28", "Feb 29", "Mar 1"]
    assert "2023–2024" in days([date(2023, 12, 31), date(2024, 1, 1)], {"votes": [1, 2]})


def test_names_that_xml_forbids_or_that_are_markup_are_text():
    svg = bars({"<script>\x00\ufffe&\"'": 3}, "a < b")
    texts = [element.text for element in shapes(svg, "text")]
    assert "<script> &\"'" in texts and "a < b" in texts


def test_the_longest_name_has_room_beside_the_axis():
    for name in ("W" * 30, "i" * 30, "中" * 30):
        svg = bars({name: 5, "b": 1}, "votes")
        bar = shapes(svg, "rect")[1]
        assert text_width(name) < float(bar.get("x")) < 633.6 - 200
    assert text_width("中文") > text_width("ab") > text_width("il") > text_width("e\u0301") - text_width("e") == 0


def test_bars_are_as_long_as_their_values():
    _, *found = shapes(bars({"a": 40, "b": 10, "c": 0}, "votes"), "rect")
    wide = [float(bar.get("width")) for bar in found]
    assert wide[0] == pytest.approx(4 * wide[1], abs=0.05) and wide[2] == 0


def test_points_and_intervals_stand_where_their_numbers_are():
    svg = rating_intervals(["a", "b", "c"], [1000.0, 900.0, np.nan], [950.0, np.nan, np.nan], [1050.0, np.nan, np.nan])
    paths = [(path.get("stroke-width"), path.get("d")) for path in shapes(svg, "path")]
    ((start, end),) = (re.findall(r"[ML]([\d.]+)", d) for width, d in paths if width == "5")
    a, b = (float(re.match(r"M([\d.]+)", d).group(1)) for width, d in paths if width == "5.5")
    assert a == pytest.approx((float(start) + float(end)) / 2, abs=0.02)
    assert a - b == pytest.approx(float(end) - float(start), abs=0.02)
    assert "nan" not in svg


def test_parts_of_a_whole_fill_its_bar():
    _, *found = shapes(shares(["x"], {"one": [0.25], "two": [0.5], "three": [0.25]}), "rect")
    widths = [float(bar.get("width")) for bar in found[:3]]
    assert widths == pytest.approx([widths[0], 2 * widths[0], widths[0]], abs=0.05)
    legend = [element.text for element in shapes(shares(["x"], {"one": [1], "two": [0], "three": [0]}), "text")]
    assert {"one", "two", "three"} <= set(legend)


def test_every_document_is_a_dot_and_outliers_are_grey():
    x, y = np.arange(7, dtype=np.float32), np.zeros(7, np.float32)
    svg = topic_map(x, y, np.array([-1, -1, 0, 0, 1, 18, 18], np.int32), {0: "a", 1: "b", 18: "c"}, {0: 2, 1: 1, 18: 2})
    dots = {path.get("stroke"): path.get("d").count("h.01") for path in shapes(svg, "path") if "h.01" in path.get("d")}
    assert dots == {"#c9ced6": 2, "#1f77b4": 4, "#aec7e8": 1}


def test_empty_cells_stay_empty_and_numbers_can_be_read_on_their_shade():
    svg = matrix(["a", "b"], ["c", "d"], np.array([[0.0, 100.0], [50.0, np.nan]]))
    assert len(shapes(svg, "rect")) == 1 + 3
    assert sorted(re.findall(r">(\d+)</text>", svg)) == ["0", "100", "50"]
    assert [ink for _, ink in blues(np.array([0.0, 0.3, 1.0]))] == ["#000000", "#000000", "#ffffff"]
    low = matrix(["a", "b"], ["c"], np.array([[1.0], [9.0]]), low_is_dark=True)
    first, second = (int(cell.get("fill")[1:3], 16) for cell in shapes(low, "rect")[1:])
    assert first < second


def test_figures_of_nothing_are_figures():
    nothing = np.empty(0)
    for svg in (
        bars({}, "votes"),
        rating_intervals([], [], [], []),
        shares([], {"one": [], "two": [], "three": []}),
        topic_map(nothing.astype(np.float32), nothing.astype(np.float32), nothing.astype(np.int32), {}, {}),
        matrix(["a"], ["b"], np.array([[np.nan]])),
        Drawing(10, 10).svg(),
    ):
        assert ET.fromstring(svg).tag.endswith("svg")


def test_a_scale_goes_both_ways():
    assert Scale(0, 10, 100, 0).at(2.5) == 75
