"""What a span held is gone from the text; everything else stays as it was."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.policy.redact import Span, moved, redact_text, values_of

KINDS = ("email", "phone", "url_credentials")


@given(
    text=st.text(alphabet="ab cd.\n", max_size=40),
    cuts=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.sampled_from(KINDS)), max_size=5),
)
def test_exactly_the_characters_of_the_spans_are_replaced(text, cuts):
    spans = [Span(min(a, b), max(a, b), kind) for a, b, kind in cuts if max(a, b) <= len(text) and a != b]
    covered = {place for span in spans for place in range(span.start, span.end)}
    released, gone = redact_text(text, spans, {})
    left = re.sub("<EMAIL>|<PHONE>|<URL_CREDENTIALS>", "", released)
    assert left == "".join(c for place, c in enumerate(text) if place not in covered)
    assert len(gone) == len(re.findall("<[A-Z_]+>", released))


def test_placeholders_say_what_stood_there():
    text = "Mail ana@example.org or call 555 0100."
    spans = [Span(5, 20, "email"), Span(29, 37, "phone")]
    assert redact_text(text, spans, {})[0] == "Mail <EMAIL> or call <PHONE>."


def test_overlapping_spans_leave_nothing_of_either():
    released, gone = redact_text("abcdefgh", [Span(1, 4, "email"), Span(3, 6, "phone")], {})
    assert (released, gone) == ("a<EMAIL>gh", [Span(1, 6, "email")])


@pytest.mark.parametrize(("before", "after"), [(0, 0), (5, 5), (9, 5), (20, 12), (25, 17), (38, 29)])
def test_an_image_stands_between_the_same_words_after_a_redaction(before, after):
    text = "Mail ana@example.org or call 555 0100."
    released, gone = redact_text(text, [Span(5, 20, "email"), Span(29, 37, "phone")], {})
    assert moved(before, gone) == after
    assert released[after:].startswith({0: "Mail", 5: "<EMAIL>", 9: "<EMAIL>", 20: " or", 25: "all"}.get(before, ""))


def test_a_value_is_taken_out_wherever_it_stands_as_a_word():
    values = values_of("I am Ana Lopez", [Span(5, 14, "person")])
    assert redact_text("Ana Lopez? Yes, (Ana Lopez).", [], values)[0] == "<PERSON>? Yes, (<PERSON>)."
    assert redact_text("Juliana Lopezes", [], values)[0] == "Juliana Lopezes"


@pytest.mark.parametrize("short", ["Al", "555"])
def test_a_short_value_is_only_taken_out_where_it_was_found(short):
    assert values_of(short, [Span(0, len(short), "person")]) == {}


def test_a_placeholder_is_not_replaced_again():
    assert redact_text("<PERSON> and PERSON", [], {"PERSON": "person"})[0] == "<PERSON> and <PERSON>"
