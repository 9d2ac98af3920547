"""Markdown, code, service texts, upstream's words and the layout of images, beside plain readings."""

import random
import time
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.signals import Markdown
from tasks.images.measures import image_layout
from tasks.signals.rules import texts
from tasks.signals.rules.texts import code, markdown, service_text, upstream_words
from tests.builders import drawn_image

COUNTS = tuple(Markdown.model_fields)
PLAIN = st.text(st.characters(codec="utf-8", exclude_characters="`*_#-+\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029")).map(
    lambda text: text.strip().lstrip("0123456789")
)
MIXED = st.lists(
    st.sampled_from(
        ["# One", "### Three", "- item", "* item", "1. first", "12. twelfth", "**bold** word", "__low__", "a"]
    )
).map("\n".join)


def nonzero(text):
    return {name: count for name, count in markdown(text).model_dump().items() if count}


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("", {}),
        ("# One\n## Two\n### Three\n#### Four\n##### Five\n###### Six", dict.fromkeys(COUNTS[:6], 1)),
        ("####### Seven\n#hashtag\nx # y", {}),
        ("1. a\n2. b\n  3. c\n1.5 is a number", {"ordered": 3}),
        ("- a\n* b\n+ c\n    - d\n-e", {"unordered": 4}),
        ("**a** and **b c**, not ** d\n**", {"bold_stars": 2}),
        ("__a__ and snake_case and __init", {"bold_underscores": 1}),
        ("# Title\n```\n# comment\n- a\n**b**\n```\n- c", {"h1": 1, "unordered": 1}),
        ("- a\n```python\n# an open fence runs to the end\n- b", {"unordered": 1}),
        ("\n\n  \n- a\n\n\n- b", {"unordered": 2}),
    ],
)
def test_elements_are_counted(text, counts):
    assert nonzero(text) == counts


@given(PLAIN)
def test_plain_text_has_no_elements(text):
    assert nonzero(text) == {}


@given(MIXED, MIXED)
def test_counts_of_two_texts_add_up(one, other):
    together = markdown(f"{one}\n{other}").model_dump()
    assert together == {name: getattr(markdown(one), name) + getattr(markdown(other), name) for name in COUNTS}


@given(MIXED, MIXED)
def test_what_stands_in_a_fence_does_not_count(prose, fenced):
    assert markdown(f"{prose}\n```\n{fenced}\n```\n") == markdown(prose)


@pytest.mark.parametrize(
    "text",
    [
        "```\nx = 1\n```", "Write it in Python.", "How do I sort in C++?", "#include <stdio.h>",
        "Please explain:\nimport os\nprint(1)", "pip install numpy", "A pull request on GitHub",
        "Write a function that reverses a list.", "How do I print to a textbox in pyqt6?",
        "What does this do?\nfn main() {\n    run();\n}", "Regex for a phone number, please", "用Python写一个排序",
        "二つの数を足す関数を書いてください", "Erkläre, was der Code macht.",
    ],
)  # fmt: skip
def test_signs_of_code_are_code(text):
    assert code(text).is_code


@pytest.mark.parametrize(
    "text",
    [
        "", "The digital gitarre of a javanese htmlist", "They import tea and export sugar.", "The vitamin C++x",
        "```plaintext\nDear Sir", "Draw a cat in ASCII art with python", "Write a movie script about a heist.",
        "What is the function of the liver?", "Create a training program for a marathon.", "I like it; so does she.",
        "List the books and authors in JSON format.",
    ],
)  # fmt: skip
def test_words_that_only_look_like_code_are_not(text):
    assert not code(text).is_code


LISTED = {
    "en": "apples pears a red car the long way home", "de": "Äpfel Birnen ein rotes Auto der lange Weg",
    "fr": "des pommes une voiture rouge le chemin", "ru": "яблоки красная машина долгий путь домой",
    "zh": "苹果 红色的车 回家的路", "es": "manzanas un coche rojo el camino largo",
}  # fmt: skip
ENDS = {
    "an item of a list": "{};", "an item in a list of two": "- {} ({});", "a field of a form": "{}: {{{{NAME}}}}",
    "a formula": "\\text{{{}}} + \\frac{{1}}{{2}}", "a formula over lines": "\\boxed{{\n{}\n}}",
    "a place of a picture": "<image1>;",
    "a plural in brackets": "{} item(s);",
    "a number of things": "{}(2)", "a remark": "{}({})", "a function of mathematics": "{}: sin(x)", "a sine": "sin(x)",
}  # fmt: skip


@pytest.mark.parametrize("language", LISTED)
@pytest.mark.parametrize("kind", ENDS)
def test_lines_that_end_like_code_are_prose(kind, language):
    draw = random.Random(f"{kind} {language}")
    words = LISTED[language].split()
    lines = [ENDS[kind].format(*(" ".join(draw.sample(words, 3)) for _ in range(2))) for _ in range(6)]
    assert not code("\n".join(lines)).is_code


STATEMENTS = {
    "C": ["int total = 0;", "total += price(item);", "break;", "char name[20];"],
    "JavaScript": ["let total = 0;", "total += price(item);", "run(total);", "const { a } = b;"],
    "PHP": ["$total = 0;", "echo price($item);", "return $total;", "$x++;"],
    "Python": ["x = foo(3)", "print(x)", "rows.sort(key=len)", "run()", "send('a')", "load_all(rows)"],
    "C of own types": ["Node *head;", "uint8_t size;", "vector<int> rows;", "node_t **next;", "list->size = 0;"],
    "CSS": ["color: red;", "margin-top: 4px;", "font-family: sans-serif;", "a { color: red; }"],
}


