"""How many planted problems a store caught, for the demo's own arena and for any other with an `expected.jsonl`.

A new kind is a line in `EXPECTATIONS`, with what a good pipeline does and the check that tells.
"""

import io
from collections.abc import Callable, Sequence
from hashlib import sha256
from itertools import chain, combinations
from pathlib import Path
from typing import NamedTuple

import PIL.Image
import polars as pl

from schemas.errors import BadInput, known_values
from schemas.planted import PlantedScore
from tasks.demo.evidence import Evidence, Fact, read_facts
from tasks.storage.tables import Store

LOGS = "logs"
"""Where the raw logs lie, beside the file of planted facts."""

Verdict = tuple[int, list[str]]
"""How many there are, and the ids of those that were missed."""
Judge = Callable[[Evidence, Sequence[Fact]], Verdict]


class Expectation(NamedTuple):
    """What should become of a kind."""

    good_outcome: str
    judge: Judge


def score_planted(expected: Path, store: Store) -> list[PlantedScore]:
    """One score for each kind that `expected` holds, in the order of `EXPECTATIONS`.

    Lines planted without a number are found by their hash in the `logs` folder beside `expected`.
    Raises BadInput for a kind that is not known here.
    """
    by_kind = read_facts(expected)
    for kind in by_kind:
        if kind not in EXPECTATIONS:
            raise BadInput(f"{str(expected)!r}: unknown kind {known_values(kind, EXPECTATIONS)}")
    evidence = Evidence(store, chain.from_iterable(by_kind.values()), expected.parent / LOGS)
    return [_score(kind, evidence, by_kind[kind]) for kind in EXPECTATIONS if kind in by_kind]


def _score(kind: str, evidence: Evidence, facts: Sequence[Fact]) -> PlantedScore:
    expectation = EXPECTATIONS[kind]
    planted, missed = expectation.judge(evidence, facts)
    return PlantedScore(
        kind=kind,
        good_outcome=expectation.good_outcome,
        planted=planted,
        caught=planted - len(missed),
        missed=len(missed),
        missed_ids=missed,
    )


def _fact_id(fact: Fact) -> str:
    """How a person finds a planted item again."""
    for key in ("conversation_id", "battle", "text"):
        if key in fact:
            return str(fact[key])
    return f"{fact['file']}:{fact.get('line') or fact['sha256'][:12]}" if "file" in fact else str(fact["kind"])


def _each(check: Callable[[Evidence, Fact], bool]) -> Judge:
    """A judge that looks at every fact alone."""

    def judge(evidence: Evidence, facts: Sequence[Fact]) -> Verdict:
        return len(facts), [_fact_id(fact) for fact in facts if not check(evidence, fact)]

    return judge


def _removed(*reasons: str) -> Judge:
    """A judge that wants items not released, or tagged with one of the reasons where a policy only tags."""
    return _each(lambda evidence, fact: evidence.removed(fact, *reasons))


def _text_survives(evidence: Evidence, fact: Fact) -> bool:
    """Whether the conversation is released and its prompt is unchanged, where the fact tells what it was."""
    rows = evidence.conversations(fact)
    prompt = rows[0]["turns"][0]["content"] if rows else ""
    return evidence.kept(fact) and fact.get("prompt_sha256") in (None, sha256(prompt.encode()).hexdigest())


def _image_refused(evidence: Evidence, fact: Fact) -> bool:
    """Whether the image counts as unusable and the conversation is not released."""
    problems = any(row["image_problems"] for row in evidence.conversations(fact))
    return problems and evidence.removed(fact, "image_unusable")


def _without_metadata(evidence: Evidence, fact: Fact) -> bool:
    """Whether the image is stored, and without any EXIF."""
    stored = evidence.stored_images(fact)
    return bool(stored) and not any(_has_exif(content) for content in stored)


def _has_exif(content: bytes) -> bool:
    with PIL.Image.open(io.BytesIO(content)) as image:
        return len(image.getexif()) > 0 or b"Exif\0\0" in content


