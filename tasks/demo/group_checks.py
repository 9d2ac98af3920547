"""What a good pipeline does with planted items that only mean something together."""

from collections.abc import Sequence

from tasks.demo.evidence import Evidence, Fact
from tasks.demo.judging import Verdict, fact_id, has_fallen, kept


def one_of_each_group(evidence: Evidence, facts: Sequence[Fact]) -> Verdict:
    """Of every group at most one is released; the others are counted."""
    missed: list[str] = []
    groups = _groups(facts)
    for members in groups:
        missed += [fact_id(fact) for fact in members if not has_fallen(evidence, fact, "duplicate")][1:]
    return len(facts) - len(groups), missed


def versions_recognised(evidence: Evidence, facts: Sequence[Fact]) -> Verdict:
    """Every version of a picture is paired with its original; originals are not counted."""
    originals = {fact["group"]: fact["conversation_id"] for fact in facts if fact["variant"] == "original"}
    versions = [fact for fact in facts if fact["variant"] != "original"]

    def found(fact: Fact) -> bool:
        original = originals.get(fact["group"])
        return original is not None and evidence.same_picture(fact["conversation_id"], original)

    return len(versions), [f"{fact_id(fact)} ({fact['variant']})" for fact in versions if not found(fact)]


def look_alikes_survive(evidence: Evidence, facts: Sequence[Fact]) -> Verdict:
    """Every member of a group is released, and none is taken for another."""
    missed = []
    for members in _groups(facts):
        for fact in members:
            others = [other["conversation_id"] for other in members if other is not fact]
            mistaken = any(evidence.same_picture(fact["conversation_id"], other) for other in others)
            if mistaken or not kept(evidence, fact):
                missed.append(fact_id(fact))
    return len(facts), missed


def order_recovered(evidence: Evidence, facts: Sequence[Fact]) -> Verdict:
    """No pair of models is rated the wrong way round beyond doubt. Nothing is counted before models were rated."""
    ratings, planted, missed = evidence.ratings(), 0, []
    for strengths in (fact["models"] for fact in facts):
        ordered = sorted((model for model in strengths if model in ratings), key=strengths.__getitem__)
        for number, weaker in enumerate(ordered):
            for stronger in ordered[number + 1 :]:
                planted += 1
                low, high = ratings[weaker]["ci95_low"], ratings[stronger]["ci95_high"]
                if low is not None and high is not None and low > high:
                    missed.append(f"{weaker} above {stronger}")
    return planted, missed


def _groups(facts: Sequence[Fact]) -> list[list[Fact]]:
    found: dict[str, list[Fact]] = {}
    for fact in facts:
        found.setdefault(str(fact["group"]), []).append(fact)
    return list(found.values())
