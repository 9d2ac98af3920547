"""Prompts that are nearly the same are tagged, and tied to one earlier prompt: exactly those a slow search finds."""

from datetime import timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.conversation import Conversation
from tasks.decide.near_prompts import near_texts
from tasks.lookup.explain import explain_item
from tests.builders import NOON, conversation

ASKED = "Describe this image in detail."
NEARLY = "describe this image in details"


def _runs(text: str) -> set[str]:
    """What a text with nothing but small letters and single blanks is made of."""
    return {f"  {text}  "[place : place + 5] for place in range(len(text))} if text else set()


def _slowly(texts: list[str], jaccard_min: float) -> list[int]:
    """The most similar earlier representative of each text, by comparing with all of them."""
    sets, representatives, twins = [_runs(text) for text in texts], [], []
    for row, own in enumerate(sets):
        found = [(len(own & sets[r]) / len(own | sets[r]), -r) for r in representatives] if own else []
        near = [(jaccard, r) for jaccard, r in found if jaccard >= jaccard_min - 1e-9]
        twins.append(-max(near)[1] if near else -1)
        if not near and own:
            representatives.append(row)
    return twins


WORDS = st.lists(st.sampled_from(["what", "is", "this", "thing", "a", "picture", "of"]), max_size=7).map(" ".join)


@given(texts=st.lists(WORDS, max_size=25), jaccard_min=st.sampled_from([0.5, 0.6, 0.7, 0.8, 0.9, 1.0]))
@settings(max_examples=150)
def test_exactly_what_a_slow_search_finds_is_found(texts, jaccard_min):
    twins, jaccards = near_texts(pl.Series(texts, dtype=pl.String), jaccard_min)
    assert twins.tolist() == _slowly(texts, jaccard_min)
    assert ((jaccards >= jaccard_min - 1e-6) == (twins >= 0)).all()


@given(texts=st.lists(WORDS, max_size=25), later=st.lists(WORDS, max_size=10), jaccard_min=st.sampled_from([0.5, 0.7]))
@settings(max_examples=60, deadline=None)
def test_groups_are_stars_and_prompts_asked_later_change_nothing(texts, later, jaccard_min):
    twins, jaccards = near_texts(pl.Series(texts, dtype=pl.String), jaccard_min)
    tied = np.flatnonzero(twins >= 0)
    assert (twins[twins[tied]] == -1).all()
    assert (twins[tied] < tied).all()
    assert (jaccards[tied] >= jaccard_min - 1e-6).all()
    more, _ = near_texts(pl.Series(texts + later, dtype=pl.String), jaccard_min)
    assert more[: len(texts)].tolist() == twins.tolist()


def test_many_long_texts_are_searched_as_exactly(monkeypatch):
    monkeypatch.setattr("tasks.decide.near_prompts.TEXTS_AT_ONCE", 64)
    generator = np.random.default_rng(0)
    words = ["".join(map(chr, generator.integers(97, 123, generator.integers(2, 9)))) for _ in range(400)]
    lists = [list(generator.choice(words, generator.integers(3, 60))) for _ in range(300)]
    for row in range(1, 300, 3):
        lists[row] = lists[generator.integers(row)] + list(generator.choice(words, generator.integers(0, 6)))
    texts = [" ".join(each) for each in lists]
    twins, _ = near_texts(pl.Series(texts), 0.8)
    assert twins.tolist() == _slowly(texts, 0.8)
    assert (twins >= 0).sum() > 30


@pytest.mark.parametrize(
    ("other", "near"),
    [
        (NEARLY, True),
        ("DESCRIBE  THIS IMAGE\nIN DETAIL!!!", True),
        ("Ｄescribe this image in detail", True),  # a full-width letter
        ("Describe this imagge in detail.", True),
        ("Describe this painting.", False),
        ("What is this?", False),
    ],
)
def test_case_blanks_punctuation_and_a_typo_do_not_matter(other, near):
    twins, _ = near_texts(pl.Series([ASKED, other]), 0.7)
    assert twins.tolist() == [-1, 0 if near else -1]


