"""Scores how many planted problems a store handled correctly, for any arena with an `expected.jsonl`.

A new kind is one line in `EXPECTATIONS`, with the check of its outcome.
"""

import io
from collections.abc import Callable, Sequence
from hashlib import sha256
from itertools import chain, combinations
from pathlib import Path

import PIL.Image
import polars as pl

from schemas.benches.bench import FailureType
from schemas.errors import BadInput, known_values
from schemas.run import PlantedScore
from tasks.demo.planted_evidence import Evidence, read_facts
from tasks.demo.records import PlantedFact
from tasks.storage.tables import Store

FactCheck = Callable[[Evidence, PlantedFact], bool]
PlantedVerdict = tuple[int, list[str]]
"""Number of planted problems, and the ids of the missed ones."""
PlantedJudge = Callable[[Evidence, Sequence[PlantedFact]], PlantedVerdict]


def score_planted(expected: Path, store: Store) -> list[PlantedScore]:
    """One score for each kind in `expected`, in the order of `EXPECTATIONS`.

    Planted lines without a line number are found by their hash in the `logs` folder beside `expected`.
    Raises BadInput for an unknown kind.
    """
    by_kind = read_facts(expected)
    for kind in by_kind:
        if kind not in EXPECTATIONS:
            raise BadInput(f"{str(expected)!r}: unknown kind {known_values(kind, EXPECTATIONS)}")
    evidence = Evidence(store, chain.from_iterable(by_kind.values()), expected.parent / "logs")
    verdicts = {kind: judge(evidence, by_kind[kind]) for kind, judge in EXPECTATIONS.items() if kind in by_kind}
    return [
        PlantedScore(kind=kind, planted=planted, caught=planted - len(ids), missed=len(ids), missed_ids=ids)
        for kind, (planted, ids) in verdicts.items()
    ]


def _fact_id(fact: PlantedFact) -> str:
    """An id by which a person can find the planted item."""
    for key in ("conversation_id", "battle", "text"):
        if key in fact:
            return str(fact[key])
    return f"{fact['file']}:{fact.get('line') or fact['sha256'][:12]}" if "file" in fact else str(fact["kind"])


def _each(check: FactCheck) -> PlantedJudge:
    """A judge that applies `check` to each fact."""
    return lambda evidence, facts: (len(facts), [_fact_id(fact) for fact in facts if not check(evidence, fact)])


def _removed(*reasons: str) -> PlantedJudge:
    """A judge that expects items not to be released, or to be tagged with one of the reasons."""
    return _each(lambda evidence, fact: evidence.removed(fact, *reasons))


def _text_survives(evidence: Evidence, fact: PlantedFact) -> bool:
    """Whether the conversation is released with an unchanged prompt, if the fact has the prompt's hash."""
    rows = evidence.conversations(fact)
    prompt = rows[0]["turns"][0]["content"] if rows else ""
    return evidence.kept(fact) and fact.get("prompt_sha256") in (None, sha256(prompt.encode()).hexdigest())


def _without_metadata(evidence: Evidence, fact: PlantedFact) -> bool:
    """Whether the image is stored without EXIF."""
    stored = evidence.stored_images(fact)
    for content in stored:
        with PIL.Image.open(io.BytesIO(content)) as image:
            if len(image.getexif()) > 0 or b"Exif\0\0" in content:
                return False
    return bool(stored)


def _never_opened(evidence: Evidence, fact: PlantedFact) -> bool:
    """Whether a flagged conversation and its image are quarantined and in no other table."""
    image, conv_id = fact.get("image"), fact.get("conversation_id") or fact["battle"]
    is_quarantined = conv_id in evidence.quarantined and (image is None or image in evidence.quarantined)
    stored_rows = evidence.conversations({"conversation_id": conv_id}) or evidence.battle({"battle": conv_id})
    return is_quarantined and not stored_rows and not evidence.decision(fact) and image not in evidence.opened_images


def _failure_typed(evidence: Evidence, fact: PlantedFact) -> bool:
    """Whether a failure has its type, or any where only people and taggers can tell it; unsafe ones are out."""
    failure, failure_type = evidence.failure(fact), fact["failure_type"]
    if failure_type == FailureType.SAFETY:
        return not failure and evidence.removed(fact)
    return bool(failure) and (failure_type == FailureType.HALLUCINATION or failure["failure_type"] == failure_type)


def _one_conversation(evidence: Evidence, fact: PlantedFact) -> bool:
    """Whether there is one conversation with this id, with the right number of user messages if the fact has it."""
    rows = evidence.conversations(fact)
    turns = fact.get("turns", fact.get("num_turns"))
    return len(rows) == 1 and turns in (None, rows[0]["num_turns"])


def _without_image(evidence: Evidence, fact: PlantedFact) -> bool:
    """Whether a text-only conversation, or `count` of them, came through."""
    if "count" in fact:
        no_image = (pl.col("image_ids").list.len() == 0) & (pl.col("image_problems").list.len() == 0)
        return evidence.count(no_image) >= int(fact["count"])
    rows = evidence.conversations(fact)
    return bool(rows) and not rows[0]["image_ids"] and evidence.kept(fact)


def _one_of_each_group(evidence: Evidence, facts: Sequence[PlantedFact]) -> PlantedVerdict:
    """At most one member of every group is released; the others count as planted."""
    missed: list[str] = []
    groups = _groups(facts)
    for members in groups:
        missed += [_fact_id(fact) for fact in members if not evidence.removed(fact, "duplicate")][1:]
    return len(facts) - len(groups), missed


