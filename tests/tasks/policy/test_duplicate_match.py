"""The conversation that a repeat matches is named with what the two have in common: images and prompt."""

from datetime import timedelta

import numpy as np

from schemas.conversation import Conversation
from tasks.storage.queries.explain import explain_item
from tests.builders import NOON, conversation

A, B, C = "a" * 32, "b" * 32, "c" * 32
SAME = {"pdq": "0" * 64, "grey": "00" * 1024}
BITS = {A: 0, B: 8, C: 16}
"""Bits set in each DCT hash: A and C are both near B, and not near each other."""
HASHES = {"image_hash": {name: {"phash": f"{(1 << count) - 1:016x}", **SAME} for name, count in BITS.items()}}


def _chat(name: str, minute: int, image_id: str, prompt: str = "What is this?") -> Conversation:
    changes = {"image_ids": [image_id], "tstamp": NOON + timedelta(minutes=minute), "line": minute + 1}
    return conversation(name, prompt, f"Answer of {name}.", **changes)


def _match(deciding, name: str) -> dict | None:
    return explain_item(deciding.store, name)["twin"]


def test_the_same_prompt_on_the_same_image(deciding):
    deciding.given([_chat("first", 0, A), _chat("again", 1, A)], facts=HASHES).decide()
    assert _match(deciding, "first") is None
    assert _match(deciding, "again") == {
        "conversation": "first",
        "source": "2024-09-18-conv.json:1",
        "images": [{"image": A, "twin": A, "relation": "exact"}],
        "same_prompt": True,
        "prompt_cosine": 1.0,
    }


def test_another_wording_on_a_copy_of_the_image(deciding):
    chats = [_chat("first", 0, A), _chat("again", 1, B, "What's this?")]
    vectors = {chats[0].prompt_id: {"vector": [1.0, 0.0]}, chats[1].prompt_id: {"vector": [0.95, np.sqrt(1 - 0.95**2)]}}
    deciding.given(chats, facts=HASHES | {"text_embedding": vectors}).decide()
    twin = _match(deciding, "again")
    assert (twin["conversation"], twin["same_prompt"], twin["prompt_cosine"]) == ("first", False, 0.95)
    (images,) = twin["images"]
    assert (images["relation"], images["phash_distance"], images["pdq_distance"]) == ("perceptual", 8, 0)


def test_two_images_that_a_third_stands_for(deciding):
    """B was seen first and stands for A and C, which are not near each other."""
    other = "Who took this photograph, and of whom?"
    chats = [_chat("b", 0, B, other), _chat("a", 1, A), _chat("c", 2, C)]
    deciding.given(chats, facts=HASHES).decide()
    twin = _match(deciding, "c")
    assert twin["conversation"] == "a"
    assert twin["images"] == [{"image": C, "twin": A, "relation": "through", "both_like": [B]}]


def test_a_prompt_whose_embedding_is_gone_has_no_cosine(deciding):
    chats = [_chat("first", 0, A), _chat("again", 1, B, "What's this?")]
    near = {chat.prompt_id: {"vector": [1.0, 0.0]} for chat in chats}
    deciding.given(chats, facts=HASHES | {"text_embedding": near}).decide()
    deciding.store.replace("signals/text_embedding", deciding.store.empty("signals/text_embedding"))
    assert _match(deciding, "again")["prompt_cosine"] is None
