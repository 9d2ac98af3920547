"""Texts on which signals are measured: every place that has one, in each form, once, and only what lacks a signal."""

import random
from collections.abc import Iterator
from datetime import date, datetime, timedelta

import polars as pl
import pytest

from schemas.errors import BadInput
from schemas.items.conversation import Conversation, RedactedConversation, ServedAnswer
from schemas.items.decision import Redaction
from schemas.signals import MeasuredOn
from tasks.storage.content_id import text_id
from tasks.storage.queries.signals import lacking_ids
from tasks.storage.queries.texts import ConversationForm, Texts, all_texts, lacking_texts, with_texts
from tasks.storage.tables import Store
from tests.builders import NOON, battle, conversation, decision, facts_frame, sides, store_with

VERSIONS = {"image_text": "1"}
DAYS = [NOON + timedelta(days=number) for number in range(3)]
ROLES = (MeasuredOn.MESSAGES, MeasuredOn.ASSISTANT_MESSAGES, MeasuredOn.PROMPT)
MASKED = Redaction(reason="pii", part="message", place=0, type="email", count=1)
KINDS = (*ROLES, MeasuredOn.IMAGES)


def thought(text: str | None) -> ServedAnswer:
    times = dict.fromkeys(("first_token_seconds", "first_word_seconds", "input_tokens", "output_tokens"))
    return ServedAnswer(turn=1, thinking=text, thinking_id=None if text is None else text_id(text), **times)


def redacted(of: Conversation, policy: str) -> RedactedConversation:
    turns = [
        turn.model_copy(update={"content": f"[{policy}]", "text_id": text_id(f"[{policy}]")})
        if turn.role == "user"
        else turn
        for turn in of.turns
    ]
    asked = "\n\n".join(turn.content for turn in turns if turn.role == "user")
    changes = {"turns": turns, "prompt_id": text_id(asked), "redactions": [], "left_names": [], "policy_hash": policy}
    return RedactedConversation(**of.model_dump() | changes)


def drawn_store(folder, seed: int) -> tuple[Store, dict[Texts, dict[str, str]]]:
    """A store drawn by rule, and the texts that are right for each form, kind and day."""
    drawn = random.Random(seed)
    words = ["", " ", "é", "yes", "yes\n\nno", "no", "'; --", "\x00", "same"]
    right = dict[Texts, dict[str, str]]()

    def expect(form: ConversationForm, kind: MeasuredOn, day: datetime | None, text: str, content_id: str = "") -> None:
        days = [None] if day is None else [None, day.date()]
        for of_day in days:
            right.setdefault(Texts(form, kind, of_day, of_day), {})[content_id or text_id(text)] = text

    def expect_turns(form: ConversationForm, day: datetime, of: Conversation) -> None:
        for turn in of.turns:
            expect(form, MeasuredOn.MESSAGES, day, turn.content)
            if turn.role == "assistant":
                expect(form, MeasuredOn.ASSISTANT_MESSAGES, day, turn.content)
        expect(form, MeasuredOn.PROMPT, day, "\n\n".join(turn.content for turn in of.turns if turn.role == "user"))

    image_texts = {f"i{number}": drawn.choice(words) for number in range(6)}
    conversations, redactions, decisions = [], [], []
    for number in range(20):
        day, thinking = drawn.choice(DAYS), drawn.choice([None, "hm", *words])
        texts = [drawn.choice(words) for _ in range(drawn.randint(1, 4))]
        images = drawn.sample([*image_texts], drawn.randint(0, 2))
        of = conversation(f"c{number}", *texts, tstamp=day, day=day.date(), image_ids=images,
                          served=drawn.choice([None, [], [thought(thinking)]]))  # fmt: skip
        conversations.append(of)
        policies = drawn.sample(["old", "new"], drawn.randint(0, 2))
        redactions += [redacted(of, policy) for policy in policies]
        is_redacted = "new" in policies
        is_kept = drawn.random() < 0.6
        masked = [MASKED] if is_redacted else []
        reasons = [] if is_kept else ["moderation"]
        decisions.append(decision(of, *reasons, redactions=masked, policy_hash="new"))
        expect_turns(ConversationForm.LOGGED, day, of)
        if of.served and thinking is not None:
            expect(ConversationForm.LOGGED, MeasuredOn.MESSAGES, day, thinking)
            expect(ConversationForm.LOGGED, MeasuredOn.ASSISTANT_MESSAGES, day, thinking)
        for image in images:
            expect(ConversationForm.LOGGED, MeasuredOn.IMAGES, day, image_texts[image], image)
            if image_texts[image]:
                expect(ConversationForm.LOGGED, MeasuredOn.MESSAGES, day, image_texts[image])
        if is_kept:
            expect_turns(ConversationForm.KEPT, day, redacted(of, "new") if is_redacted else of)
            for image in images:
                expect(ConversationForm.KEPT, MeasuredOn.IMAGES, day, image_texts[image], image)
    for of in redactions:
        expect_turns(ConversationForm.REDACTED, of.tstamp, of)
        for image in of.image_ids:
            expect(ConversationForm.REDACTED, MeasuredOn.IMAGES, of.tstamp, image_texts[image], image)
    for text in filter(None, image_texts.values()):
        expect(ConversationForm.LOGGED, MeasuredOn.MESSAGES, None, text)
        expect(ConversationForm.REDACTED, MeasuredOn.MESSAGES, None, text)
    votes = []
    for number, day in enumerate(DAYS):
        reason = drawn.choice([None, "better", *words])
        votes.append(battle(*sides(f"b{number}"), tstamp=day, day=day.date(), vote_reason=reason,
                            vote_reason_id=None if reason is None else text_id(reason)))  # fmt: skip
        if reason is not None:
            expect(ConversationForm.LOGGED, MeasuredOn.MESSAGES, day, reason)
            expect(ConversationForm.KEPT, MeasuredOn.MESSAGES, day, reason)
    store = store_with(folder, conversations=conversations, redacted_conversations=redactions, decisions=decisions,
                       battles=votes)  # fmt: skip
    store.append(
        "signals/image_text", facts_frame("image_text", {i: {"text": text} for i, text in image_texts.items()})
    )
    store.append("signals/image_text", facts_frame("image_text", {"i0": {"text": "of another version"}}, "0"))
    return store, right


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("form", ConversationForm)
def test_the_texts_of_each_form_kind_and_day_are_those_that_the_rule_of_the_store_says(tmp_path, form, seed):
    store, right = drawn_store(tmp_path, seed)
    for kind in KINDS:
        for day in (None, DAYS[seed].date(), date(1999, 1, 1)):
            texts = Texts(form, kind, day, day)
            assert all_texts(store, texts, VERSIONS) == right.get(texts, {}), texts


