"""What is stored about items is that of the tables: the last values of signals, sides, repeated ones, pairs, texts."""

import random
from datetime import timedelta
from itertools import pairwise
from typing import NamedTuple

import polars as pl
import pytest

from schemas.items.conversation import Battle, Conversation
from schemas.items.decision import Decision, NearPrompt
from schemas.items.image import NearImage
from schemas.items.reject import Reject
from tasks.storage.queries.explain import conversation_account, explain_item, removal_reasons
from tasks.storage.queries.signals import latest_query, latest_values
from tasks.storage.queries.stored_items import StoredItems
from tasks.storage.tables import Store, frame_of
from tests.builders import NOON, battle, conversation, decision, facts_frame, sides, store_with

IDS = [f"{number:032x}" for number in range(12)]


def with_drawn_values(store: Store, signal: str, column: str, values: list, draw: random.Random) -> pl.DataFrame:
    """Values of several versions and times in several parts, with ties; returns the rows in stored order."""
    for _ in range(draw.randint(1, 4)):
        frames = []
        for content_id in draw.sample(IDS, draw.randint(1, len(IDS))):
            for version in draw.sample("123", draw.randint(1, 2)):
                frame = facts_frame(signal, {content_id: {column: draw.choice(values)}}, version)
                frames.append(frame.with_columns(measured_at=pl.lit(NOON + timedelta(minutes=draw.randint(0, 2)))))
        store.append(f"signals/{signal}", pl.concat(frames).cast(store.empty(f"signals/{signal}").schema))
    return store.read(f"signals/{signal}")


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    ("signal", "column", "values"), [("language", "language", ["en", "de", "fr"]), ("faces", "faces", [[], None])]
)
def test_the_value_that_was_measured_last_counts_or_of_equal_times_the_one_stored_last(
    tmp_path, signal, column, values, seed
):
    draw = random.Random(seed)
    box = {"box": [1, 2, 3, 4], "confidence": 0.5}
    store = Store.open(str(tmp_path / "store"))
    rows = with_drawn_values(store, signal, column, [[box] if value is None else value for value in values], draw)
    last = dict[str, dict]()
    for row in rows.iter_rows(named=True):
        if row["content_id"] not in last or row["measured_at"] >= last[row["content_id"]]["measured_at"]:
            last[row["content_id"]] = row
    columns = [column, "version", "measured_at"]
    right = {content_id: {name: row[name] for name in columns} for content_id, row in last.items()}
    wanted = draw.sample(IDS, 5)
    assert latest_values(store, signal, wanted, columns) == {name: right[name] for name in wanted if name in right}
    whole = store.ask(latest_query(signal, columns)).rows_by_key("content_id", named=True, unique=True)
    assert whole == right


def drawn_store(folder, draw: random.Random):
    """Conversations of which some are sides of battles, some repeat others, some are not decided."""
    chats = [conversation(f"c{n}", f"prompt {draw.randint(0, 3)}", f"answer {n}", line=n + 1,
                          tstamp=NOON + timedelta(minutes=n), image_ids=draw.sample(IDS, draw.randint(0, 2)),
                          user_id=f"user{n % 3}") for n in range(8)]  # fmt: skip
    of_votes = [sides(f"b{n}", "asked", f"told {n}", line=20 + n, tstamp=NOON + timedelta(minutes=n)) for n in range(3)]
    votes = [
        battle(*both, vote_reason=words, vote_reason_id=words and f"id of {words}", line=20 + n)
        for n, both in enumerate(of_votes)
        for words in [draw.choice([None, f"reason {n}"])]
    ]
    rows = [*chats, *(side for both in of_votes for side in both)]
    decisions = [
        decision(row, *draw.choice([[], ["face"], ["face", "pii_text"]]),
                 duplicate_of=draw.choice([None, draw.choice(chats).conversation_id]))
        for row in [*rows, *votes] if draw.random() < 0.8
    ]  # fmt: skip
    near = [
        NearPrompt(conversation_a=chat.conversation_id, conversation_b=chats[0].conversation_id, jaccard=0.5)
        for chat in draw.sample(chats[1:], 3)
    ]
    alike = [
        NearImage(image_a=one, image_b=other, phash_distance=1, pdq_distance=2, grey_correlation=0.5)
        for one, other in pairwise(sorted(draw.sample(IDS, 6)))
    ]
    tables = {"conversations": rows, "battles": votes, "decisions": decisions, "near_prompts": near}
    return store_with(folder, **tables, near_images=alike), rows, votes, decisions, near, alike


class Wanted(NamedTuple):
    """Four wanted items of a drawn store, and what is right about them. Do not write to the store."""

    store: Store
    items: StoredItems
    ids: set[str]
    rows: list[Conversation]
    votes: list[Battle]
    own_votes: list[Battle]
    decisions: list[Decision]
    """Of the wanted items, and of the sides of their battles."""
    conversation_ids: set[str]
    """With the sides of their battles, and what they repeat."""
    near: list[NearPrompt]
    alike: list[NearImage]


