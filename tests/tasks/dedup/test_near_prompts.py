"""Prompts that are nearly the same are tied to one earlier prompt, and of a hot one few battles are kept."""

import random
from collections import Counter
from datetime import timedelta
from functools import cache

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.items.conversation import Conversation
from schemas.policy import HotPromptRule
from tasks.dedup import near_prompts
from tasks.dedup.near_prompts import CANDIDATE_RECALL_MIN, PERMUTATIONS, _bands, near_texts
from tasks.dedup.repeats import hot_battles
from tasks.storage.content_id import number_of
from tasks.storage.queries.explain import explain_item
from tasks.storage.tables import frame_of
from tests.builders import NOON, battle, clean_value, conversation, sides, store_with

ASKED = "Describe this image in detail."
NEARLY = "describe this image in details"


def _runs(text: str) -> set[str]:
    """What a text with nothing but small letters and single blanks is made of."""
    return {f"  {text}  "[place : place + 5] for place in range(len(text))} if text else set()


def _slowly(texts: list[str], jaccard_min: float) -> list[int]:
    """The most similar earlier representative of each text, by comparing with all of them."""
    sets, representatives, matches = [_runs(text) for text in texts], [], []
    for row, own in enumerate(sets):
        found = [(len(own & sets[r]) / len(own | sets[r]), -r) for r in representatives] if own else []
        near = [(jaccard, r) for jaccard, r in found if jaccard >= jaccard_min - 1e-9]
        matches.append(-max(near)[1] if near else -1)
        if not near and own:
            representatives.append(row)
    return matches


WORDS = st.lists(st.sampled_from(["what", "is", "this", "thing", "a", "image", "of"]), max_size=7).map(" ".join)
LISTS = st.lists(WORDS, max_size=25)
LIMITS = st.sampled_from([0.5, 0.6, 0.7, 0.8, 0.9, 1.0])


@given(texts=LISTS, later=st.lists(WORDS, max_size=10), jaccard_min=LIMITS)
@settings(max_examples=25, deadline=None)
def test_a_prompt_asked_later_changes_no_tie(texts, later, jaccard_min):
    matches, _ = near_texts(pl.Series(texts, dtype=pl.String), jaccard_min)
    more, _ = near_texts(pl.Series(texts + later, dtype=pl.String), jaccard_min)
    assert more[: len(texts)].tolist() == matches.tolist()


@given(texts=LISTS, jaccard_min=LIMITS)
@settings(max_examples=25, deadline=None)
def test_a_text_is_tied_to_an_earlier_one_that_is_tied_to_none(texts, jaccard_min):
    matches, _ = near_texts(pl.Series(texts, dtype=pl.String), jaccard_min)
    for row in np.flatnonzero(matches >= 0):
        assert matches[matches[row]] == -1 and matches[row] < row


@given(texts=LISTS, jaccard_min=LIMITS)
@settings(max_examples=25, deadline=None)
def test_what_is_tied_is_exactly_as_similar_as_it_says(texts, jaccard_min):
    matches, jaccards = near_texts(pl.Series(texts, dtype=pl.String), jaccard_min)
    for row in np.flatnonzero(matches >= 0):
        own, other = _runs(texts[row]), _runs(texts[matches[row]])
        assert (
            jaccards[row] == pytest.approx(len(own & other) / len(own | other)) and jaccards[row] >= jaccard_min - 1e-6
        )


@cache
def _drawn_texts() -> list[str]:
    """Texts of random words, of which every third is another one with some words more."""
    generator = np.random.default_rng(0)
    words = ["".join(map(chr, generator.integers(97, 123, generator.integers(2, 9)))) for _ in range(400)]
    lists = [list(generator.choice(words, generator.integers(3, 60))) for _ in range(300)]
    for row in range(1, 300, 3):
        lists[row] = lists[generator.integers(row)] + list(generator.choice(words, generator.integers(0, 6)))
    return [" ".join(each) for each in lists]