@pytest.mark.parametrize("language", STATEMENTS)
def test_two_statements_are_code(language):
    draw = random.Random(language)
    for pair in (draw.sample(STATEMENTS[language], 2) for _ in range(6)):
        assert code("What is wrong here?\n" + "\n".join(pair)).is_code, pair


@pytest.mark.parametrize("unit", ["a=", "f(", "a: ", "{", "}", "x;", "\\a{", "def "])
def test_a_line_of_200_000_characters_takes_less_than_two_seconds(unit):
    start = time.process_time()
    code(unit * (200_000 // len(unit)))
    assert time.process_time() - start < 2


TRAFFIC = "**NETWORK ERROR DUE TO HIGH TRAFFIC. PLEASE REGENERATE OR REFRESH THIS PAGE.**"
SERVICE = [
    (TRAFFIC, ["network_error"]),
    (f"{TRAFFIC}\n\n(error_code: 50004)", ["network_error", "error_code"]),
    ("The upper half shows\n\n(error_code: 50002)\n", ["error_code"]),
    ("$MODERATION$ YOUR INPUT VIOLATES OUR CONTENT MODERATION GUIDELINES.", ["moderation_notice"]),
    ("**RATE LIMIT OF THIS MODEL IS REACHED. PLEASE COME BACK LATER OR USE BATTLE MODE.**", ["rate_limit"]),
    ("YOU HAVE REACHED THE CONVERSATION LENGTH LIMIT. PLEASE CLEAR HISTORY.", ["conversation_limit"]),
    ("THIS SESSION HAS BEEN INACTIVE FOR TOO LONG. PLEASE REFRESH THIS PAGE.", ["inactivity"]),
    ("**API REQUEST ERROR** Reason: Unknown.", ["api_error"]),
    ("$ERROR$", ["api_error"]),
    ("The picture shows a number of▌", ["cursor"]),
    ("One can see <span class='cursor'></span>", ["cursor"]),
]
ORDINARY = [
    "", "The sign in the picture says that error_code 50002 means a timeout.", "Content moderation costs $5.",
    "A network error due to high traffic is written on the page.", "Set the rate limit to ten requests a second.",
]  # fmt: skip


@pytest.mark.parametrize(("text", "kinds"), SERVICE)
def test_service_text_has_its_kinds(text, kinds):
    assert service_text(text).kinds == kinds


@pytest.mark.parametrize("text", ORDINARY)
def test_talk_about_errors_is_no_service_text(text):
    assert service_text(text).kinds == []


WORDS = yaml.safe_load(Path(texts.__file__).with_name("upstream_words.yaml").read_text(encoding="utf-8"))
MODERATION = [
    f"$MODERATION$ YOUR {what} VIOLATES OUR CONTENT MODERATION GUIDELINES." for what in ("INPUT", "TEXT", "IMAGE")
]
ALL = [(kind, word) for kind in ("identity", "errors", "unfinished") for word in WORDS[kind]]


@pytest.mark.parametrize(("kind", "word"), ALL)
def test_every_upstream_word_is_found_in_capitals_inside_other_words(kind, word):
    assert word in getattr(upstream_words(f"x{word.upper()}y"), kind)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The most coherent palmistry.", ["palm", "cohere"]),
        ("bombard the koala at Google", ["koala", "bard", "google"]),
    ],
)
def test_upstream_words_are_found_in_ordinary_words(text, found):
    assert upstream_words(text).identity == found


@pytest.mark.parametrize("text", ["I am phi, reka, internvl, pixtral, grok and llava", ""])
def test_names_of_vision_models_are_no_upstream_words(text):
    assert upstream_words(text).identity == []


@pytest.mark.parametrize("notice", [*MODERATION, "**RATE LIMIT OF THIS MODEL IS REACHED.**\n\n(error_code: 50004)"])
def test_of_all_notices_only_the_one_about_moderated_text_inputs_has_upstream_words(notice):
    assert bool(upstream_words(notice).errors) == notice.startswith("$MODERATION$ YOUR INPUT")


def test_the_version_holds_the_words_version():
    assert texts.UPSTREAM_WORDS_VERSION.endswith(f".{WORDS['version']}")


def reference(drawn):
    """(flat fraction, colours, mean saturation, ink fraction), by numpy and Pillow alone."""
    pil = PIL.Image.fromarray(drawn.rgb)
    scale = min(1, 256 / max(pil.size))
    size = tuple(max(1, round(side * scale)) for side in pil.size)
    small = np.asarray(pil.resize(size, PIL.Image.Resampling.BILINEAR), np.int16).reshape(-1, 3)
    codes = (small >> 4) @ np.array([256, 16, 1])
    paper = np.median(small[codes == np.bincount(codes).argmax()], axis=0)
    away = np.abs(small - paper)
    thumbnail = np.asarray(pil.resize((64, 64), PIL.Image.Resampling.NEAREST), np.int16).reshape(-1, 3)
    return (
        (away.max(axis=1) <= 8).mean(),
        np.unique(thumbnail >> 4, axis=0).shape[0],
        (small.max(axis=1) - small.min(axis=1)).mean() / 255,
        (away.mean(axis=1) > 96).mean(),
    )


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 500), st.integers(1, 300))
def test_layout_is_the_sum_over_the_shrunk_image(seed, width, height):
    drawn = drawn_image(seed, (width, height))
    measured = image_layout(drawn)
    facts = (measured.flat_fraction, measured.colour_count, measured.saturation_mean, measured.ink_fraction)
    assert facts == pytest.approx(reference(drawn), abs=1e-12)
