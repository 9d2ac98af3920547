"""What policies would do otherwise: upstream's rules item by item, and `curate decide --dry-run`."""

import json
from pathlib import Path

import pytest

from flows.products import item_findings
from schemas.items.decision import ALL_DROPS
from tasks.policy.differences import dry_run, upstream_policy
from tasks.policy.policy_file import load_policy
from tests.builders import VERSIONS, battle, conversation, sides

LEAK = """
name: mine
duplicates: null
rules:
  - {{reason: leak, signal: model_names.names, over: assistant_messages, contains_any: [], {}}}
"""


def _parity(deciding) -> dict[tuple[str, str], tuple[int, ...]]:
    deciding.decide()
    rows = deciding.store.read("rule_parity").rows()
    return {(kind, reason): tuple(counts) for kind, reason, *counts in rows}


def _three_battles():
    """The first leaks by both rules, the second by upstream's alone, the third by ours alone."""
    pairs = [sides(f"b{n}", f"What is {n}?", f"It is {n}.", image_ids=[f"{n}" * 32]) for n in range(3)]
    words = {pairs[n][0].turns[1].text_id: {"identity": ["palm"]} for n in (0, 1)}
    names = {pairs[n][0].turns[1].text_id: {"names": ["llava"]} for n in (0, 2)}
    facts = {"upstream_words": words, "model_names": names}
    return [side for pair in pairs for side in pair], [battle(*pair) for pair in pairs], facts


def test_every_rule_has_its_counts_on_both_sides(deciding):
    deciding.given(*_three_battles())
    parity = _parity(deciding)
    assert parity["battle", "leaked_identity"] == (2, 2, 1, 1, 1)
    assert parity["battle", ALL_DROPS] == (2, 2, 1, 1, 1)
    # Upstream's rule is about votes: it fires on conversations as well, but drops none.
    assert parity["conversation", "leaked_identity"] == (2, 2, 1, 1, 1)
    assert parity["conversation", ALL_DROPS] == (2, 0, 0, 2, 0)


def test_the_counts_are_those_that_each_policy_decides(deciding):
    deciding.given(*_three_battles())
    parity = _parity(deciding)
    for policy, place in (("public_release", 0), ("upstream", 1)):
        deciding.policy = policy
        rows = deciding.decide()
        fired = [("battle" if item.startswith("battle:") else "conversation", row) for item, row in rows.items()]
        for (kind, reason), counts in parity.items():
            of_kind = [row for of, row in fired if of == kind]
            if policy == "upstream" and kind == "conversation" and reason in ("leaked_identity", "short_prompt"):
                assert not any(row["reasons"] or row["tags"] for row in of_kind)
                continue
            found = sum(not r["keep"] if reason == ALL_DROPS else reason in r["reasons"] + r["tags"] for r in of_kind)
            assert counts[place] == found, (kind, reason)


def test_under_upstream_s_policy_both_columns_are_equal(deciding):
    deciding.policy = "upstream"
    deciding.given(*_three_battles())
    parity = _parity(deciding)
    assert parity
    assert all(ours == upstream == both for ours, upstream, both, *_ in parity.values())


def test_the_operators_exclusions_count_in_both_columns(deciding):
    rule = "{reason: excluded_model, signal: conversation.model_excluded, over: conversation, equals: true}"
    deciding.given(*_three_battles()).under(f"name: mine\nrules: [{rule}]\nexcluded_models: [llava-34b]\n")
    assert _parity(deciding)["battle", "excluded_model"] == (3, 3, 3, 0, 0)


def test_two_names_of_one_model_make_a_battle_of_one_model(deciding):
    both, votes, _ = _three_battles()
    rule = "{reason: same, signal: battle.same_model, over: battle, equals: true}"
    renaming = "renames: [{model: llava-34b, to: vicuna-13b}]"
    reasons = deciding.given(both, votes).under(f"name: mine\nrules: [{rule}]\n{renaming}\n").reasons()
    assert {item for item, why in reasons.items() if why == ["same"]} == {"battle:b0", "battle:b1", "battle:b2"}


@pytest.mark.parametrize("listed", ["llava-34b", "llava-next"])
def test_a_renamed_model_is_excluded_under_either_name(deciding, listed):
    rule = "{reason: excluded_model, signal: conversation.model_excluded, over: conversation, equals: true}"
    text = (
        f"name: mine\nrules: [{rule}]\nexcluded_models: [{listed}]\nrenames: [{{model: llava-34b, to: llava-next}}]\n"
    )
    deciding.given(*_three_battles()).under(text)
    assert {item for item, why in deciding.reasons().items() if why} >= {"b0-right", "b1-right", "b2-right"}


def test_upstream_takes_the_lists_and_nothing_else_of_the_policy():
    mine = load_policy("internal").model_copy(update={"excluded_models": ["a"], "banned_users": ["b"]})
    assert upstream_policy(mine) == load_policy("upstream").model_copy(
        update={"excluded_models": ["a"], "banned_users": ["b"], "known_benchmarks": None}
    )


@pytest.mark.parametrize("scope", ["battle", "conversation"])
def test_a_rule_about_battles_lets_the_conversations_stay(deciding, scope):
    both, votes, facts = _three_battles()
    reasons = deciding.given(both, votes, facts).under(LEAK.format(f"scope: {scope}")).reasons()
    dropped = {item for item, why in reasons.items() if why == ["leak"]}
    assert dropped == {"battle:b0", "battle:b2"} | (set() if scope == "battle" else {"b0", "b2"})