@pytest.fixture(scope="module", params=range(12))
def wanted(tmp_path_factory, request) -> Wanted:
    draw = random.Random(request.param)
    store, rows, votes, decisions, near, alike = drawn_store(tmp_path_factory.mktemp("drawn"), draw)
    ids = {*draw.sample([row.conversation_id for row in rows], 4)}
    own_votes = [vote for vote in votes if {vote.battle_id, vote.conversation_a, vote.conversation_b} & ids]
    with_sides = {*ids, *(side for vote in own_votes for side in (vote.conversation_a, vote.conversation_b))}
    known = [each for each in decisions if each.item_id in with_sides]
    conversation_ids = with_sides | {each.duplicate_of for each in known} - {None}
    items = StoredItems(store, sorted(ids))
    return Wanted(store, items, ids, rows, votes, own_votes, known, conversation_ids, near, alike)


def test_items_come_with_their_battles(wanted):
    for vote in wanted.votes:
        shown = {name: value for name, value in vote.model_dump().items() if name != "vote_reason"}
        right = shown if vote in wanted.own_votes else None
        assert wanted.items.battle(vote.battle_id) == wanted.items.battle(vote.conversation_b) == right


def test_items_come_with_their_decisions(wanted):
    right = {(each.item_kind.value, each.item_id): each.model_dump() for each in wanted.decisions}
    assert wanted.items.decisions == right


def test_items_come_with_the_sides_of_their_battles_beside_what_they_repeat(wanted):
    assert wanted.items.conversations.keys() == wanted.conversation_ids


def test_items_have_their_whole_conversations(wanted):
    rows = [row for row in wanted.rows if row.conversation_id in wanted.conversation_ids]
    whole = frame_of(Conversation, rows).sort("conversation_id")
    assert wanted.items.whole_conversations.sort("conversation_id").equals(whole)


def test_conversations_of_items_come_without_their_texts(wanted):
    for row in wanted.items.conversations.values():
        assert not {"turns", "turns.content", "served.thinking"} & row.keys()


def test_items_come_with_their_near_prompts(wanted):
    assert {*wanted.items.near_prompts} == {each.conversation_a for each in wanted.near} & wanted.ids


def test_items_come_with_the_pairs_of_their_images(wanted):
    rows = [row for row in wanted.rows if row.conversation_id in wanted.conversation_ids]
    images = {image_id for row in rows for image_id in row.image_ids}
    pairs = {(pair.image_a, pair.image_b) for pair in wanted.alike if {pair.image_a, pair.image_b} & images}
    assert {*wanted.items.pairs("near_images").select("image_a", "image_b").rows()} == pairs


@pytest.mark.parametrize("seed", range(12))
def test_an_account_is_the_same_whether_its_item_was_asked_for_alone_or_among_others(tmp_path, seed):
    draw = random.Random(seed)
    store, rows, *_ = drawn_store(tmp_path, draw)
    with_drawn_values(store, "faces", "confidence_max", [0.0, 0.5, 0.75], draw)
    together = StoredItems(store, [row.conversation_id for row in rows])
    for row in draw.sample(rows, 4):
        account = conversation_account(together, row.conversation_id, ["faces"])
        assert account == explain_item(store, row.conversation_id, ["faces"])
        assert account["images"].keys() == {*row.image_ids}


@pytest.mark.parametrize("seed", range(12))
def test_the_reasons_of_removed_rows_are_those_of_the_vote_then_those_of_the_item(tmp_path, seed):
    draw = random.Random(seed)
    store, rows, votes, decisions, *_ = drawn_store(tmp_path, draw)
    decided = {(each.item_kind.value, each.item_id): each.reasons for each in decisions}
    votes_of = {vote.conversation_a: vote.battle_id for vote in votes}
    ids = [row.conversation_id for row in rows] + ["unknown"]
    for config, otherwise in (("chat", "its prompt is in the benchmark"), ("battle", "kept")):
        right = {}
        for name in ids:
            of_vote = decided.get(("battle", votes_of.get(name, "")), []) if config == "battle" else []
            own = decided.get(("conversation", name))
            of_both = list(dict.fromkeys([*of_vote, *(own or [])])) or [otherwise]
            right[name] = ["not in the store"] if own is None else of_both
        assert removal_reasons(store)(config, ids) == right


@pytest.mark.parametrize("seed", range(10))
def test_a_rejected_line_is_explained_by_its_own_reject(tmp_path, seed):
    draw = random.Random(seed)
    store, *_ = drawn_store(tmp_path, draw)
    rejected = [
        Reject(source="x", line=line, reason="not_json", evidence=f"at {line}") for line in draw.sample(range(5), 3)
    ]
    store.replace("rejects", frame_of(Reject, rejected))
    for line in range(5):
        account = explain_item(store, f"x:{line}")
        own = [each.evidence for each in rejected if each.line == line]
        assert ([account["rejected"]["evidence"]] if account else []) == own


def test_a_user_is_explained_by_their_own_conversations(wanted):
    for user in ("user0", "user1", "user2"):
        mine = [row.conversation_id for row in wanted.rows if row.user_id == user]
        assert sorted(explain_item(wanted.store, user)["conversations"]) == sorted(mine)


def test_an_image_that_is_shown_without_being_stored_has_no_account(wanted):
    assert [image_id for image_id in IDS[:4] if explain_item(wanted.store, image_id) is not None] == []