def test_scripts_without_blanks_are_compared_too():
    twins, _ = near_texts(
        pl.Series(["这张图片里的人在做什么工作呢？", "这张图片里的人在做什么工作", "今天天气怎么样"]), 0.8
    )
    assert twins.tolist() == [-1, 0, -1]


@pytest.mark.parametrize("texts", [["", ""], ["???", "!!!"], ["🙂", "🙂🙂"]])
def test_texts_without_letters_are_near_nothing(texts):
    assert near_texts(pl.Series(texts), 0.8)[0].tolist() == [-1, -1]


def _chat(name: str, minute: int, prompt: str, **changes) -> Conversation:
    image_ids = [f"{minute:032x}"]
    defaults = {"image_ids": image_ids, "tstamp": NOON + timedelta(minutes=minute)}
    return conversation(name, prompt, f"Answer of {name}.", **defaults | changes)


def _tagged(decided: dict) -> list[str]:
    return sorted(item for item, row in decided.items() if "near_prompt" in row["tags"])


def test_a_prompt_asked_before_in_nearly_the_same_letters_is_tagged_and_its_twin_is_named(deciding):
    chats = [_chat("first", 0, ASKED), _chat("later", 1, NEARLY), _chat("other", 2, "Who painted it?")]
    decided = deciding.given(chats).decide()
    assert _tagged(decided) == ["later"]
    assert decided["later"]["keep"]
    near = explain_item(deciding.store, "later")["near_prompt"]
    assert near == {"conversation_b": "first", "jaccard": pytest.approx(27 / 32)}
    assert explain_item(deciding.store, "first")["near_prompt"] is None


def test_the_same_prompt_again_is_not_nearly_the_same(deciding):
    assert _tagged(deciding.given([_chat("a", 0, ASKED), _chat("b", 1, ASKED)]).decide()) == []


def test_a_conversation_that_is_dropped_stands_for_nobody(deciding):
    chats = [_chat("leak", 0, ASKED), _chat("b", 1, NEARLY), _chat("c", 2, "Describe this image in details!")]
    leak = {chats[0].turns[1].text_id: {"types": ["email"]}}
    decided = deciding.given(chats, facts={"text_pii": leak}).decide()
    assert _tagged(decided) == ["c"]
    assert explain_item(deciding.store, "c")["near_prompt"]["conversation_b"] == "b"


def test_what_the_user_said_later_counts(deciding):
    one = conversation("one", "What is this?", "A.", "And who made it, and when was that?", "B.")
    other = conversation("other", "What is this?", "A.", "Translate the text on the sign.", "B.")
    assert _tagged(deciding.given([one, other]).decide()) == []


def test_a_policy_says_how_near_and_whether_at_all(deciding):
    deciding.given([_chat("first", 0, ASKED), _chat("later", 1, NEARLY)])
    rule = "name: mine\nrules: []\nnear_prompts: {{reason: asked_before, jaccard_min: {}}}"
    assert deciding.under(rule.format(0.95)).decide()["later"]["tags"] == []
    assert deciding.under(rule.format(0.7)).decide()["later"]["tags"] == ["asked_before"]
    assert deciding.under("name: mine\nrules: []").decide()["later"]["tags"] == []
    assert deciding.store.read("near_prompts").is_empty()


@pytest.mark.parametrize("seed", range(2))
def test_the_order_of_rows_decides_nothing(deciding, shuffled, seed):
    prompts = [ASKED, NEARLY, "describe this image in some details", "Describe an image in detail"]
    chats = [_chat(f"c{n}", n % 5, prompts[n % 4]) for n in range(12)]
    first = deciding.given(chats).decide()
    near = deciding.store.read("near_prompts")
    shuffled(deciding.store, "conversations", seed)
    assert deciding.decide() == first
    assert deciding.store.read("near_prompts").equals(near)
    assert near.height >= 3