@pytest.mark.parametrize("jaccard_min", [0.5, 0.7, 0.8, 0.95])
def test_nearly_all_that_a_slow_search_finds_is_found(jaccard_min):
    texts = _drawn_texts()
    matches, slow = near_texts(pl.Series(texts), jaccard_min)[0], np.array(_slowly(texts, jaccard_min))
    assert (slow >= 0).sum() > 10
    assert (matches == slow).mean() >= 0.99


@pytest.mark.parametrize("jaccard_min", [0.5, 0.7, 0.8, 0.95])
def test_texts_that_are_compared_in_small_groups_have_the_same_ties(jaccard_min, monkeypatch):
    texts = _drawn_texts()
    matches, _ = near_texts(pl.Series(texts), jaccard_min)
    monkeypatch.setattr(near_prompts, "GROUP_MAX", 1)  # every text with an equal band is compared
    assert near_texts(pl.Series(texts), jaccard_min)[0].tolist() == matches.tolist()


@pytest.mark.parametrize("jaccard_min", [0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
def test_a_pair_at_the_limit_is_a_candidate_with_high_probability(jaccard_min):
    bands = _bands(jaccard_min)
    assert 1 - (1 - jaccard_min ** (PERMUTATIONS // bands)) ** bands >= CANDIDATE_RECALL_MIN
    assert PERMUTATIONS % bands == 0


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
def test_only_words_tell_prompts_apart(other, near):
    matches, _ = near_texts(pl.Series([ASKED, other]), 0.7)
    assert matches.tolist() == [-1, 0 if near else -1]


def test_scripts_without_blanks_are_compared_too():
    matches, _ = near_texts(
        pl.Series(["这张图片里的人在做什么工作呢？", "这张图片里的人在做什么工作", "今天天气怎么样"]), 0.8
    )
    assert matches.tolist() == [-1, 0, -1]


@pytest.mark.parametrize("texts", [["", ""], ["???", "!!!"], ["🙂", "🙂🙂"]])
def test_texts_without_letters_are_near_nothing(texts):
    assert near_texts(pl.Series(texts), 0.8)[0].tolist() == [-1, -1]


def _chat(name: str, minute: int, prompt: str, **changes) -> Conversation:
    image_ids = [f"{minute:032x}"]
    defaults = {"image_ids": image_ids, "tstamp": NOON + timedelta(minutes=minute)}
    return conversation(name, prompt, f"Answer of {name}.", **defaults | changes)


def _tagged(decided: dict) -> list[str]:
    return sorted(item for item, row in decided.items() if "near_prompt" in row["tags"])


@pytest.fixture(scope="module")
def asked_again(new_deciding):
    """A store whose conversation `later` asks nearly what `first` asked, and its decisions. Do not write to it."""
    chats = [_chat("first", 0, ASKED), _chat("later", 1, NEARLY), _chat("other", 2, "Who painted it?")]
    deciding = new_deciding().given(chats)
    return deciding.store, deciding.decide()


def test_only_a_prompt_asked_before_in_nearly_the_same_letters_is_tagged(asked_again):
    assert _tagged(asked_again[1]) == ["later"]


def test_a_prompt_asked_before_in_nearly_the_same_letters_is_kept(asked_again):
    assert asked_again[1]["later"]["keep"]


def test_the_match_of_a_near_prompt_is_named_with_its_similarity(asked_again):
    near = explain_item(asked_again[0], "later")["near_prompt"]
    assert near == {"conversation_b": "first", "jaccard": pytest.approx(27 / 32)}


def test_the_first_of_two_near_prompts_has_no_match(asked_again):
    assert explain_item(asked_again[0], "first")["near_prompt"] is None


def test_the_same_prompt_again_is_not_nearly_the_same(deciding):
    assert _tagged(deciding.given([_chat("a", 0, ASKED), _chat("b", 1, ASKED)]).decide()) == []


def test_later_messages_tell_prompts_apart(deciding):
    one = conversation("one", "What is this?", "A.", "And who made it, and when was that?", "B.")
    other = conversation("other", "What is this?", "A.", "Translate the text on the sign.", "B.")
    assert _tagged(deciding.given([one, other]).decide()) == []


def test_a_conversation_that_is_dropped_stands_for_nobody(deciding):
    chats = [_chat("leak", 0, ASKED), _chat("b", 1, NEARLY), _chat("c", 2, "Describe this image in details!")]
    leak = {chats[0].turns[1].text_id: {"types": ["email"]}}
    decided = deciding.given(chats, facts={"text_pii": leak}).decide()
    assert _tagged(decided) == ["c"]
    assert explain_item(deciding.store, "c")["near_prompt"]["conversation_b"] == "b"


@pytest.mark.parametrize("seed", range(12))
def test_prompts_that_are_asked_of_the_table_are_tied_as_those_in_memory(tmp_path, seed):
    chance = random.Random(seed)
    said = [" ".join(chance.choices(["describe", "this", "image", "in", "detail"], k=9)) for _ in range(4)]
    said += [chance.choice(said)[:-1] for _ in range(8)]
    times = [NOON + timedelta(minutes=minute) for minute in range(20)]
    # The second message of a conversation is the model's, and no part of its prompt.
    chats = [conversation(f"{time:%M}", *chance.sample(said, chance.randint(1, 3)), tstamp=time) for time in times]
    kept = [chat for chat in chats if chance.random() < 0.8]
    first_of = dict[str, Conversation]()
    for chat in kept:
        first_of.setdefault(chat.prompt_id, chat)
    first = [*first_of.values()]
    prompts = ["\n\n".join(turn.content for turn in chat.turns[::2]) for chat in first]
    matches, _ = near_texts(pl.Series(prompts), 0.7)
    match_of = {chat.prompt_id: match for chat, match in zip(first, matches.tolist(), strict=True) if match >= 0}
    right = {chat.conversation_id: first[match_of[chat.prompt_id]] for chat in kept if chat.prompt_id in match_of}
    store = store_with(tmp_path, conversations=chats)
    rows = frame_of(Conversation, kept).with_columns(number_of(pl.col("prompt_id")))
    found = near_prompts.near_prompts(store, rows.sample(fraction=1, shuffle=True, seed=seed), 0.7)
    ties = dict(found.select("conversation_a", "conversation_b").iter_rows())
    assert right and ties == {own: chat.conversation_id for own, chat in right.items()}


NO_NEAR_PROMPTS = "name: mine\nrules: []"


@pytest.mark.parametrize(("jaccard_min", "tags"), [(0.95, []), (0.7, ["asked_before"])])
def test_a_policy_says_how_near_a_prompt_must_be(deciding, jaccard_min, tags):
    deciding.given([_chat("first", 0, ASKED), _chat("later", 1, NEARLY)])
    rule = f"\nnear_prompts: {{reason: asked_before, jaccard_min: {jaccard_min}}}"
    assert deciding.under(NO_NEAR_PROMPTS + rule).decide()["later"]["tags"] == tags


def test_a_policy_without_near_prompts_leaves_none_of_an_earlier_policy(deciding):
    deciding.given([_chat("first", 0, ASKED), _chat("later", 1, NEARLY)])
    deciding.under(f"{NO_NEAR_PROMPTS}\nnear_prompts: {{reason: asked_before, jaccard_min: 0.7}}").decide()
    assert deciding.under(NO_NEAR_PROMPTS).decide()["later"]["tags"] == []
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


def test_a_battle_that_is_one_too_many_may_only_be_marked(deciding):
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
def test_the_draw_does_not_depend_on_the_order_of_battles(shown, limit, random):
    rule = HotPromptRule(images="ignore", copies_max=limit)
    battles = _battles(shown)
    mixed = battles[random.sample(range(battles.height), battles.height)]
    assert hot_battles(mixed, {}, rule) == hot_battles(battles, {}, rule)


@given(PROMPTS, st.integers(1, 3))
def test_a_battle_that_is_one_too_many_stays_so_with_more_battles(shown, limit):
    rule = HotPromptRule(images="ignore", copies_max=limit)
    battles = _battles(shown)
    earlier = set(hot_battles(battles[: battles.height // 2], {}, rule))
    assert earlier <= set(hot_battles(battles, {}, rule))