def test_no_text_of_an_image_is_meant_where_no_version_is_in_use(tmp_path):
    store, _ = drawn_store(tmp_path, 0)
    assert all_texts(store, Texts(ConversationForm.LOGGED, MeasuredOn.IMAGES), {}) == {}


@pytest.mark.parametrize(("end", "places"), [("since", (1, 2)), ("until", (0, 1))])
def test_a_window_with_one_end_is_open_at_the_other(tmp_path, end, places):
    store, right = drawn_store(tmp_path, 1)
    days = [each.date() for each in DAYS]
    of_days = [right[Texts(ConversationForm.LOGGED, MeasuredOn.PROMPT, day, day)] for day in days]
    window = Texts(ConversationForm.LOGGED, MeasuredOn.PROMPT, **{end: days[1]})
    assert all_texts(store, window, VERSIONS) == of_days[places[0]] | of_days[places[1]]


def test_a_lost_redaction_that_a_decision_names_is_one_line(tmp_path):
    masked = [MASKED]
    of = conversation("c")
    store = store_with(tmp_path, conversations=[of], decisions=[decision(of, redactions=masked)])
    with pytest.raises(BadInput, match="run `curate decide` again"):
        list(lacking_texts(store, Texts(ConversationForm.KEPT, MeasuredOn.PROMPT), {"language": "1"}, VERSIONS))


def ids_lacking(frames: Iterator[pl.DataFrame]) -> dict[str, str]:
    return dict(row for frame in frames for row in frame.iter_rows())


IDS = {"wanted": pl.DataFrame({"content_id": ["a", "c", "b", "c", None, "d"]})}
WANTED = "SELECT content_id FROM wanted"


@pytest.fixture
def measured(tmp_path) -> Store:
    """code: a and b in version 1, c in version 0; tokens: b and d."""
    store = store_with(tmp_path)
    for signal, content_ids, version in (("code", "ab", "1"), ("code", "c", "0"), ("tokens", "bd", "1")):
        store.append(f"signals/{signal}", facts_frame(signal, {each: {} for each in content_ids}, version))
    return store


def test_only_what_has_no_value_of_this_version_lacks_a_signal(measured):
    found = ids_lacking(lacking_ids(measured, {"code": "1", "tokens": "1"}, WANTED, IDS))
    assert found == {"a": "tokens", "c": "code,tokens", "d": "code"}


@pytest.mark.parametrize("at_once", [1, 2, 3, 4])
def test_what_lacks_a_signal_is_the_same_however_many_ids_are_given_at_once(measured, at_once):
    frames = lacking_ids(measured, {"code": "1", "tokens": "1"}, WANTED, IDS, at_once)
    assert ids_lacking(frames) == {"a": "tokens", "c": "code,tokens", "d": "code"}


@pytest.mark.parametrize("at_once", [1, 2, 3, 4])
def test_no_more_ids_are_given_at_once_than_asked_for(measured, at_once):
    frames = lacking_ids(measured, {"code": "1", "tokens": "1"}, WANTED, IDS, at_once)
    assert max(frame.height for frame in frames) <= at_once


def test_nothing_lacks_none_of_no_signals(measured):
    assert [*lacking_ids(measured, {}, WANTED, IDS)] == []


def test_a_text_that_many_said_is_given_once_beside_the_other_columns_of_its_row(tmp_path):
    store = store_with(tmp_path, conversations=[conversation(f"c{n}", "hello", "world") for n in range(5_000)])
    ids = {"w": text_id("world"), "h": text_id("hello"), "u": text_id("unsaid")}
    wanted = pl.DataFrame({"content_id": [*ids.values()], "why": [*ids]})
    rows = pl.concat(with_texts(store, wanted, MeasuredOn.ASSISTANT_MESSAGES, VERSIONS))
    assert sorted(rows.iter_rows()) == sorted([(ids["w"], "w", "world"), (ids["h"], "h", "hello")])


def test_texts_come_in_the_same_order_each_time(tmp_path):
    texts = [f"text {number}" for number in range(20_000)]
    store = store_with(tmp_path, conversations=[conversation(f"c{n}", text, "yes") for n, text in enumerate(texts)])
    wanted = pl.DataFrame({"content_id": [*map(text_id, texts)]})
    orders = [pl.concat(with_texts(store, wanted, MeasuredOn.MESSAGES, VERSIONS)) for _ in range(3)]
    assert orders[0].equals(orders[1]) and orders[0].equals(orders[2])
