"""Markdown elements are counted one by one, outside fences; code is recognised by its signs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.signals import Markdown
from tasks.signals.rules.code import code
from tasks.signals.rules.markdown import markdown

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
        "二つの数を足す関数を書いてください",
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
