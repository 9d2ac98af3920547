"""How many battles of one prompt are kept, which ones, and what counts as one prompt."""

from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.policy import HotPromptRule
from tasks.dedup.repeats import hot_battles
from tests.builders import battle, clean_value, conversation, sides

ONE, COPY, OTHER = "1" * 32, "2" * 32, "3" * 32
PROMPTS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([(), (ONE,), (OTHER,)])), max_size=40)


def _battles(shown: list[tuple[str, tuple[str, ...]]]) -> pl.DataFrame:
    rows = [(f"b{n}", prompt, list(images)) for n, (prompt, images) in enumerate(shown)]
    schema = {"battle_id": pl.String, "prompt_id": pl.String, "image_ids": pl.List(pl.String)}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _asked(name: str, words: str, image: str):
    return sides(name, words, f"It is {name}.", image_ids=[image])


POLICY = "name: hot\nrules: []\nduplicates: null\nhot_prompts: {{{}}}\n"


@pytest.mark.parametrize(("images", "dropped"), [("same", 1), ("near", 2), ("ignore", 3)])
def test_the_key_holds_the_image_its_lookalikes_or_the_words_alone(deciding, images, dropped):
    pairs = [_asked(f"b{n}", "What is this?", shown) for n, shown in enumerate([ONE, ONE, COPY, OTHER])]
    alike = {name: clean_value(name, ONE) for name in ("image_hash", "image_embedding")}
    facts = {name: {COPY: value} for name, value in alike.items()}
    deciding.given([side for pair in pairs for side in pair], [battle(*pair) for pair in pairs], facts)
    reasons = deciding.under(POLICY.format(f"images: {images}, copies_max: 1")).reasons()
    gone = [item for item, why in reasons.items() if why == ["hot_prompt"]]
    assert len(gone) == dropped and all(item.startswith("battle:") for item in gone)


def test_the_conversations_of_a_battle_that_is_one_too_many_stay(deciding):
    pairs = [_asked(f"b{n}", "What is this?", ONE) for n in range(3)]
    deciding.given([side for pair in pairs for side in pair], [battle(*pair) for pair in pairs])
    reasons = deciding.under(POLICY.format("copies_max: 1")).reasons()
    assert sum(why == ["hot_prompt"] for why in reasons.values()) == 2
    assert all(why == [] for item, why in reasons.items() if not item.startswith("battle:"))


def test_what_another_rule_drops_takes_no_place(deciding):
    pairs = [_asked(f"b{n}", "What is this?", ONE) for n in range(4)]
    votes = [battle(*pair, anonymous=n > 1) for n, pair in enumerate(pairs)]
    deciding.given([side for pair in pairs for side in pair], votes)
    policy = POLICY.format("copies_max: 2").replace(
        "[]", "[{reason: named, signal: battle.anonymous, over: battle, equals: false}]", 1
    )
    reasons = deciding.under(policy).reasons()
    assert sorted(why for item, why in reasons.items() if item.startswith("battle:")) == [[], [], ["named"], ["named"]]


def test_the_draw_favours_no_end_of_the_log():
    hot = hot_battles(_battles([("a", ())] * 1000), {}, HotPromptRule(copies_max=500))
    early = sum(int(name[1:]) < 500 for name in hot)
    assert 200 < early < 300


def test_a_tag_marks_and_keeps(deciding):
    pairs = [_asked(f"b{n}", "What is this?", ONE) for n in range(3)]
    deciding.given([side for pair in pairs for side in pair], [battle(*pair) for pair in pairs])
    decided = deciding.under(POLICY.format("copies_max: 1, action: tag")).decide()
    marked = [row["tags"] for item, row in decided.items() if item.startswith("battle:")]
    assert sorted(marked) == [[], ["hot_prompt"], ["hot_prompt"]] and all(row["keep"] for row in decided.values())


def test_direct_chats_are_not_counted(deciding):
    chats = [conversation(f"c{n}", "What is this?", f"{n}.", image_ids=[ONE]) for n in range(5)]
    assert not any(deciding.given(chats).under(POLICY.format("copies_max: 1")).reasons().values())


@given(PROMPTS, st.integers(1, 5))
def test_each_prompt_keeps_as_many_as_the_limit_allows(shown, limit):
    battles = _battles(shown)
    hot = hot_battles(battles, {}, HotPromptRule(images="same", copies_max=limit))
    before = Counter(shown)
    after = Counter(each for n, each in enumerate(shown) if f"b{n}" not in hot)
    assert after == {each: min(limit, count) for each, count in before.items()}


@given(PROMPTS, st.floats(0.0, 1.0))
def test_a_quantile_is_the_one_that_upstream_takes_of_the_counts(shown, quantile):
    battles = _battles(shown)
    counts = battles["prompt_id"].value_counts()["count"].to_list()
    hot = hot_battles(battles, {}, HotPromptRule(images="ignore", copies_quantile=quantile))
    limit = max(1, int(np.quantile(counts, quantile))) if counts else 1
    assert len(hot) == sum(max(0, count - limit) for count in counts)


@given(PROMPTS, st.integers(1, 3), st.randoms())
def test_the_draw_does_not_depend_on_the_order_and_more_battles_keep_it(shown, limit, random):
    rule = HotPromptRule(images="ignore", copies_max=limit)
    battles = _battles(shown)
    mixed = battles[random.sample(range(battles.height), battles.height)]
    assert hot_battles(mixed, {}, rule) == hot_battles(battles, {}, rule)
    earlier = set(hot_battles(battles[: battles.height // 2], {}, rule))
    assert earlier <= set(hot_battles(battles, {}, rule))
