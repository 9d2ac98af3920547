"""A battle ends at its vote: messages, figures, images and thinking after it are not in it; the chat stays whole."""

import polars as pl
import pytest

from schemas.benches.bench import BenchItem, HiddenItem
from schemas.items.conversation import ServedAnswer
from schemas.policy import policy_hash
from tasks.leaderboard.steps import rated_battles
from tasks.release.core_parts import THINKING
from tasks.storage.queries.released import mark_decided
from tests.builders import (
    VERSIONS,
    battle,
    conversation,
    counted_tokens,
    decision,
    drawn_image,
    gathered_rows,
    image,
    measure_clean,
    sides,
    store_with,
)
from tests.small_store import POLICY, make_release

TALK = ("Which bird is this?", "A kite.", "What does it eat in a hard winter?", "Mostly carrion and worms.")


def went_on(folder, turn, prompts=(), **tables):
    """A store of a battle whose conversations have two turns and whose vote was on `turn`, and of other chats."""
    both = sides("b1", *TALK)
    vote = battle(*both, turns_a=turn, turns_b=turn)
    chats = [conversation(f"other-{n}", prompt, "Yes.") for n, prompt in enumerate(prompts)]
    items = [*both, *chats]
    decisions = [decision(each) for each in (*items, vote)]
    store = store_with(folder, conversations=items, battles=[vote], decisions=decisions, **tables)
    measure_clean(store, items, tokens=counted_tokens(items))
    return store


@pytest.mark.parametrize("turn", [1, 2])
def test_a_battle_holds_the_talk_up_to_its_vote_and_the_chat_is_whole(tmp_path, turn):
    rows = gathered_rows(went_on(tmp_path, turn)).rows
    (row,) = rows["battle"].to_dicts()
    texts = [message["content"] for message in row["conversation_a"]]
    assert (texts, row["num_turns"], len(row["conversation_b"])) == (list(TALK[: 2 * turn]), turn, 2 * turn)
    chat = rows["chat"].filter(conversation_id="b1").to_dicts()[0]
    assert [message["content"] for message in chat["conversation"]] == list(TALK)


def test_tokens_of_released_and_rated_battles_are_those_of_what_was_voted_on(tmp_path):
    first, whole = went_on(tmp_path / "first", 1), went_on(tmp_path / "whole", 2)
    tokens = []
    for store in (first, whole):
        metadata = gathered_rows(store).rows["battle"]["conv_metadata"][0]
        (rated,) = rated_battles(store, VERSIONS).to_dicts()
        assert (rated["context_tokens"], rated["tokens_a"]) == (
            metadata["context_tokens"],
            metadata["a"]["assistant_tokens"],
        )
        tokens.append((metadata["context_tokens"], metadata["a"]["assistant_tokens"]))
    assert tokens[0] < tokens[1] and tokens[0][0] == 5


def test_an_image_that_was_first_shown_after_the_vote_is_not_in_the_battle(tmp_path):
    shown = [drawn_image(seed) for seed in range(2)]
    pair = sides("b1", *TALK, image_ids=[each.image_id for each in shown])
    moved = []
    for side in pair:
        first, answer, second, last = side.turns
        turns = [first.model_copy(update={"images": first.images[:1]}), answer]
        turns += [second.model_copy(update={"images": first.images[1:]}), last]
        moved.append(side.model_copy(update={"turns": turns}))
    vote = battle(*moved, turns_a=1, turns_b=1)
    store = store_with(
        tmp_path,
        conversations=moved,
        battles=[vote],
        images=[image(each) for each in shown],
        decisions=[decision(each) for each in (*moved, vote)],
    )
    measure_clean(store, moved)
    rows = gathered_rows(store).rows
    assert rows["battle"]["image_ids"].to_list() == [[shown[0].image_id]]
    assert all(len(ids) == 2 for ids in rows["chat"]["image_ids"])


@pytest.mark.parametrize(("turn", "is_there"), [(1, False), (2, True)])
def test_a_battle_whose_prompt_up_to_the_vote_is_hidden_is_in_no_release(tmp_path, turn, is_there):
    secret = conversation("other-0", TALK[0], "Yes.").document_id
    hidden = HiddenItem(document_id=secret, topic=0, first_month="2024-09", last_month="2099-01", drawn=True)
    rows = gathered_rows(went_on(tmp_path, turn, prompts=TALK[:1], hidden=[hidden])).rows
    assert bool(rows["battle"].height) is is_there


@pytest.mark.parametrize("turn", [1, 2])
def test_a_battle_whose_prompt_up_to_the_vote_is_in_the_benchmark_is_marked(tmp_path, turn):
    drawn = BenchItem(conversation_id="other-0", document_id=conversation("other-0", TALK[0]).document_id, topic=0)
    rows = gathered_rows(went_on(tmp_path, turn, prompts=TALK[:1], bench=[drawn])).rows
    assert rows["battle"]["in_bench"].to_list() == [turn == 1]


def test_what_a_model_thought_after_the_vote_is_not_beside_the_battle(tmp_path):
    pair = []
    for side in sides("b1", *TALK):
        served = [
            ServedAnswer(**dict.fromkeys(ServedAnswer.model_fields) | {"turn": turn, "thinking": f"Thought {turn}."})
            for turn in (1, 3)
        ]
        pair.append(side.model_copy(update={"served": served}))
    vote = battle(*pair, turns_a=1, turns_b=1)
    policy = POLICY.model_copy(update={"release_thinking": True})
    decisions = [decision(each, policy_hash=policy_hash(policy)) for each in (*pair, vote)]
    store = store_with(tmp_path, conversations=pair, battles=[vote], decisions=decisions)
    store.write_bytes(f"policies/{policy_hash(policy)}.json", policy.model_dump_json().encode())
    measure_clean(store, pair, tokens=counted_tokens(pair))
    mark_decided(store)
    make_release(store, rated=False, release="r")
    thoughts = pl.read_parquet(f"{store.root}/releases/r/{THINKING}")
    of_battle = thoughts.filter(config="battle").select("side", "turn").sort("side").rows()
    assert of_battle == [("a", 1), ("b", 1)]
    assert thoughts.filter(config="chat").height == 4
