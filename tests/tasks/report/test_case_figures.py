"""Texts of cases are broken into lines that fit, whatever they hold, and stay text."""

from random import Random
from xml.etree import ElementTree as ET

import pytest

from tasks.report.case_figures import DrawnAnswer, DrawnCase, drawn_cases
from tasks.report.page import COLUMN_WIDTH, EDGE, text_width

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEWM,.!?äéлж"


def case_of(text):
    """A case whose texts are all this one."""
    answer = DrawnAnswer("model", text, "X*", "jury")
    return DrawnCase("q", "Hallucination", "q", text, text, "people", (), (answer,))


@pytest.mark.parametrize("seed", range(5))
def test_no_line_is_wider_than_the_figure(seed):
    random = Random(seed)
    words = ["".join(random.choice(LETTERS) for _ in range(random.randint(1, 30))) for _ in range(200)]
    (axes,) = drawn_cases([case_of(" ".join(words))]).figure.axes
    lines = [text for text in axes.texts if text.get_fontsize() == 9]
    assert len(lines) == 8 + 8 + 12  # most lines of prompt, reference and answer
    assert all(text.get_position()[0] + text_width(text.get_text()) <= COLUMN_WIDTH - EDGE for text in lines)


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "$x^2$ \\frac{1}{2} a & b",
        "\x00\x0b \ud800 \u202eabc",
        "x" * 100_000,
        "漢字 " * 3000,
        "\n" * 500,
        "",
    ],
    ids=["markup", "math", "control", "long", "wide", "lines", "empty"],
)
def test_any_text_gives_a_figure_that_xml_readers_take(text):
    svg = drawn_cases([case_of(text)]).svg
    assert ET.fromstring(svg.encode()).tag.endswith("svg") and "<script" not in svg
