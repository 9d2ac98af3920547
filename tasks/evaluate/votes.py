"""Asks a judge for its vote on battles that people voted on. Votes are stored as they arrive; none is asked twice."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from schemas.agreement import JudgeVote
from schemas.asked_model import AskedModel
from schemas.conversation import Winner
from schemas.errors import BadInput
from schemas.judging import STAND_IN, Label
from tasks.evaluate.answers import Called
from tasks.evaluate.consensus import closeness, label_of
from tasks.evaluate.questions import Images
from tasks.prompts import load_prompt, untrusted
from tasks.providers.capabilities import ChatMessage, ChatModel, Failed, TextEmbedder
from tasks.providers.chat import chat_model
from tasks.runtime.parallel import map_as_done
from tasks.runtime.progress import progress
from tasks.storage.parts import append_incrementally
from tasks.storage.queries.images import StoredImages
from tasks.storage.queries.shown_battles import ShownBattle
from tasks.storage.tables import Store

_PROMPT = "judges/vote"
_MARK = re.compile(r"\[\[\s*(left|right|tie|both bad|na)\s*\]\]", re.IGNORECASE)
_OPENS = re.compile(r"\[(?=\[)")
_VOTES = {"left": Winner.MODEL_A, "right": Winner.MODEL_B, "tie": Winner.TIE, "both bad": Winner.BOTH_BAD}
_OF_LABEL = {
    Label.A_MUCH_BETTER: Winner.MODEL_A,
    Label.A_BETTER: Winner.MODEL_A,
    Label.TIE: Winner.TIE,
    Label.B_BETTER: Winner.MODEL_B,
    Label.B_MUCH_BETTER: Winner.MODEL_B,
}
NOTE = (
    "the embedded judge is a stand-in: the better answer is closer to the text in the images; it has no verdict where "
    "there is none, and never says both bad"
)


def parse_vote(text: str) -> Winner | None:
    """The one vote in double square brackets; None for NA, for none, and for several different ones."""
    found = {mark.lower() for mark in _MARK.findall(text)}
    return _VOTES.get(found.pop()) if len(found) == 1 else None


def message(battle: ShownBattle) -> str:
    """The words that the judge is sent. Double brackets in the material are spaced out."""
    texts = {name: untrusted(_OPENS.sub("[ ", getattr(battle, name))) for name in ("prompt", "left", "right")}
    return re.sub(r"\{(\w+)\}", lambda name: texts[name[1]], load_prompt(_PROMPT).text)


def _places(battle: ShownBattle, text: str) -> tuple[int, ...]:
    """Characters of the message before each image; empty when the prompt does not stand in it as it is."""
    start = text.find(f"]\n{battle.prompt}\n[")
    return tuple(start + 2 + place for place in battle.places) if start >= 0 else ()


def judge_version(judge: AskedModel) -> str:
    """Model and its settings, then the prompt."""
    return f"{judge.version}+{load_prompt(_PROMPT).version.removeprefix('judges/')}"


@dataclass(frozen=True)
class Battles:
    """Drawn battles with what is needed to show and to store them."""

    shown: Sequence[ShownBattle]
    """In the order of the draw."""
    sides: dict[str, tuple[str, str]]
    """battle_id -> conversation ids of both sides."""
    images: Callable[[ShownBattle], Images]
    """Reads the images of a battle. Thread-safe."""


def battles_of(store: Store, battles: Sequence[ShownBattle]) -> Battles:
    """The battles with their images. Raises BadInput when one is lost: a vote without it would be a guess."""
    stored = StoredImages(store, "images", "redacted_images")
    lost = next((i for each in battles for i in each.image_ids if i not in stored.part_of), None)
    if lost is not None:
        raise BadInput(f"image {lost!r} of a drawn battle is lost; put the store's copy back, or decide again")
    sides = {name: (a, b) for name, a, b in store.read("battles", ["battle_id", *_SIDES]).iter_rows()}

    def images(battle: ShownBattle) -> Images:
        return tuple((found.format, found.bytes) for found in map(stored.__getitem__, battle.image_ids))

    return Battles(battles, sides, images)


_SIDES = ("conversation_a", "conversation_b")


def without_vote(store: Store, battles: Sequence[ShownBattle], version: str) -> list[ShownBattle]:
    """The battles on which this judge has not voted, or which looked different then."""
    known = set(store.read("judge_votes", ["battle_id", "shown", "judge_version"]).iter_rows())
    return [each for each in battles if (each.battle_id, each.content_id, version) not in known]


def ask_votes(store: Store, battles: Battles, judge: AskedModel) -> Called:
    """Ask for every vote that is missing. A failed call stores nothing, so the next run makes it again."""
    model, done = chat_model(judge), Called()
    wanted = without_vote(store, battles.shown, judge_version(judge))
    with progress(f"votes of {judge.name}", len(wanted)) as advance, append_incrementally(store, "judge_votes") as keep:
        for vote in map_as_done(lambda each: _vote(model, judge, battles, each), wanted, model.calls_at_once):
            done.calls[judge.name] += 1
            if isinstance(vote, Failed):
                done.failures[judge.name, vote.reason] += 1
            else:
                done.counts["votes" if vote.label else "no_verdict"] += 1
                keep([vote.model_dump()])
            advance()
    return done


def _vote(model: ChatModel, judge: AskedModel, battles: Battles, battle: ShownBattle) -> JudgeVote | Failed:
    text = message(battle)
    reply = model.chat([ChatMessage("user", text, battles.images(battle), _places(battle, text))])
    if isinstance(reply, Failed):
        return reply
    return _row(
        battles, battle, judge.name, judge_version(judge), parse_vote(reply.text), reply.text, reply.output_tokens
    )


def vote_by_consensus(
    store: Store, battles: Battles, embedder: TextEmbedder, image_text: Callable[[Sequence[str]], str]
) -> Called:
    """Votes of the embedded stand-in: the answer that is closer to the text in the images wins."""
    version, done = f"embedded-consensus-votes1-{embedder.version}", Called()
    with append_incrementally(store, "judge_votes") as keep:
        for battle in without_vote(store, battles.shown, version):
            label, why = _closer(battle, image_text(battle.image_ids), embedder)
            keep([_row(battles, battle, STAND_IN, version, label, why, None).model_dump()])
            done.counts["votes" if label else "no_verdict"] += 1
    return done


def _closer(battle: ShownBattle, image_text: str, embedder: TextEmbedder) -> tuple[Winner | None, str]:
    if not image_text.strip():
        return None, "No text in the images to compare with."
    left, right = closeness([battle.left, battle.right], image_text, embedder)
    return _OF_LABEL[
        label_of(left, right)
    ], f"Closeness to the other answer and the images' text: {left:.3f}, {right:.3f}."


def _row(
    battles: Battles, battle: ShownBattle, judge: str, version: str, label: Winner | None, text: str, tokens: int | None
) -> JudgeVote:
    left, right = battles.sides[battle.battle_id]
    return JudgeVote(
        battle_id=battle.battle_id,
        conversation_a=left,
        conversation_b=right,
        shown=battle.content_id,
        label=label,
        judge=judge,
        judge_version=version,
        tokens=tokens,
        text=text,
    )