def test_a_tag_about_battles_marks_the_battle_alone(deciding):
    both, votes, facts = _three_battles()
    decided = deciding.given(both, votes, facts).under(LEAK.format("scope: battle, action: tag")).decide()
    assert {item for item, row in decided.items() if row["tags"]} == {"battle:b0", "battle:b2"}


def test_a_missing_fact_of_a_side_drops_the_battle(deciding):
    pair = sides("b", image_ids=["1" * 32])
    deciding.policy = "upstream"
    deciding.given([*pair, conversation("c")], [battle(*pair)], {"upstream_words": {pair[1].turns[1].text_id: None}})
    assert deciding.reasons()["battle:b"] == ["unmeasured_upstream_words"]


def test_what_drops_the_battle_alone_keeps_nobody_from_being_redacted(deciding):
    both, votes, facts = _three_battles()
    spans = [{"type": "email", "start": 0, "end": 2, "confidence": 1.0}]
    mailed = {both[0].turns[1].text_id: {"types": ["email"], "spans": spans}}
    redact = "  - {reason: pii, signal: text_pii.types, over: messages, contains_any: [], action: redact}\n"
    deciding.given(both, votes, facts | {"text_pii": mailed}).under(LEAK.format("scope: battle") + redact).decide()
    assert deciding.store.read("redacted_conversations")["conversation_id"].to_list() == ["b0"]


OURS = """
name: ours
extends: public_release
rules:
  - {reason: face, at_least: 0.9}
  - {reason: refusal, signal: refusal.refusal, over: assistant_messages, equals: true}
"""
LONG = """
name: ours
duplicates: null
rules:
  - {reason: short, signal: conversation.prompt_characters, over: conversation, at_most: 1}
"""


def _store(deciding):
    left, right = sides("b")
    shown, declined = conversation("shown", image_ids=["1" * 32]), conversation("declined", "Why?", "No.")
    facts = {
        "faces": {"1" * 32: {"confidence_max": 0.6}},
        "refusal": {right.turns[1].text_id: {"refusal": True}, declined.turns[1].text_id: {"refusal": True}},
    }
    return deciding.given([left, right, shown, declined], [battle(left, right)], facts=facts)


def _files(folder):
    return {path: path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def test_a_dry_run_writes_nothing(deciding):
    _store(deciding).decide()
    deciding.under(OURS)
    before = _files(deciding.folder)
    dry_run(deciding.store, load_policy(deciding.policy), VERSIONS, item_findings)
    assert _files(deciding.folder) == before


def test_a_dry_run_counts_what_comes_or_goes_by_each_rule(deciding):
    _store(deciding).decide()
    deciding.under(OURS)
    changes, notes = dry_run(deciding.store, load_policy(deciding.policy), VERSIONS, item_findings)
    assert notes == []
    assert {(row.item_kind, row.reason): (row.now, row.then, row.comes, row.goes) for row in changes} == {
        ("conversation", ALL_DROPS): (1, 2, 1, 2),
        ("conversation", "face"): (1, 0, 1, 0),
        ("conversation", "refusal"): (0, 2, 0, 2),
        ("battle", ALL_DROPS): (0, 1, 0, 1),
        ("battle", "refusal"): (0, 1, 0, 1),
    }


def test_a_dry_run_says_what_would_be_redacted_first(deciding):
    _store(deciding).decide()
    _, notes = dry_run(deciding.store, load_policy("redact"), VERSIONS, item_findings)
    assert notes == ["1 conversations would be redacted and measured first; here they count as dropped"]


def test_deciding_with_json_is_refused_without_a_dry_run(deciding, refused):
    _store(deciding)
    assert "add --dry-run" in refused("decide", "--store", deciding.store.root, "--json")


@pytest.fixture
def dry_command(deciding) -> tuple[str, ...]:
    """The command of a dry run of a stricter policy than decided."""
    chats = [conversation("long", "A longer question?", "Yes."), conversation("short", "Why?", "No.")]
    deciding.given(chats).under(LONG).decide()
    deciding.under(LONG.replace("at_most: 1", "at_most: 5"))
    return "decide", "--store", deciding.store.root, "--policy", deciding.policy, "--dry-run"


def test_the_command_of_a_dry_run_prints_a_table(dry_command, curate):
    status, out, _ = curate(*dry_command)
    assert status == 0
    assert [line.split() for line in out.splitlines()[:2]] == [
        ["reason", "now", "then", "come", "in", "go", "out"],
        ["conversation", *ALL_DROPS.split(), "0", "1", "0", "1"],
    ]
    assert "nothing was written" in out.splitlines()[-1]


def test_the_command_of_a_dry_run_prints_json_where_it_is_asked_for(dry_command, curate):
    _, out, _ = curate(*dry_command, "--json")
    assert json.loads(out.splitlines()[1]) == {
        "item_kind": "conversation", "reason": "short", "now": 0, "then": 1, "comes": 0, "goes": 1,
    }  # fmt: skip


@pytest.mark.parametrize("more", [[], ["--json"]], ids=["table", "json"])
def test_the_command_of_a_dry_run_writes_nothing(deciding, dry_command, curate, more):
    before = _files(deciding.folder)
    curate(*dry_command, *more)
    assert _files(deciding.folder) == before