def _never_opened(evidence: Evidence, fact: Fact) -> bool:
    """Whether a flagged conversation and its image are held back, and nothing of them is in any table."""
    image, conv_id = fact.get("image"), fact.get("conversation_id") or fact["battle"]
    held = conv_id in evidence.quarantined and (image is None or image in evidence.quarantined)
    known = evidence.conversations({"conversation_id": conv_id}) or evidence.battle({"battle": conv_id})
    return held and not known and not evidence.decision(fact) and image not in evidence.opened_images


def _line_rejected(evidence: Evidence, fact: Fact) -> bool:
    """Whether every place of the bad line is among the rejects."""
    places = evidence.places(fact)
    return bool(places) and evidence.rejected_lines.issuperset(places)


def _preset_known(evidence: Evidence, fact: Fact) -> bool:
    """Whether the image is known to come from the preset collection."""
    decision = evidence.decision(fact)
    dataset = decision["preset_dataset"] if decision else None
    return dataset is not None and fact.get("dataset", dataset) == dataset


def _vote(check: Callable[[Evidence, Fact, Fact], bool]) -> Judge:
    """A judge that wants the vote of every fact to be there, and to pass a check: (evidence, fact, vote)."""

    def checked(evidence: Evidence, fact: Fact) -> bool:
        vote = evidence.battle(fact)
        return vote is not None and check(evidence, fact, vote)

    return _each(checked)


def _known_as_named(evidence: Evidence, fact: Fact, vote: Fact) -> bool:
    return not vote["anonymous"] and evidence.removed(fact, "named_battle")


def _turns_counted(evidence: Evidence, fact: Fact, vote: Fact) -> bool:
    return {vote["turns_a"], vote["turns_b"]} == {fact["num_turns"]}


def _last_answer_kept(evidence: Evidence, fact: Fact) -> bool:
    """Whether a conversation under the id ends with the answer that was given last."""
    return fact["keep_answer"] in [row["turns"][-1]["content"] for row in evidence.conversations(fact)]


def _told_apart(evidence: Evidence, fact: Fact) -> bool:
    """Whether there are as many conversations under the id as there were."""
    wanted: int = fact["conversations"]
    return len(evidence.conversations(fact)) == wanted


def _one_conversation(evidence: Evidence, fact: Fact) -> bool:
    """Whether the id holds one conversation, with the right number of user messages where that is told."""
    rows = evidence.conversations(fact)
    turns = fact.get("turns", fact.get("num_turns"))
    return len(rows) == 1 and turns in (None, rows[0]["num_turns"])


def _without_image(evidence: Evidence, fact: Fact) -> bool:
    """Whether a conversation without an image, or so many of them, came through."""
    if "count" in fact:
        no_image = (pl.col("image_ids").list.len() == 0) & (pl.col("image_problems").list.len() == 0)
        return evidence.count_conversations(no_image) >= int(fact["count"])
    rows = evidence.conversations(fact)
    return bool(rows) and not rows[0]["image_ids"] and evidence.kept(fact)


def _hot_prompt_found(evidence: Evidence, fact: Fact) -> bool:
    """Whether all conversations that open with the prompt are there."""
    opening = pl.col("turns").list.first().struct.field("content")
    return evidence.count_conversations(opening == fact["text"]) >= int(fact["count"])


def _one_of_each_group(evidence: Evidence, facts: Sequence[Fact]) -> Verdict:
    """Of every group at most one is released; the others are counted."""
    missed: list[str] = []
    groups = _groups(facts)
    for members in groups:
        missed += [_fact_id(fact) for fact in members if not evidence.removed(fact, "duplicate")][1:]
    return len(facts) - len(groups), missed


def _versions_recognised(evidence: Evidence, facts: Sequence[Fact]) -> Verdict:
    """Every version of an image is paired with its original; originals are not counted."""
    originals = {fact["group"]: fact for fact in facts if fact["variant"] == "original"}
    versions = [fact for fact in facts if fact["variant"] != "original"]

    def found(fact: Fact) -> bool:
        original = originals.get(fact["group"])
        return original is not None and evidence.same_image(fact, original)

    return len(versions), [f"{_fact_id(fact)} ({fact['variant']})" for fact in versions if not found(fact)]


