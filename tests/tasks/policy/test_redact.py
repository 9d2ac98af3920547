"""Nothing of a span is left in a redacted text or image, nor of a voter's words that are withheld; the rest stays."""

import io
import re

import numpy as np
import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.images.decode import DecodedImage, open_image
from tasks.images.rebuild import is_pixels_alone
from tasks.policy.redact import JPEG_BLOCK, Findings, fill_boxes, grown, redact_texts, redacted_image
from tasks.policy.redact_text import Placeholders, Span, moved, plain_form, redact_text, values_of
from tasks.storage.content_id import image_id, text_id
from tests.builders import battle, drawn_image, gathered_rows, sides

KINDS = ("email", "phone", "url_credentials")


@given(
    text=st.text(alphabet="ab cd.\n", max_size=40),
    cuts=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.sampled_from(KINDS)), max_size=5),
)
def test_exactly_the_characters_of_the_spans_are_replaced(text, cuts):
    spans = [Span(min(a, b), max(a, b), kind) for a, b, kind in cuts if max(a, b) <= len(text) and a != b]
    covered = {place for span in spans for place in range(span.start, span.end)}
    released, gone = redact_text(text, spans, {}, Placeholders())
    left = re.sub(r"<(?:EMAIL|PHONE|URL_CREDENTIALS)_\d+>", "", released)
    assert left == "".join(c for place, c in enumerate(text) if place not in covered)
    assert len(gone) == len(re.findall(r"<[A-Z_]+_\d+>", released))


def test_spans_that_overlap_are_taken_out_as_one():
    spans = [Span(1, 4, "email"), Span(3, 6, "phone")]
    released, gone = redact_text("abcdefgh", spans, {}, Placeholders())
    assert (released, gone) == ("a<EMAIL_1>gh", [(1, 6, "email", "<EMAIL_1>")])


@pytest.mark.parametrize(
    ("text", "released"),
    [("Ana Lopez? Yes, (Ana Lopez).", "<PERSON_1>? Yes, (<PERSON_1>)."), ("Juliana Lopezes", "Juliana Lopezes")],
)
def test_a_value_is_taken_out_wherever_it_stands_as_whole_words(text, released):
    values = values_of("I am Ana Lopez", [Span(5, 14, "person")])
    assert redact_text(text, [], values, Placeholders())[0] == released


def test_a_placeholder_that_somebody_wrote_is_not_used_for_another_value():
    texts = "<PERSON_7> and PERSON"
    made = redact_text(texts, [], {"PERSON": "person", "PERSON_7": "person"}, Placeholders([texts]))
    assert made[0] == "<PERSON_7> and <PERSON_8>"  # 7 may be another person


@pytest.mark.parametrize(("before", "after"), [(0, 0), (5, 5), (9, 5), (20, 14), (25, 19), (38, 33)])
def test_an_image_stands_between_the_same_words_after_a_redaction(before, after):
    text = "Mail ana@example.org or call 555 0100."
    released, gone = redact_text(text, [Span(5, 20, "email"), Span(29, 37, "phone")], {}, Placeholders())
    assert moved(before, gone) == after
    assert released[after:].startswith(
        {0: "Mail", 5: "<EMAIL_1>", 9: "<EMAIL_1>", 20: " or", 25: "all"}.get(before, "")
    )


@pytest.mark.parametrize("short", ["Al", "555"])
def test_a_short_value_is_only_taken_out_where_it_was_found(short):
    assert values_of(short, [Span(0, len(short), "person")]) == {}


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        ("Ana Lopez", "ANA\u00a0Lopez,", "person"),
        ("+1 202-555-0143", "+1 (202) 555 0143", "phone"),
        ("ana@example.org", "Ana\u200b@Example.org", "email"),
        ("GB82 WEST 1234", "gb82west1234", "iban"),
    ],
)
def test_spellings_of_one_value_have_one_number(one, other, kind):
    placeholders = Placeholders()
    assert placeholders.placeholder(one, kind) == placeholders.placeholder(other, kind)


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        ("1.11.1.1", "11.1.1.1", "ip"),
        ("a.bc@x.org", "ab.c@x.org", "email"),
        ("1 11 Elm St", "11 1 Elm St", "address"),
        ("का", "कि", "person"),
    ],
)
def test_different_values_have_different_numbers(one, other, kind):
    assert plain_form(one, kind) != plain_form(other, kind)


def of_pixels(rgb: np.ndarray, file_format: str) -> DecodedImage:
    return DecodedImage(image_id(rgb), b"", file_format, rgb)


SIDES = st.integers(1, 90)