def _versions_recognised(evidence: Evidence, facts: Sequence[PlantedFact]) -> PlantedVerdict:
    """Every version of an image is matched with its original; originals do not count."""
    originals = {fact["group"]: fact for fact in facts if fact["variant"] == "original"}
    versions = [fact for fact in facts if fact["variant"] != "original"]

    def found(fact: PlantedFact) -> bool:
        original = originals.get(fact["group"])
        return original is not None and evidence.same_image(fact, original)

    return len(versions), [f"{_fact_id(fact)} ({fact['variant']})" for fact in versions if not found(fact)]


def _look_alikes_survive(evidence: Evidence, facts: Sequence[PlantedFact]) -> PlantedVerdict:
    """Every member of a group is released, and no two are matched as near-duplicates."""
    missed = []
    for members in _groups(facts):
        for fact in members:
            mistaken = any(evidence.same_image(fact, other) for other in members if other is not fact)
            if mistaken or not evidence.kept(fact):
                missed.append(_fact_id(fact))
    return len(facts), missed


def _only_riggers_named(evidence: Evidence, facts: Sequence[PlantedFact]) -> PlantedVerdict:
    """Every rigging voter is a suspect for the right model, and nobody else is. Counts nothing before the suspects."""
    named = evidence.suspects()
    if named is None:
        return 0, []
    planted = {evidence.battle(fact).get("judge"): fact for fact in facts}
    missed = [_fact_id(fact) for judge, fact in planted.items() if named.get(str(judge)) != fact["model"]]
    return len(facts), [*missed, *sorted(f"{judge} (honest)" for judge in named.keys() - planted.keys())]


def _order_recovered(evidence: Evidence, facts: Sequence[PlantedFact]) -> PlantedVerdict:
    """No pair of models has the wrong order with separate intervals. Counts nothing before models were rated.

    The board is that without suspects, if there are any: rigged votes do bend the other.
    """
    ratings, planted, missed = evidence.ratings(), 0, []
    for strengths in (fact["models"] for fact in facts):
        ordered = sorted((model for model in strengths if model in ratings), key=strengths.__getitem__)
        for weaker, stronger in combinations(ordered, 2):
            planted += 1
            low, high = ratings[weaker]["ci95_low"], ratings[stronger]["ci95_high"]
            if low is not None and high is not None and low > high:
                missed.append(f"{weaker} above {stronger}")
    return planted, missed


def _groups(facts: Sequence[PlantedFact]) -> list[list[PlantedFact]]:
    return [[fact for fact in facts if fact["group"] == group] for group in dict.fromkeys(f["group"] for f in facts)]


def _opens_with(text: str) -> pl.Expr:
    return pl.col("turns").list.first().struct.field("content") == text


_IMAGE_REFUSED = _each(
    lambda evidence, fact: (
        any(row["image_problems"] for row in evidence.conversations(fact)) and evidence.removed(fact, "image_unusable")
    )
)

EXPECTATIONS: dict[str, PlantedJudge] = {
    "face": _removed("face"),
    "nsfw_probe": _removed("nsfw_image"),
    "pii_text": _removed("pii_text"),
    "pii_image": _removed("pii_image"),
    "not_pii_text": _each(Evidence.kept),
    "leaked_identity": _removed("leaked_identity"),
    "not_leaked_identity": _each(Evidence.kept),
    "service_error": _removed("service_error"),
    "unfinished": _removed("unfinished"),
    "empty_answer": _removed("empty_message", "no_answer"),
    "user_flag": _removed("flagged_by_user"),
    "hostile_text": _each(_text_survives),
    "exact_duplicate": _one_of_each_group,
    "near_duplicate_picture": _versions_recognised,
    "not_near_duplicate": _look_alikes_survive,
    "hot_prompt": _each(lambda evidence, fact: evidence.count(_opens_with(fact["text"])) >= int(fact["count"])),
    "preset": _each(
        lambda evidence, fact: (
            (dataset := evidence.decision(fact).get("preset_dataset")) is not None
            and fact.get("dataset", dataset) == dataset
        )
    ),
    "preset_battle": _removed("preset_battle"),
    "exif_gps": _each(_without_metadata),
    **dict.fromkeys(("image_corrupt", "image_missing", "image_bomb", "image_animated"), _IMAGE_REFUSED),
    **dict.fromkeys(("animated_picture", "image_path_escape"), _IMAGE_REFUSED),
    "csam_flag": _each(_never_opened),
    "bad_line": _each(
        lambda evidence, fact: bool(places := evidence.places(fact)) and evidence.rejected_lines.issuperset(places)
    ),
    "named_battle": _each(
        lambda evidence, fact: (
            evidence.battle(fact).get("anonymous") is False and evidence.removed(fact, "named_battle")
        )
    ),
    "anonymous_revealed": _each(lambda evidence, fact: evidence.battle(fact).get("anonymous") is True),
    "same_model_both_sides": _removed("same_model"),
    "unequal_sides": _removed("unequal_sides"),
    "multi_turn_battle": _each(
        lambda evidence, fact: (
            {evidence.battle(fact).get(side) for side in ("turns_a", "turns_b")} == {fact["num_turns"]}
        )
    ),
    "vote_without_chat": _each(lambda evidence, fact: bool(evidence.battle(fact)) and evidence.kept(fact)),
    "regenerated": _each(
        lambda evidence, fact: any(
            row["turns"][-1]["content"] == fact["keep_answer"] for row in evidence.conversations(fact)
        )
    ),
    "image_reset_same_conv_id": _each(
        lambda evidence, fact: len(evidence.conversations(fact)) == int(fact["conversations"])
    ),
    **dict.fromkeys(("crosses_midnight", "stringified_record", "few_shot_offset"), _each(_one_conversation)),
    "text_only": _each(_without_image),
    "failure": _each(_failure_typed),
    "rigged_votes": _only_riggers_named,
    "model_strengths": _order_recovered,
}
"""Planted kind -> the check that it was handled correctly."""
