"""What deciding leaves in the store."""

from schemas.policy import Policy
from schemas.settings import Settings
from tasks.policy.policy_file import load_policy, policy_hash
from tasks.policy.steps import decide_items, find_near_images
from tests.builders import VERSIONS, battle, conversation, sides


def _some():
    both = sides("b", image_ids=["1" * 32])
    chats = [conversation(f"c{n}", "What is this?", f"{n}.", image_ids=[str(n % 3) * 32]) for n in range(9)]
    return [*both, *chats], [battle(*both)]


def test_every_conversation_and_every_battle_has_exactly_one_decision(deciding):
    conversations, battles = _some()
    deciding.given(conversations, battles).decide()
    decided = deciding.store.read("decisions").select("item_kind", "item_id").rows()
    expected = {("conversation", each.conversation_id) for each in conversations} | {("battle", "b")}
    assert len(decided) == len(expected) and set(decided) == expected


def test_keep_means_that_there_is_no_reason(deciding):
    decided = deciding.given(*_some()).decide()
    assert {row["keep"] for row in decided.values()} == {True, False}
    assert all(row["keep"] == (row["reasons"] == []) for row in decided.values())


def test_deciding_again_gives_the_same_bytes(deciding):
    deciding.given(*_some()).decide()
    first = {table: deciding.store.parts(table) for table in ("decisions", "near_images")}
    deciding.decide()
    assert {table: deciding.store.parts(table) for table in first} == first


def test_the_policy_of_every_decision_is_kept_whole_under_its_hash(deciding):
    decided = deciding.given(*_some()).decide()
    policy = load_policy("public_release")
    assert {(row["policy"], row["policy_hash"]) for row in decided.values()} == {(policy.name, policy_hash(policy))}
    stored = deciding.store.read_bytes(f"policies/{policy_hash(policy)}.json")
    assert Policy.model_validate_json(stored) == policy


def test_a_new_policy_replaces_every_decision(deciding):
    first = deciding.given(*_some()).decide()
    second = deciding.under("name: open\nrules: []\nduplicates: null").decide()
    assert first.keys() == second.keys()
    assert all(row["keep"] and row["policy"] == "open" for row in second.values())


def test_the_reports_count_what_was_decided(deciding):
    decided = deciding.given(*_some()).decide()
    settings = Settings(store=deciding.store.root)
    near, items = find_near_images.fn(settings, VERSIONS), decide_items.fn(settings, VERSIONS)
    known = {"images": 3, "searched": 0, "pairs": 0, "semantic_searched": 0, "semantic_pairs": 0}
    assert near.counts == known
    kept = sum(row["keep"] for row in decided.values() if row["item_kind"] == "conversation")
    assert items.counts == {"items": 12, "kept_conversations": kept, "kept_battles": 1}
