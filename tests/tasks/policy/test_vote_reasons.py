"""What a voter wrote is screened like a message, and withheld alone: the vote stays."""

import pytest

from tasks.storage.content_id import text_id
from tests.builders import battle, gathered_rows, sides

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


def test_clean_words_are_released_with_their_vote(decided_on, deciding):
    decisions = decided_on(clean())
    assert [(row["keep"], row["vote_reason_withheld"]) for row in decisions.values()] == [(True, []), (True, None)]
    rows = gathered_rows(deciding.store).rows["battle"]
    assert dict(rows.select("question_id", "vote_reason").iter_rows()) == {"b": WORDS, "plain": None}


@pytest.mark.parametrize(
    ("facts", "withheld"),
    [
        (clean(text_pii={"types": ["email"]}), ["pii_text"]),
        (clean(text_pii={"types": ["person"]}), []),
        (clean(moderation={"flagged_categories": ["hate"]}), ["moderation"]),
        ({}, ["unmeasured_text_pii", "unmeasured_moderation", "unmeasured_service_text"]),
    ],
)
def test_words_that_a_rule_about_messages_finds_are_withheld_and_the_vote_stays(decided_on, deciding, facts, withheld):
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
    ("facts", "withheld"),
    [({}, ["unmeasured_code"]), ({"is_code": True}, ["code"]), ({"is_code": False}, [])],
)
def test_rules_about_what_describes_a_message_read_the_words_too(deciding, facts, withheld):
    left, right = sides("b")
    vote = battle(left, right, vote_reason=WORDS, vote_reason_id=text_id(WORDS))
    deciding.given([left, right], [vote], facts=clean() | {"code": {text_id(WORDS): facts} if facts else {}})
    deciding.under(CODE).decide()
    (row,) = deciding.store.read("decisions").filter(item_kind="battle").to_dicts()
    assert (row["keep"], row["vote_reason_withheld"]) == (True, withheld)


def test_words_are_withheld_where_a_policy_redacts_messages(decided_on):
    row = decided_on(clean(text_pii={"types": ["email"]}), policy="redact")["b"]
    assert row["vote_reason_withheld"] == ["pii_text"]


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


def test_explain_says_what_became_of_the_words_and_does_not_quote_them(decided_on, deciding, curate):
    decided_on(clean(text_pii={"types": ["email"]}))
    code, out, _ = curate("explain", "b", "--store", deciding.store.root, "--json")
    assert (code, "a@b.cd" in out, '"email"' in out) == (0, False, True)
    _, out, _ = curate("explain", "b", "--store", deciding.store.root)
    assert "what the voter wrote: withheld by pii_text" in out
