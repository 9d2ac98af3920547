"""Searching only texts that hold a pattern's hint finds what searching every text by every pattern finds."""

import os
import re
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.providers.embedded import pii_ids
from tasks.providers.embedded.pii_patterns import PATTERNS, find_patterns, find_patterns_in

BESIDE = Path(__file__).parents[4] / "shared" / "data"
DATA = Path(os.environ.get("CURATE_TEST_DATA", BESIDE))
FILES = ["text-pii/labelled.jsonl", "text-language/chat-prompts-12lang.jsonl", "text-categories/mt-bench.jsonl"]
LOOK_AROUND = re.compile(r"\(\?<?[=!](?:[^()]|\([^()]*\)|\(\?:(?:[^()]|\([^()]*\))*\))*\)")
"""Hypothesis cannot draw what is to stand beside something."""
ALIKE = {"i": "iIİı", "s": "sSſ", "k": "kK\u212a", " ": " \u00a0\u3000\x1c\t", "1": "1٣१１", "-": "- ./"}
"""What patterns take for one another in one place or another, and a linear engine might not."""


def same(texts):
    plain = {text: list(find_patterns(text)) for text in texts}
    return find_patterns_in(pl.Series(texts, dtype=pl.String)) == {
        text: spans for text, spans in plain.items() if spans
    }


@st.composite
def near_a_match(draw, pattern):
    """A text that the form matches, or would, but for what stands beside, or for some characters."""
    form = re.compile(LOOK_AROUND.sub("", pattern.form.pattern), pattern.form.flags)
    found = draw(st.from_regex(form, fullmatch=True, alphabet=st.characters(codec="utf-8")))
    if draw(st.booleans()):
        found = "".join(draw(st.sampled_from(ALIKE.get(letter.lower(), letter))) for letter in found)
    return draw(st.sampled_from(["", " ", "é", "号", "my ssn: "])) + found + draw(st.text(max_size=3))


@pytest.mark.parametrize("number", range(len(PATTERNS)))
def test_every_match_has_its_hint(number):
    kind, form, confidence, hint = PATTERNS[number]

    @settings(max_examples=30, suppress_health_check=list(HealthCheck))
    @given(near_a_match(PATTERNS[number]))
    def holds(text):
        if any(kind != "phone" or confidence(match) is not None for match in form.finditer(text)):
            assert pl.Series([text]).str.contains(hint).item()  # whether or not its checksum is right
        assert same([text])

    holds()


@pytest.mark.parametrize(
    "text",
    ["PASSPORT NO: C01X00T47", "REİSEPASS: C01X00T47", "SOCIAL SECURITY 536904399", "socıal securİty: 536904399",
     "İD NUMBER 8001015009087", "ıtin 912-70-1234", "é \u017fsn 536904399", "my \u017focial security 536904399"],
)  # fmt: skip
def test_a_name_is_found_in_either_case_and_with_every_letter_that_is_taken_for_another(text):
    assert find_patterns_in(pl.Series([text])) == {text: list(find_patterns(text))}
    assert list(find_patterns(text))


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(st.data(), st.from_regex(f"(?i)(?:{pii_ids.NAMES})", fullmatch=True), st.sampled_from(["", " ", "é ", ": "]))
def test_every_name_of_an_identity_number_is_found_in_any_letters(data, name, before):
    told = "".join(data.draw(st.sampled_from(ALIKE.get(letter.lower(), letter))) for letter in name)
    assert same([f"{before}{told}: 8001015009", f"{before}{told.upper()} 8001015009"])


@given(st.lists(st.text(st.sampled_from("aiksdot @.:-/+()[]\n0123456789é护照SG"), max_size=60), max_size=9))
def test_any_texts_have_the_findings_of_the_plain_search(texts):
    assert same(texts)


@pytest.mark.parametrize("name", FILES)
def test_real_texts_have_the_findings_of_the_plain_search(name):
    if not (DATA / name).is_file():
        pytest.skip(f"{name} is not on this machine")
    assert same((DATA / name).read_text(encoding="utf-8").splitlines())
