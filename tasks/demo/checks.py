"""What a good pipeline does with one planted item, as something that can be looked up in a store."""

import io
from hashlib import sha256

import PIL.Image
import polars as pl

from tasks.demo.evidence import Evidence, Fact
from tasks.demo.judging import Judge, decision_on, each, has_fallen, kept


def hostile_text_survives(evidence: Evidence, fact: Fact) -> bool:
    """Whether the conversation is released and its prompt is unchanged, where the fact tells what it was."""
    rows = evidence.conversations(fact["conversation_id"])
    prompt = rows[0]["turns"][0]["content"] if rows else ""
    unchanged = fact.get("prompt_sha256") in (None, sha256(prompt.encode()).hexdigest())
    return kept(evidence, fact) and unchanged


def picture_refused(evidence: Evidence, fact: Fact) -> bool:
    """Whether the picture counts as unusable and the conversation falls with it."""
    rows = evidence.conversations(fact["conversation_id"])
    return any(row["image_problems"] for row in rows) and has_fallen(evidence, fact, "image_unusable")


def without_metadata(evidence: Evidence, fact: Fact) -> bool:
    """Whether the picture is stored, and without any EXIF."""
    stored = evidence.stored_pictures(fact["conversation_id"])
    return bool(stored) and not any(_has_exif(content) for content in stored)


def never_opened(evidence: Evidence, fact: Fact) -> bool:
    """Whether a flagged conversation and its picture are held back, and nothing of them is in any table."""
    picture, conv_id = fact.get("image"), fact.get("conversation_id") or fact["battle"]
    held = conv_id in evidence.quarantined and (picture is None or picture in evidence.quarantined)
    known = evidence.conversations(conv_id) or evidence.battle(conv_id) or decision_on(evidence, fact)
    return held and not known and picture not in evidence.opened_pictures


def line_rejected(evidence: Evidence, fact: Fact) -> bool:
    """Whether every place of the bad line is among the rejects."""
    places = evidence.places(fact)
    return bool(places) and evidence.rejected_lines.issuperset(places)


def preset_known(evidence: Evidence, fact: Fact) -> bool:
    """Whether the picture is known to come from the preset collection."""
    decision = decision_on(evidence, fact)
    dataset = decision["preset_dataset"] if decision else None
    return dataset is not None and fact.get("dataset", dataset) == dataset


def battle_is(anonymous: bool) -> Judge:
    """Whether the vote is there, anonymous or named as it should be; a named one must fall."""

    def check(evidence: Evidence, fact: Fact) -> bool:
        battle = evidence.battle(fact["battle"])
        right = battle is not None and battle["anonymous"] is anonymous
        return right and (anonymous or has_fallen(evidence, fact, "named_battle"))

    return each(check)


def turns_counted(evidence: Evidence, fact: Fact) -> bool:
    """Whether the vote stands for so many turns on both sides."""
    battle = evidence.battle(fact["battle"])
    return battle is not None and {battle["turns_a"], battle["turns_b"]} == {fact["num_turns"]}


def vote_counts(evidence: Evidence, fact: Fact) -> bool:
    """Whether the vote is there and released."""
    return evidence.battle(fact["battle"]) is not None and kept(evidence, fact)


def last_answer_kept(evidence: Evidence, fact: Fact) -> bool:
    """Whether a conversation under the id ends with the answer that was given last."""
    rows = evidence.conversations(fact["conversation_id"])
    return fact["keep_answer"] in [row["turns"][-1]["content"] for row in rows]


def told_apart(evidence: Evidence, fact: Fact) -> bool:
    """Whether there are as many conversations under the id as there were."""
    wanted: int = fact["conversations"]
    return len(evidence.conversations(fact["conversation_id"])) == wanted


def one_conversation(evidence: Evidence, fact: Fact) -> bool:
    """Whether the id holds one conversation, with the right number of user messages where that is told."""
    rows = evidence.conversations(fact["conversation_id"])
    turns = fact.get("turns", fact.get("num_turns"))
    return len(rows) == 1 and turns in (None, rows[0]["num_turns"])


def without_picture(evidence: Evidence, fact: Fact) -> bool:
    """Whether a conversation without picture, or so many of them, came through."""
    if "count" in fact:
        no_picture = (pl.col("image_ids").list.len() == 0) & (pl.col("image_problems").list.len() == 0)
        return evidence.count_conversations(no_picture) >= int(fact["count"])
    rows = evidence.conversations(fact["conversation_id"])
    return bool(rows) and not rows[0]["image_ids"] and kept(evidence, fact)


def hot_prompt_found(evidence: Evidence, fact: Fact) -> bool:
    """Whether all conversations that open with the prompt are there."""
    opening = pl.col("turns").list.first().struct.field("content")
    return evidence.count_conversations(opening == fact["text"]) >= int(fact["count"])


def _has_exif(content: bytes) -> bool:
    with PIL.Image.open(io.BytesIO(content)) as image:
        return len(image.getexif()) > 0 or b"Exif\0\0" in content
