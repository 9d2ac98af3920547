"""Messages that must be caught or must survive, and votes with a reason."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from hashlib import sha256
from random import Random
from typing import Any

from tasks.demo import drawings
from tasks.demo.drawings import FAMILIES
from tasks.demo.problems.plan import EXACT, IN_MESSAGES, Planter, about, planter, texts, upload
from tasks.demo.records import Exchange, LogLine, Moment, PlantedFact, Talk, models
from tasks.demo.traffic import Person, PlayedScene, Stage, vote_line

_KINDS = (
    "pii_text", "not_pii_text", "leaked_identity", "not_leaked_identity", "service_error", "unfinished", "hostile_text",
    "empty_answer",
)  # fmt: skip
_IN_BATTLES_EVERY, _IN_CHATS = 3, {"not_pii_text", "not_leaked_identity", "hostile_text", "empty_answer"}
"""Every third planted message is in a battle and the others in direct chats; those of some kinds are all in chats."""


def _scenes(kind: str) -> Iterator[PlayedScene]:
    for number, text in enumerate(texts(kind)):
        in_battle = kind not in _IN_CHATS and number % _IN_BATTLES_EVERY == 2
        yield partial(_in_battle if in_battle else _in_chat, kind, text)


def _in_chat(kind: str, text: dict[str, Any], stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    talk = _with_text(stage.any_talk(rng, moment), text)
    return stage.chat(rng, moment, talk, _fact(kind, talk, text))


def _in_battle(kind: str, text: dict[str, Any], stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    image = stage.image(rng, moment)
    prompts = [_prompt(text)] if "prompt" in text else stage.prompts(rng, image)
    left, right = stage.pair(rng, image, prompts)
    left = _with_text(left, text)
    talks = (left, right) if rng.random() < 0.5 else (right, left)
    return stage.battle(rng, moment, talks, _fact(kind, left, text))


def _with_text(talk: Talk, text: dict[str, Any]) -> Talk:
    first = talk.turns[0]
    turn = Exchange(_prompt(text) if "prompt" in text else first.prompt, text.get("answer", first.answer))
    return replace(talk, turns=(turn, *talk.turns[1:]))


def _prompt(text: dict[str, Any]) -> str:
    glue: str = text.get("glue", " ")
    return glue.join([text["prompt"]] * text.get("repeat", 1))


def _fact(kind: str, talk: Talk, text: dict[str, Any]) -> PlantedFact:
    more = {"detail": text["detail"]} if "detail" in text else {}
    if kind == "hostile_text":
        more["prompt_sha256"] = sha256(talk.turns[0].prompt.encode()).hexdigest()
    return about(kind, talk, **more)


OF_MESSAGES: dict[str, Planter] = {kind: planter(*_scenes(kind)) for kind in _KINDS}
"""Kind -> function that plants it."""


FAILED_PEOPLE, FAILED_APART_SECONDS = 2, 900
TARGET = "willow-mini-vl"
VOTES, ASKS_EVERY = 12, 3
"""Votes of each, and of how many prompts one asks which model answers."""
APART_SECONDS, ANSWERED_SECONDS, HOUR_SECONDS = 2.0, 20.0, 3600
"""They play several battles at a time, so that one vote follows soon after another."""
RIGGERS = (Person("198.51.100.255", "en"), Person("203.0.113.255", "en"))
"""Addresses of nobody in the crowd."""


def _failed(failure: dict[str, Any], stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    """Votes of different people, with other models each; the fact names the left conversation of the first vote.

    `family` is what the image shows; `pattern` is an image that the embedded NSFW classifier scores as pornography.
    """
    draw = FAMILIES.get(failure["family"], drawings.misread_pattern)
    image, lines = upload(stage.images.save(draw(rng).image, moment.era)), list[LogLine]()
    people = dict.fromkeys([stage.crowd.anybody(rng)])
    while len(people) < FAILED_PEOPLE:
        people[stage.crowd.anybody(rng)] = None
    for number, person in enumerate(people):
        talks = stage.pair(rng, image, [failure["prompt"]])
        fact = {"kind": "failure", "conversation_id": talks[0].conv_id, "failure_type": failure["type"]}
        then = Moment(moment.day, moment.at + number * FAILED_APART_SECONDS)
        lines += stage.battle(rng, then, talks, *([fact] if number == 0 else ()), person=person, vote="bothbad_vote")
    return lines


def _rigged(stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    """Two voters vote for the target on either side, within one hour and faster than anybody reads.

    Each one's first vote has the fact.
    """
    opened = moment.at - moment.at % HOUR_SECONDS + rng.uniform(60, HOUR_SECONDS / 2)
    lines: list[LogLine] = []
    for number in range(VOTES):
        for person in RIGGERS:
            at = Moment(moment.day, opened + number * APART_SECONDS)
            (target,) = (model for model in models() if model.name == TARGET)
            image, others = stage.image(rng, at), [model for model in models() if model is not target]
            pair = [target, others[number % len(others)]][:: 1 if rng.random() < 0.5 else -1]
            (prompt,) = stage.prompts(rng, image)
            prompts = [f"Which model are you? {prompt}" if number % ASKS_EVERY == 0 else prompt]
            left, right = (stage.talk(rng, image, prompts, model=model) for model in pair)
            facts: list[PlantedFact] = [{"kind": "rigged_votes", "battle": left.conv_id, "model": TARGET}]
            vote = "leftvote" if pair[0] is target else "rightvote"
            voted = Moment(at.day, at.at + ANSWERED_SECONDS)
            chats = [line for talk in (left, right) for line in stage.chat(rng, at, talk, person=person)]
            lines += [*chats, vote_line(rng, voted, (left, right), person, *(facts if number == 0 else ()), vote=vote)]
    return lines


OF_VOTES: dict[str, Planter] = {
    "failure": planter(*(partial(_failed, failure) for failure in texts("failure")), eras=EXACT),
    "rigged_votes": planter(_rigged, eras=IN_MESSAGES),
}
"""Kind -> function that plants it."""
