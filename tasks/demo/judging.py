"""How planted facts are judged: one at a time, against the decision on the item, or a group at a time."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tasks.demo.evidence import Evidence, Fact

Verdict = tuple[int, list[str]]
"""How many there are, and the ids of those that were missed."""
Judge = Callable[[Evidence, Sequence[Fact]], Verdict]
Check = Callable[[Evidence, Fact], bool]


class Expectation(NamedTuple):
    """What should become of a kind."""

    good_outcome: str
    judge: Judge


def fact_id(fact: Fact) -> str:
    """How a person finds a planted item again."""
    for key in ("conversation_id", "battle", "text"):
        if key in fact:
            return str(fact[key])
    return f"{fact['file']}:{fact.get('line') or fact['sha256'][:12]}" if "file" in fact else str(fact["kind"])


def each(check: Check) -> Judge:
    """A judge that looks at every fact alone."""

    def judge(evidence: Evidence, facts: Sequence[Fact]) -> Verdict:
        return len(facts), [fact_id(fact) for fact in facts if not check(evidence, fact)]

    return judge


def falls(*reasons: str) -> Judge:
    """A judge that wants items not released, or marked with one of the reasons where a policy only marks."""
    return each(lambda evidence, fact: has_fallen(evidence, fact, *reasons))


def has_fallen(evidence: Evidence, fact: Fact, *reasons: str) -> bool:
    """Whether the item was decided on and is not released, or is marked with one of the reasons."""
    decision = decision_on(evidence, fact)
    return decision is not None and (not decision["keep"] or not set(reasons).isdisjoint(decision["tags"]))


def kept(evidence: Evidence, fact: Fact) -> bool:
    """Whether the conversation or battle is released."""
    decision = decision_on(evidence, fact)
    return decision is not None and bool(decision["keep"])


def decision_on(evidence: Evidence, fact: Fact) -> Fact | None:
    """The decision on the battle or conversation that the fact is about."""
    if "battle" in fact:
        return evidence.decision("battle", fact["battle"])
    return evidence.decision("conversation", fact["conversation_id"])