def _look_alikes_survive(evidence: Evidence, facts: Sequence[Fact]) -> Verdict:
    """Every member of a group is released, and none is taken for another."""
    missed = []
    for members in _groups(facts):
        for fact in members:
            mistaken = any(evidence.same_image(fact, other) for other in members if other is not fact)
            if mistaken or not evidence.kept(fact):
                missed.append(_fact_id(fact))
    return len(facts), missed


def _order_recovered(evidence: Evidence, facts: Sequence[Fact]) -> Verdict:
    """No pair of models is rated the wrong way round beyond doubt. Nothing is counted before models were rated."""
    ratings, planted, missed = evidence.ratings(), 0, []
    for strengths in (fact["models"] for fact in facts):
        ordered = sorted((model for model in strengths if model in ratings), key=strengths.__getitem__)
        for weaker, stronger in combinations(ordered, 2):
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


_KEPT = _each(Evidence.kept)
_REFUSED = Expectation("the picture is rejected and the conversation with it", _each(_image_refused))

EXPECTATIONS: dict[str, Expectation] = {
    "face": Expectation("not released", _removed("face")),
    "nsfw_probe": Expectation("not released", _removed("nsfw_image")),
    "pii_text": Expectation("not released", _removed("pii_text")),
    "pii_image": Expectation("not released", _removed("pii_image")),
    "not_pii_text": Expectation("released", _KEPT),
    "leaked_identity": Expectation("not released", _removed("leaked_identity")),
    "not_leaked_identity": Expectation("released", _KEPT),
    "service_error": Expectation("not released", _removed("service_error")),
    "unfinished": Expectation("not released", _removed("unfinished")),
    "empty_answer": Expectation("not released", _removed("empty_message", "no_answer")),
    "user_flag": Expectation("not released", _removed("flagged_by_user")),
    "hostile_text": Expectation("released unchanged", _each(_text_survives)),
    "exact_duplicate": Expectation("of each group one is released", _one_of_each_group),
    "near_duplicate_picture": Expectation("paired with its original", _versions_recognised),
    "not_near_duplicate": Expectation("released, and not taken for another", _look_alikes_survive),
    "hot_prompt": Expectation("every use is found", _each(_hot_prompt_found)),
    "preset": Expectation("known as a preset", _each(_preset_known)),
    "exif_gps": Expectation("stored without EXIF", _each(_without_metadata)),
    "image_corrupt": _REFUSED,
    "image_missing": _REFUSED,
    "image_bomb": _REFUSED,
    "image_animated": _REFUSED,
    "animated_picture": _REFUSED,
    "image_path_escape": _REFUSED,
    "csam_flag": Expectation("held back, never opened", _each(_never_opened)),
    "bad_line": Expectation("rejected with file and line", _each(_line_rejected)),
    "named_battle": Expectation("known as named, not released", _vote(_known_as_named)),
    "anonymous_revealed": Expectation(
        "known as anonymous", _vote(lambda evidence, fact, vote: bool(vote["anonymous"]))
    ),
    "same_model_both_sides": Expectation("not released", _removed("same_model")),
    "unequal_sides": Expectation("not released", _removed("unequal_sides")),
    "multi_turn_battle": Expectation("one vote with all turns", _vote(_turns_counted)),
    "vote_without_chat": Expectation("released", _vote(lambda evidence, fact, vote: evidence.kept(fact))),
    "regenerated": Expectation("the last answer counts", _each(_last_answer_kept)),
    "image_reset_same_conv_id": Expectation("two conversations", _each(_told_apart)),
    "crosses_midnight": Expectation("one conversation", _each(_one_conversation)),
    "stringified_record": Expectation("read like any other", _each(_one_conversation)),
    "few_shot_offset": Expectation("examples are left out", _each(_one_conversation)),
    "text_only": Expectation("read, without picture", _each(_without_image)),
    "model_strengths": Expectation("no two models are rated the wrong way round", _order_recovered),
}
"""Kind -> what should become of it."""
