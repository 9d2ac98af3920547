"""The funnel: every input line is counted once as kept, dropped or rejected, with its first reason.

A chat line that holds the final state of a conversation has the outcome of the conversation, a vote line that of its
battle. A line that a later line replaced (a conversation grew, an answer was regenerated, a vote was cast again) is
dropped as `superseded`; a share line repeats the content of votes and is dropped as `share_record`.
"""

from pathlib import Path

import polars as pl

from schemas.items.reject import REJECT_TEXTS
from schemas.policy import Policy, Rule
from schemas.run import Funnel
from tasks.runtime.untrusted import read_yaml
from tasks.storage.database import TemporaryDatabase
from tasks.storage.tables import Store

SUPERSEDED, SHARE = "superseded", "share_record"
REPEATS = {
    SUPERSEDED: "a later line of the same conversation or vote replaced it",
    SHARE: "a shared link; it repeats conversations that other lines hold",
}
"""Reasons of dropped lines that repeat other lines -> what they mean."""
_OUTCOMES = Path(__file__).with_name("line_outcomes.sql")
_SAID: dict[str, dict[str, str]] = read_yaml(Path(__file__).with_name("rule_words.yaml"))


def line_outcomes(store: Store) -> pl.DataFrame:
    """source, line, outcome (kept, dropped, rejected) and reason (null when kept) of every line, once each."""
    return _outcomes(store).read("SELECT source, line, outcome, reason FROM outcomes ORDER BY source, line")


def funnel(store: Store) -> Funnel:
    """Counts of `line_outcomes`, and the number of lines that wait only for a review.

    Raises AssertionError when the counts do not add up; nothing may be released then.
    """
    database = _outcomes(store)
    counts = database.read(
        "SELECT outcome, reason, count(*) AS number FROM outcomes GROUP BY ALL ORDER BY number DESC, reason"
    )
    lines = database.read("SELECT count(DISTINCT (source, line)) FROM outcomes").item()
    held = database.read("SELECT count(*) FROM outcomes WHERE held").item()
    assert counts["number"].sum() == lines, "a line has two outcomes"
    totals = {
        outcome: int(counts.filter(outcome=outcome)["number"].sum()) for outcome in ("kept", "dropped", "rejected")
    }
    by_reason = {
        f"{outcome}_by": dict(counts.filter(outcome=outcome).select("reason", "number").iter_rows())
        for outcome in ("dropped", "rejected")
    }
    return Funnel(lines=lines, **totals, **by_reason, held=held)


def _outcomes(store: Store) -> TemporaryDatabase:
    """A database with the table `outcomes`."""
    database = TemporaryDatabase()
    database.load_table(store, "sightings", ["source", "line", "record_type"])
    database.load_table(store, "rejects", ["source", "line", "reason"])
    database.load_table(store, "conversations", ["conversation_id", "source", "line"])
    database.load_table(store, "battles", ["battle_id", "source", "line"])
    database.load_table(store, "decisions", ["item_id", "item_kind", "keep", "reasons", "held"])
    database.run(_OUTCOMES.read_text())
    return database


def reason_texts(policy: Policy) -> dict[str, str]:
    """Reason -> what it means, for the rules of a policy and for rejected lines."""
    texts: dict[str, str] = {}
    for each in policy.rules:
        said = f"{rule_text(each)}, with {each.models} models alone" if each.models else rule_text(each)
        texts[each.reason] = "; or ".join(filter(None, (texts.get(each.reason), said)))
    texts |= {
        f"unmeasured_{rule.signal.partition('.')[0]}": "no measurement, which counts against it"
        for rule in policy.rules
    }
    texts |= {rule.reason: rule.in_words() for rule in policy.rules_over_set}
    return texts | REPEATS | REJECT_TEXTS


def comparison(rule: Rule) -> str:
    """The comparison of a rule in words, such as `0.5 or more`."""
    if rule.at_least is not None:
        return f"{rule.at_least} or more"
    if rule.at_most is not None:
        return f"{rule.at_most} or less"
    if rule.contains_any is not None:
        return f"holds {'any of ' + ', '.join(rule.contains_any) if rule.contains_any else 'anything'}"
    if rule.other_than is not None:
        return f"is none of {', '.join(rule.other_than)}"
    return f"is {str(rule.equals).lower()}"


def rule_text(rule: Rule) -> str:
    """The rule in words: `a face with confidence 0.5 or more in an image`."""
    where = f" {_SAID['where'][rule.over]}" if rule.over in _SAID["where"] else ""
    if rule.equals is not None and (words := _SAID["words"].get(f"{rule.signal} {str(rule.equals).lower()}")):
        return words
    words = _SAID["words"].get(rule.signal, "")
    if rule.contains_any is not None and words:
        return words.format(f" ({', '.join(rule.contains_any)})" if rule.contains_any else "") + where
    if rule.equals is None and words:
        return words.format(comparison(rule)) + where
    return f"{rule.signal} of the {rule.over.replace('_', ' ')}: {comparison(rule)}"
