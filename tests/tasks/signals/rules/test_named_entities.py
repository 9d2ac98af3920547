"""Names are told by capitals that neither their place nor the layout explains, each counted once."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.signals.rules.named_entities import named_entities

NAMES = st.lists(st.sampled_from(["Paris", "Marie Curie", "NASA", "Apollo 11", "Москва", "O'Brien", "AT&T", "Élysée"]))
WORDS = st.lists(st.sampled_from(["it", "is", "seen", "from", "there", "and", "1", "2024", "5 kg", "I"]), min_size=1)


def count(text):
    return named_entities(text).entities


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", 0),
        ("We see Paris.", 1),
        ("the Eiffel Tower in Paris", 2),
        ("It was NASA that sent Apollo 11 and Apollo 13.", 3),
        ("I think I'm in plan B, and I've seen AT&T.", 1),
        ("he met Dr. Smith and Dr. Bond", 2),
        ("for Jean-Paul and Jean-Luc", 2),
        ("from Paris\nNASA flies", 2),
        ("an iPhone or a McDonald's", 2),
        ("we saw Ivan in Москве and Łódź", 3),
        ("il vit a\u0300 E\u0301vian, pres de Gene\u0300ve", 2),
    ],
)
def test_names_are_runs_of_words_with_a_capital(text, names):
    assert count(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "The cat. A dog! Why? Because: So",
        "Here\nThere\n\nEverywhere, a cat - The cat — The cat",
        "- First\n* Second\n1. Third\n2) Fourth\n• Fifth",
        "| Cell | Other |\n|---|---|\n| More | Less |",
        'it says "Stop" or “Go”',
        "# The Fall Of Rome\n### Other Title",
        "**Color Palette**: warm\n- **Main Subject:** a cat\n  1. **Light And Shade** - soft",
        "```python\nclass Foo(Bar): pass\n```\nuse `Foo Bar` or ```Baz",
        "in 1923, 5 kg of 100W and 3.5 % of $20",
        "$\\Delta x \\Rightarrow \\Omega A B$",
        "STOP the car: I said stop. The ANSWER is the answer. In Step 2 a step.",
        "这是一只猫。東京は日本の首都です。هذا كتاب",
    ],
)
def test_what_its_place_or_layout_explains_is_no_name(text):
    assert count(text) == 0


def test_the_first_word_of_a_sentence_counts_when_its_capitals_go_on():
    assert count("NASA flies. McDonald sings. Marie Curie wins.") == 3


def test_a_name_in_a_script_without_case_counts_only_when_it_is_written_in_another():
    assert count("我喜欢Python编程。") == 1


def test_the_end_of_a_longer_name_is_that_name():
    assert count("by Marie Curie, for Curie was there; Marie Curie's prize") == 1
    assert count("by Marie Curie and by Pierre Curie") == 2


@given(NAMES, WORDS)
def test_every_distinct_name_counts_once(names, words):
    between = f", {' '.join(words)}, "
    assert count(f"so {between.join(f'of {name}' for name in names)} and so on") == len(set(names))


@given(NAMES, st.lists(st.sampled_from(["Foo", "NASA two", "Bar Baz"])))
def test_code_names_nothing(names, coded):
    text = "so " + ", ".join(names)
    assert count(f"{text}\n```\n{' '.join(coded)}\n```\n") == count(text)


@given(st.text(max_size=300))
def test_a_text_without_capitals_names_nothing(text):
    assert count(text.lower()) == 0


PIECES = [
    " ", "\n", "1", "1 ", "A", "A ", "Aa ", "Aa. ", "A.", "A'", "a'", "**", "- **a", "1. **", "# ", "#", "`", "` ",
    "```", "\\", "\\A", "Dr.", "Dr. ", "É", "E\u0301", "我", "我A", "•", " - ", "x'll", "👩‍🚀", "\ud800",
]  # fmt: skip


@pytest.mark.parametrize("piece", PIECES)
def test_a_hundred_thousand_characters_take_less_than_a_second(piece):
    text = piece * (100_000 // len(piece))
    started = time.process_time()
    count(text)
    assert time.process_time() - started < 1