@settings(max_examples=40)
@given(file_format=st.sampled_from(["png", "jpeg"]), width=SIDES, height=SIDES, seed=st.integers(0, 9), data=st.data())
def test_images_that_differ_only_inside_the_boxes_become_the_same_bytes(file_format, width, height, seed, data):
    corners = st.tuples(st.integers(0, width), st.integers(0, height), SIDES, SIDES)
    boxes = [grown(box, width, height) for box in data.draw(st.lists(corners, min_size=1, max_size=3))]
    draw = np.random.default_rng(seed).integers
    one = draw(0, 256, (height, width, 3), np.uint8)
    other = one.copy()
    for left, top, right, bottom in boxes:
        other[top:bottom, left:right] = draw(0, 256, (bottom - top, right - left, 3), np.uint8)
    released = [fill_boxes(of_pixels(rgb, file_format), boxes) for rgb in (one, other)]
    assert released[0].encoded == released[1].encoded
    assert released[0].image_id == released[1].image_id


@given(
    box=st.tuples(st.integers(-20, 300), st.integers(-20, 300), st.integers(0, 200), st.integers(0, 200)),
    width=st.integers(1, 300),
    height=st.integers(1, 300),
)
def test_a_box_grows_by_its_margin_to_whole_blocks_inside_the_image(box, width, height):
    x, y, wide, high = box
    margin = max(4, round(0.25 * min(wide, high)))
    for low, high_edge, first, length, limit in zip(
        grown(box, width, height)[:2], grown(box, width, height)[2:], (x, y), (wide, high), (width, height), strict=True
    ):
        assert 0 <= low <= limit and 0 <= high_edge <= limit
        assert low <= max(0, first - margin) and high_edge >= min(limit, first + length + margin)
        assert low % JPEG_BLOCK == 0 or low == limit
        assert high_edge % JPEG_BLOCK == 0 or high_edge == limit


@pytest.fixture(params=["PNG", "JPEG"])
def filled(request) -> tuple[DecodedImage, DecodedImage]:
    """An image of each format, and the image that filling a box of it makes."""
    sink = io.BytesIO()
    PIL.Image.fromarray(drawn_image(1, (96, 80)).rgb).save(sink, request.param)
    original = open_image(sink.getvalue())
    assert original.format == request.param.lower()
    return original, fill_boxes(original, [(16, 16, 48, 64)])


def test_a_box_that_is_found_again_is_counted_once():
    hits = {
        "a": [("face", "face", [0, 0, 20, 20])],
        "b": [("face", "face", [0, 0, 20, 20]), ("x", "email", [60, 60, 9, 9])],
    }
    evidence = Findings({"user": {}, "assistant": {}}, hits, {}, {})
    covered = redacted_image("a", (200, 200), evidence, lambda _, boxes: "abc"[len(boxes)])
    assert (covered.image_id, dict(covered.counts)) == ("c", {("face", "face"): 1, ("x", "email"): 1})


@pytest.mark.parametrize("boxes", [[], [("x", "email", [60, 60, 9, 9])]])
def test_a_value_that_was_read_in_an_image_is_told_to_its_messages_also_without_a_box(boxes):
    evidence = Findings({"user": {}, "assistant": {}}, {"a": boxes}, {"a": {"a@b.org": "email"}}, {})
    covered = redacted_image("a", (200, 200), evidence, lambda _, filled_boxes: "ab"[len(filled_boxes)])
    assert covered.values == {"a@b.org": "email"}


@pytest.mark.parametrize("roles", [("user", "assistant"), ("assistant", "user")])
def test_what_two_rules_find_is_counted_under_the_rule_about_its_message(roles):
    text, span = "ask a@b.org or c@d.org", Span(4, 11, "email")
    turns = [{"role": role, "content": text, "images": []} for role in roles]
    messages = {role: {text_id(text): [(f"of_{role}", span)]} for role in roles}
    _, counts = redact_texts(turns, Findings(messages, {}, {}, {}), {}, set())
    assert [dict(of_turn) for of_turn in counts] == [{(f"of_{role}", "email"): 1} for role in roles]


def test_a_value_that_is_repeated_in_another_message_is_counted_under_the_rule_that_found_it():
    turns = [{"role": role, "content": "ask a@b.org", "images": []} for role in ("user", "assistant")]
    messages = {"user": {text_id("ask a@b.org"): [("of_user", Span(4, 11, "email"))]}, "assistant": {}}
    _, counts = redact_texts(turns, Findings(messages, {}, {}, {}), {}, set())
    assert [dict(of_turn) for of_turn in counts] == [{("of_user", "email"): 1}] * 2


def test_a_redacted_image_has_an_id_of_its_own(filled):
    original, made = filled
    assert made.image_id != original.image_id
    assert open_image(made.encoded).image_id == made.image_id


def test_a_redacted_image_has_the_size_of_the_original_in_its_format(filled):
    original, made = filled
    assert (original.width, original.height) == (96, 80)
    assert (made.width, made.height, made.format) == (96, 80, original.format)


def test_a_redacted_image_is_pixels_alone(filled):
    assert is_pixels_alone(filled[1].encoded)


def test_a_redacted_box_is_black(filled):
    assert filled[1].rgb[16:64, 16:48].max() <= 4  # JPEG rounds black


