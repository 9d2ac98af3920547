"""Which prompts may be drawn: filters one by one, repeats, one user's share, and how hard they are."""

import math
from datetime import timedelta

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import BadInput
from schemas.items.topic import TopicMember
from schemas.settings import BenchSettings, Settings
from schemas.tables import SIGNALS
from tasks.bench.draw import draw
from tasks.bench.pool import capped, first_of_alike
from tasks.bench.steps import draw_bench
from tests.builders import NOON, VERSIONS, conversation, decision, measure_clean, store_with


def _store(folder, items, presets=()):
    decisions = [decision(i, preset_dataset="newyorker" if i.conversation_id in presets else None) for i in items]
    topics = {
        i.document_id: TopicMember(document_id=i.document_id, topic=0, probability=1, name="t", x=0, y=0) for i in items
    }
    store = store_with(folder, conversations=items, decisions=decisions, topics=topics.values())
    measure_clean(store, items)
    return store


def _asked(name, text, number=0, image="1", **changes):
    about = {"image_ids": [image * 32], "tstamp": NOON + timedelta(seconds=number), "user_id": None}
    return conversation(name, text, "Yes.", **about | changes)


def _draw(store, **bench):
    settings = Settings(store=store.root, bench=BenchSettings(**{"size": 50, "hidden_size": 0} | bench))
    return draw_bench.fn(settings, VERSIONS).counts, set(store.read("bench")["conversation_id"])


def test_the_report_says_what_every_filter_left(tmp_path):
    items = [_asked(f"c{n}", f"Prompt {n}?", n, image=f"{n}") for n in range(6)]
    items += [_asked("text", "Only text?", 6, image_ids=[]), _asked("preset", "Funny?", 7, image="a")]
    items += [conversation("two", "One?", "Yes.", "Two?", "No.", image_ids=["b" * 32], user_id=None)]
    counts, drawn = _draw(_store(tmp_path, items, presets={"preset"}))
    assert drawn == {f"c{n}" for n in range(6)}
    steps = ["kept", "single_turn", "with_image", "no_preset", "language_en", "in_a_topic", "no_repeat", "not_reserved"]
    assert [counts[step] for step in [*steps, "per_user_max", "drawn"]] == [9, 8, 7, 6, 6, 6, 6, 6, 6, 6]
    assert (counts["asked"], counts["short"]) == (50, 44)


@pytest.mark.parametrize(
    ("bench", "name"),
    [({"single_turn": False}, "two"), ({"needs_image": False}, "text"), ({"presets": True}, "preset")],
)
def test_every_filter_is_a_setting(tmp_path, bench, name):
    items = [_asked("text", "Only text?", image_ids=[]), _asked("preset", "Funny?", 1, image="a")]
    items += [conversation("two", "One?", "Yes.", "Two?", "No.", image_ids=["b" * 32], user_id=None)]
    assert _draw(_store(tmp_path, items, presets={"preset"}), **bench)[1] == {name}


def test_a_prompt_that_repeats_an_earlier_one_is_not_drawn(tmp_path):
    long = "In the triangle shown here two sides are equal and one angle has forty degrees, find the others"
    items = [
        _asked("first", "What is this?"),
        _asked("words", "WHAT is this", 1),
        _asked("long", long, 2, image="2"),
        _asked("longer", f"Please tell me. {long}", 3, image="3"),
        _asked("other", "What is this?", 4, image="4"),
    ]
    store = _store(tmp_path, items)
    assert _draw(store)[1] == {"first", "long", "other"}
    assert _draw(store, repeats=True)[1] == {"first", "words", "long", "longer", "other"}


def test_what_is_alike_to_a_repeat_alone_stays():
    prompts = pl.DataFrame({"document_id": ["a", "b", "c"]})
    pairs = pl.DataFrame({"document_id": ["b", "c"], "other_id": ["a", "b"]})
    assert first_of_alike(prompts, pairs)["document_id"].to_list() == ["a", "c"]


@given(st.lists(st.tuples(st.sampled_from(["u", "v", None]), st.integers(0, 3)), max_size=30), st.integers(1, 5))
def test_no_user_has_more_than_the_cap_and_no_prompt_is_lost_to_it_needlessly(rows, cap):
    prompts = pl.DataFrame(
        [(f"d{n}", user, topic) for n, (user, topic) in enumerate(rows)],
        schema={"document_id": pl.String, "user_id": pl.String, "topic": pl.Int32},
        orient="row",
    )
    left = capped(prompts, cap, seed=0)
    for user in ("u", "v"):
        assert left.filter(user_id=user).height == min(cap, prompts.filter(user_id=user).height)
    assert left["user_id"].null_count() == prompts["user_id"].null_count()


def test_a_capped_user_keeps_the_prompts_of_the_smallest_topics():
    prompts = pl.DataFrame({"document_id": list("abcd"), "user_id": ["u"] * 4, "topic": [0, 0, 0, 1]})
    assert "d" in capped(prompts, 1, seed=3)["document_id"]


def test_the_cap_holds_and_n_is_still_exact_where_it_can_be(tmp_path):
    items = [_asked(f"c{n:02}", f"Prompt {n}?", n, user_id=f"{n % 4}") for n in range(40)]
    store = _store(tmp_path, items)
    counts, drawn = _draw(store, size=8, per_user_max=2)
    assert len(drawn) == 8 and "short" not in counts
    counts, drawn = _draw(store, size=9, per_user_max=2)
    assert len(drawn) == 8 and counts["short"] == 1


def test_a_document_of_three_times_the_weight_comes_first_three_times_as_often():
    firsts = sum(draw({0: ["plain", "hard"]}, 1, seed, {"hard": 3.0})[0] == ["hard"] for seed in range(4000))
    assert abs(firsts / 4000 - 0.75) < 4 * math.sqrt(0.75 * 0.25 / 4000)


def test_harder_prompts_are_preferred_within_their_topic(tmp_path):
    items = [_asked(f"c{n:02}", f"Prompt {n}?", n) for n in range(40)]
    store = _store(tmp_path, items)
    hard = {item.document_id: dict.fromkeys(SIGNALS["criteria"].model_fields, True) for item in items[:20]}
    measure_clean(store, items, criteria=hard)
    names = {item.conversation_id for item in items[:20]}
    plain, weighted = (_draw(store, size=20, quality_weight=weight)[1] for weight in (0.0, 5.0))
    assert len(weighted & names) == 20 > len(plain & names)


def test_quality_cannot_be_asked_for_where_nobody_measured_it(tmp_path):
    item = _asked("c", "Prompt?")
    store = _store(tmp_path, [item])
    measure_clean(store, [item], criteria={item.document_id: None})
    with pytest.raises(BadInput, match="no prompt has the signal 'criteria'"):
        _draw(store, quality_weight=1.0)
