"""The report counts what was taken out of what is kept, and nothing else."""

from schemas.decision import Redaction
from tasks.report.content import redactions_part
from tests.builders import conversation, decision, store_with


def _redaction(part: str, kind: str, count: int) -> Redaction:
    return Redaction(reason="rule", part=part, place=0, type=kind, count=count)


def test_kept_conversations_are_counted_by_part_and_type(tmp_path):
    done = {
        "a": [_redaction("message", "email", 2), _redaction("message", "phone", 1)],
        "b": [_redaction("message", "email", 1), _redaction("image", "face", 3)],
    }
    kept = [decision(conversation(name), redactions=each) for name, each in done.items()]
    gone = decision(conversation("c"), "redaction_failed", redactions=done["a"])
    part = redactions_part(store_with(tmp_path, decisions=[*kept, gone]))
    assert part.table.rows() == [
        ("message", "email", 2, 3),
        ("image", "face", 1, 3),
        ("message", "phone", 1, 1),
    ]
    assert "2 kept conversations" in part.about


def test_a_release_without_redactions_has_no_such_section(tmp_path):
    assert redactions_part(store_with(tmp_path, decisions=[decision(conversation("a"))])) is None
