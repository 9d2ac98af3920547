"""What the benchmark keeps out of a release."""

from datetime import timedelta

import numpy as np
import polars as pl
import pytest

from schemas.benches.bench import BenchItem, HiddenItem
from schemas.items.image import NearImage
from tasks.bench.contamination.alike import AskedPrompts, alike
from tasks.storage.tables import frame_of
from tests.builders import NOON, battle, conversation, decision, gathered_rows, measure_clean, sides, store_with

LONG = "The picture shows a triangle with two equal sides and an angle of forty degrees, how large are the others"
SHORT = "What is this?"
NEAR, FAR = "2" * 32, "3" * 32
ALIKE = {
    "the same prompt": (SHORT, "1" * 32),
    "the same words": ("what is THIS", "1" * 32),
    "the same words on a near picture": ("what is this", NEAR),
    "a prompt with an embedding alike": ("What have we here?", "1" * 32),
    "a long prompt changed a little, on any picture": (LONG.replace("forty", "fifty"), FAR),
}
OTHER = {
    "a short prompt on another picture": (SHORT, FAR),
    "another prompt on the same picture": ("Who drew it?", "1" * 32),
    "a long prompt that says something else": (" ".join(reversed(LONG.split())), FAR),
}


def alike_store(folder, text, image, hidden=False, turned=False):
    """Two benchmark prompts, a chat and a battle with `text` on `image`."""
    drawn = [conversation(name, t, "Yes.", image_ids=["1" * 32]) for name, t in (("short", SHORT), ("long", LONG))]
    later = {"image_ids": [image], "tstamp": NOON + timedelta(hours=1)}
    chat = conversation("chat", text, "A thing.", **later)
    both = sides("vote", text, "A thing.", **later)
    vote = battle(*both)
    items = [*drawn, chat, *both]
    bench = [BenchItem(conversation_id=c.conversation_id, document_id=c.document_id, topic=0) for c in drawn]
    about = {"topic": 0, "first_month": "2024-09", "last_month": "2024-11", "drawn": True}
    a, b = ("1" * 32, NEAR)[::-1] if turned else ("1" * 32, NEAR)
    pair = NearImage(image_a=a, image_b=b, phash_distance=2, pdq_distance=10, grey_correlation=0.99)
    store = store_with(
        folder,
        conversations=items,
        battles=[vote],
        decisions=[decision(each) for each in (*items, vote)],
        near_images=[pair],
        bench=[] if hidden else bench,
        hidden=[HiddenItem(document_id=c.document_id, **about) for c in drawn] if hidden else [],
    )
    same = {"vector": [1.0] + [0.0] * 63}
    alike = {each.prompt_id: same for each in items if each.turns[0].content in (SHORT, "What have we here?")}
    measure_clean(store, items, text_embedding=alike)
    return store


@pytest.mark.parametrize("what", ALIKE)
def test_a_prompt_alike_is_only_in_marked_battles(tmp_path, what):
    rows = gathered_rows(alike_store(tmp_path, *ALIKE[what])).rows
    assert rows["chat"].is_empty()
    assert rows["battle"]["in_bench"].to_list() == [True]
    assert rows["bench"].height == 2


def test_a_near_image_is_near_whichever_of_the_two_was_drawn(tmp_path):
    rows = gathered_rows(alike_store(tmp_path, SHORT, NEAR, turned=True)).rows
    assert rows["chat"].is_empty()


def test_what_is_alike_to_a_reserved_prompt_that_was_not_drawn_may_be_released(tmp_path):
    store = alike_store(tmp_path, SHORT.upper(), "1" * 32, hidden=True)
    store.replace("hidden", store.read("hidden").with_columns(drawn=False))
    chat = gathered_rows(store).rows["chat"]
    assert set(chat["conversation_id"]) == {"chat", "vote", "vote-right"}


def test_without_images_only_the_words_say_that_prompts_are_alike():
    asked = pl.DataFrame(
        {"document_id": ["a", "b"], "prompt_id": ["e" * 32, "f" * 32], "prompt": ["Who are you?", "And you?"]}
    )
    near = pl.DataFrame(schema={"image_a": pl.String, "image_b": pl.String})
    same = {name: np.ones(1, np.float32) for name in ("e" * 32, "f" * 32)}
    for image, found in (("", []), ("1" * 32, ["b"])):
        rows = asked.with_columns(image=pl.lit(image))
        assert (
            alike(AskedPrompts.of(rows[:1]), AskedPrompts.of(rows), near, lambda ids: same, 0.9, 0.5)[
                "document_id"
            ].to_list()
            == found
        )


@pytest.mark.parametrize("what", OTHER)
def test_another_prompt_is_in_chat(tmp_path, what):
    rows = gathered_rows(alike_store(tmp_path, *OTHER[what])).rows
    assert set(rows["chat"]["conversation_id"]) == {"chat", "vote", "vote-right"}
    assert rows["battle"]["in_bench"].to_list() == [False]


@pytest.mark.parametrize("what", ALIKE)
def test_nothing_has_a_hidden_prompt_or_one_alike(tmp_path, what):
    rows = gathered_rows(alike_store(tmp_path, *ALIKE[what], hidden=True)).rows
    assert all(frame.is_empty() for frame in rows.values())


def test_a_reserved_prompt_that_was_not_drawn_is_in_nothing(tmp_path):
    store = alike_store(tmp_path, SHORT, "1" * 32, hidden=True)
    store.replace("hidden", store.read("hidden").with_columns(drawn=False))
    rows = gathered_rows(store).rows
    assert all(frame.is_empty() for frame in rows.values())


def test_a_prompt_in_both_splits_is_hidden(tmp_path):
    store = alike_store(tmp_path, SHORT, "1" * 32)
    document = store.read("bench").filter(conversation_id="short")["document_id"][0]
    about = {"topic": 0, "first_month": "2024-09", "last_month": "2024-11", "drawn": True}
    both = frame_of(HiddenItem, [HiddenItem(document_id=document, **about)])
    store.replace("hidden", store.read("hidden").vstack(both))
    assert gathered_rows(store).rows["bench"]["question_id"].to_list() == ["long"]


@pytest.mark.parametrize("hidden", [False, True], ids=["public", "hidden"])
@pytest.mark.parametrize("what", ALIKE)
def test_a_battle_whose_sides_are_dropped_as_duplicates_is_marked_or_left_out_like_others(tmp_path, what, hidden):
    store = alike_store(tmp_path, *ALIKE[what], hidden=hidden)
    is_side = pl.col("item_id").is_in(["vote", "vote-right"]) & (pl.col("item_kind") == "conversation")
    store.replace("decisions", store.read("decisions").with_columns(keep=pl.col("keep") & ~is_side))
    battles = gathered_rows(store).rows["battle"]
    assert battles["in_bench"].to_list() == ([] if hidden else [True])
