"""Texts that hold a prompt are found: equal, equal but for case and punctuation, or by most of their runs of words."""

import math

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.bench.contamination.prompt_index import (
    DISTINCTIVE_WORDS,
    RUN_WORDS,
    PromptIndex,
    joined_words,
    words_of_each,
)

LONG = "The picture shows a triangle with two equal sides and an angle of forty degrees; how large are the others?"
TEXTS = st.lists(st.lists(st.sampled_from("abc"), max_size=20).map(" ".join), max_size=8)


def _found(prompts, texts, overlap_min=0.5):
    rows = PromptIndex(pl.Series(prompts, dtype=pl.String), overlap_min).find(pl.Series(texts, dtype=pl.String))
    return {(row, prompt): (match, round(overlap, 3)) for row, prompt, match, overlap in rows.iter_rows()}


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (LONG, "exact"),
        (LONG.upper(), "normalised"),
        ("  " + LONG.replace(" ", "\n") + "!", "normalised"),
        ("Please answer: " + LONG + " Explain every step you take.", "near"),
        (LONG.replace("forty", "fifty"), "near"),
        (" ".join(LONG.split()[:16]), "near"),
    ],
)
def test_a_prompt_is_found_in_a_text_that_says_the_same(text, match):
    assert _found([LONG], [text])[0, 0][0] == match


@pytest.mark.parametrize("text", ["", "?!", "The picture shows a triangle", " ".join(reversed(LONG.split()))])
def test_a_prompt_is_not_found_in_a_text_that_says_something_else(text):
    assert _found([LONG], [text]) == {}


def test_a_short_prompt_is_found_by_equal_words_only():
    short = "What is in this picture?"
    assert _found([short], ["what is in this picture", f"{short} {LONG}"]) == {(0, 0): ("normalised", 1.0)}


def test_a_prompt_without_words_is_found_as_it_stands_only():
    assert _found(["???", "!"], ["???", "…", ""]) == {(0, 0): ("exact", 1.0)}


def test_scripts_without_blanks_have_a_word_a_character():
    assert words_of_each(pl.Series(["三角形 ABC 的面积"])).to_list() == [["三", "角", "形", "abc", "的", "面", "积"]]
    prompt = "图中三角形两条边相等请问另外两个角各是多少度"
    assert _found([prompt], [prompt[2:]])[0, 0][0] == "near"


def test_compatible_forms_are_the_same_word():
    assert joined_words(pl.Series(["ﬁne Ｗide"])).to_list() == ["fine wide"]


@settings(max_examples=50)
@given(TEXTS, TEXTS, st.sampled_from([0.3, 0.5, 0.8, 1.0]))
def test_the_index_finds_what_comparing_everything_finds(prompts, texts, overlap_min):
    expected = {}
    for row, text in enumerate(texts):
        for number, prompt in enumerate(prompts):
            mine, theirs = _runs(prompt), _runs(text)
            shared = len(mine & theirs)
            if text == prompt:
                expected[row, number] = ("exact", 1.0)
            elif text.split() == prompt.split() != []:
                expected[row, number] = ("normalised", 1.0)
            elif mine and shared >= math.ceil(overlap_min * len(mine)):
                expected[row, number] = ("near", round(shared / len(mine), 3))
    assert _found(prompts, texts, overlap_min) == expected


@settings(max_examples=50)
@given(TEXTS, TEXTS, st.sampled_from([1, 20, 10_000]))
def test_however_many_texts_are_looked_at_together_the_same_are_found(prompts, texts, piece_bytes):
    prompts, texts = (pl.Series(some, dtype=pl.String) for some in (prompts, texts))
    index = PromptIndex(prompts, 0.5)
    alone = [index.find(texts[row : row + 1]).with_columns(pl.col("row") + row) for row in range(len(texts))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tasks.bench.contamination.prompt_index.PIECE_BYTES", piece_bytes)
        assert index.find(texts).equals(pl.concat([index.find(texts[:0]), *alone]))
        assert joined_words(texts).to_list() == [" ".join(said) for said in words_of_each(texts)]


def _runs(text):
    said = text.split()
    if len(said) < DISTINCTIVE_WORDS:
        return set()
    return {tuple(said[start : start + RUN_WORDS]) for start in range(len(said) - RUN_WORDS + 1)}