def test_nothing_outside_the_boxes_changes():
    original = drawn_image(2, (64, 64))
    made = fill_boxes(original, [(16, 16, 32, 48)])
    outside = np.ones((64, 64), bool)
    outside[16:48, 16:32] = False
    assert (made.rgb[outside] == original.rgb[outside]).all()


WORDS = "The left one names the street, mail me at a@b.cd"


@pytest.fixture
def decided_on(deciding):
    """Decide on a vote with these words and facts about them; returns its decision."""

    def decide(facts, policy="public_release"):
        left, right = sides("b")
        vote = battle(left, right, vote_reason=WORDS, vote_reason_id=text_id(WORDS))
        plain = sides("plain")
        deciding.policy = policy
        deciding.given([left, right, *plain], battles=[vote, battle(*plain)], facts=facts)
        deciding.decide()
        decisions = deciding.store.read("decisions").filter(item_kind="battle").to_dicts()
        return {row["item_id"]: row for row in decisions}

    return decide


def clean(**changes):
    """Facts of every screening signal of the words; those of `changes` replace them."""
    signals = ("text_pii", "moderation", "service_text", "upstream_words")
    return {name: {text_id(WORDS): changes.get(name, {})} for name in signals}


def test_clean_words_of_a_voter_are_released(decided_on, deciding):
    decisions = decided_on(clean())
    assert [(row["keep"], row["vote_reason_withheld"]) for row in decisions.values()] == [(True, []), (True, None)]
    rows = gathered_rows(deciding.store).rows["battle"]
    assert dict(rows.select("question_id", "vote_reason").iter_rows()) == {"b": WORDS, "plain": None}


def test_words_of_a_voter_are_withheld_where_a_policy_would_redact_a_message(decided_on):
    row = decided_on(clean(text_pii={"types": ["email"]}), policy="redact")["b"]
    assert row["vote_reason_withheld"] == ["pii_text"]


@pytest.mark.parametrize(
    ("facts", "withheld"),
    [
        (clean(text_pii={"types": ["email"]}), ["pii_text"]),
        (clean(text_pii={"types": ["person"]}), []),
        (clean(moderation={"flagged_categories": ["hate"]}), ["moderation"]),
        ({}, ["unmeasured_text_pii", "unmeasured_moderation", "unmeasured_service_text"]),
    ],
)
def test_words_that_a_rule_about_messages_finds_are_withheld_from_a_vote_that_stays(
    decided_on, deciding, facts, withheld
):
    row = decided_on(facts)["b"]
    assert (row["keep"], row["vote_reason_withheld"]) == (True, withheld)
    released = gathered_rows(deciding.store).rows["battle"].filter(question_id="b")["vote_reason"].item()
    assert released == (None if withheld else WORDS)


CODE = """
name: ours
extends: public_release
rules:
  - {reason: code, signal: code.is_code, over: user_messages, equals: true, scope: battle}
"""


@pytest.mark.parametrize(
    ("facts", "withheld"), [({}, ["unmeasured_code"]), ({"is_code": True}, ["code"]), ({"is_code": False}, [])]
)
def test_rules_about_what_describes_a_message_read_the_words_too(deciding, facts, withheld):
    left, right = sides("b")
    vote = battle(left, right, vote_reason=WORDS, vote_reason_id=text_id(WORDS))
    deciding.given([left, right], [vote], facts=clean() | {"code": {text_id(WORDS): facts} if facts else {}})
    deciding.under(CODE).decide()
    (row,) = deciding.store.read("decisions").filter(item_kind="battle").to_dicts()
    assert (row["keep"], row["vote_reason_withheld"]) == (True, withheld)


def test_words_that_repeat_what_is_redacted_in_the_battle_are_withheld(deciding):
    asked, words = "Is Ana Lopez in it?", "The left one knows Ana Lopez"
    left, right = sides("b", asked, "Yes.")
    vote = battle(left, right, vote_reason=words, vote_reason_id=text_id(words))
    name = {"types": ["person"], "spans": [{"type": "person", "start": 3, "end": 12, "confidence": 1.0}]}
    deciding.policy = "redact"
    facts = {"text_pii": {text_id(asked): name, text_id("Is <PERSON_1> in it?"): {}, text_id(words): {}}}
    deciding.given([left, right], battles=[vote], facts=facts).decide()
    (row,) = deciding.store.read("decisions").filter(item_kind="battle").to_dicts()
    assert "pii_text" in row["vote_reason_withheld"]


def test_explain_does_not_quote_words_that_are_withheld(decided_on, deciding, curate):
    decided_on(clean(text_pii={"types": ["email"]}))
    code, out, _ = curate("explain", "b", "--store", deciding.store.root, "--json")
    assert (code, "a@b.cd" in out, '"email"' in out) == (0, False, True)


def test_explain_says_why_words_are_withheld(decided_on, deciding, curate):
    decided_on(clean(text_pii={"types": ["email"]}))
    _, out, _ = curate("explain", "b", "--store", deciding.store.root)
    assert "what the voter wrote: withheld by pii_text" in out
