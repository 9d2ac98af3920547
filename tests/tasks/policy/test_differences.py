"""`curate decide --dry-run` says what another policy would keep and drop, by reason, and writes nothing."""

import json
from pathlib import Path

from flows.products import item_findings
from schemas.items.decision import ALL_DROPS
from tasks.policy.differences import dry_run
from tasks.policy.policy_file import load_policy
from tests.builders import VERSIONS, battle, conversation, sides

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


def test_what_comes_and_goes_by_rule(deciding):
    _store(deciding).decide()
    deciding.under(OURS)
    before = _files(deciding.folder)
    changes, notes = dry_run(deciding.store, load_policy(deciding.policy), VERSIONS, item_findings)
    assert _files(deciding.folder) == before and notes == []
    assert {(row.item_kind, row.reason): (row.now, row.then, row.comes, row.goes) for row in changes} == {
        ("conversation", ALL_DROPS): (1, 2, 1, 2),
        ("conversation", "face"): (1, 0, 1, 0),
        ("conversation", "refusal"): (0, 2, 0, 2),
        ("battle", ALL_DROPS): (0, 1, 0, 1),
        ("battle", "refusal"): (0, 1, 0, 1),
    }


def test_what_would_be_redacted_first_is_said(deciding):
    _store(deciding).decide()
    _, notes = dry_run(deciding.store, load_policy("redact"), VERSIONS, item_findings)
    assert notes == ["1 conversations would be redacted and measured first; here they count as dropped"]


def test_the_command_prints_a_table_or_json_and_writes_nothing(deciding, curate):
    chats = [conversation("long", "A longer question?", "Yes."), conversation("short", "Why?", "No.")]
    deciding.given(chats).under(LONG).decide()
    before = _files(deciding.folder)
    deciding.under(LONG.replace("at_most: 1", "at_most: 5"))
    command = ("decide", "--store", deciding.store.root, "--policy", deciding.policy, "--dry-run")
    status, out, _ = curate(*command)
    assert status == 0
    assert [line.split() for line in out.splitlines()[:2]] == [
        ["reason", "now", "then", "come", "in", "go", "out"],
        ["conversation", *ALL_DROPS.split(), "0", "1", "0", "1"],
    ]
    assert "nothing was written" in out.splitlines()[-1]
    status, out, _ = curate(*command, "--json")
    assert json.loads(out.splitlines()[1]) == {
        "item_kind": "conversation", "reason": "short", "now": 0, "then": 1, "comes": 0, "goes": 1,
    }  # fmt: skip
    policy = Path(deciding.policy)
    assert {path: body for path, body in _files(deciding.folder).items() if path != policy} == {
        path: body for path, body in before.items() if path != policy
    }


def test_json_alone_is_refused(deciding, curate):
    _store(deciding)
    status, _, err = curate("decide", "--store", deciding.store.root, "--json")
    assert status == 2 and "add --dry-run" in err
