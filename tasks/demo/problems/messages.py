"""Messages that must be caught or must survive: personal data, leaked model names, service texts, hostile texts."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from hashlib import sha256
from random import Random
from typing import Any

from tasks.demo.log_writer import Fact, LogLine
from tasks.demo.problems.plan import Planter, Problem, about, repeated, texts
from tasks.demo.records import Moment, Talk, Turn
from tasks.demo.traffic import Stage

_IN_BATTLES_EVERY = 3
"""Every third planted message is in a battle, the others in direct chats."""


def planter(kind: str, in_battles: bool = True) -> Planter:
    """Plants each text of a kind in a conversation of its own."""

    def plant(stage: Stage, rng: Random) -> Iterator[Problem]:
        for number, text in enumerate(texts(kind)):
            play = _in_battle if in_battles and number % _IN_BATTLES_EVERY == 2 else _in_chat
            yield Problem(partial(play, stage, kind, text))

    return plant


def _in_chat(stage: Stage, kind: str, text: dict[str, Any], rng: Random, moment: Moment) -> list[LogLine]:
    talk = _with_text(stage.any_talk(rng, moment), text)
    return stage.chat(rng, moment, talk, _fact(kind, talk, text))


def _in_battle(stage: Stage, kind: str, text: dict[str, Any], rng: Random, moment: Moment) -> list[LogLine]:
    image = stage.image(rng, moment)
    prompts = [_prompt(text)] if "prompt" in text else stage.prompts(rng, image)
    left, right = stage.pair(rng, image, prompts)
    left = _with_text(left, text)
    talks = (left, right) if rng.random() < 0.5 else (right, left)
    return stage.battle(rng, moment, talks, _fact(kind, left, text))


def _emptied(stage: Stage, answer: tuple[str, str | None], rng: Random, moment: Moment) -> list[LogLine]:
    talk = stage.any_talk(rng, moment)
    talk = replace(talk, turns=(Turn(talk.turns[0].prompt, answer[1]),))
    return stage.chat(rng, moment, talk, about("empty_answer", talk, detail=answer[0]))


def _with_text(talk: Talk, text: dict[str, Any]) -> Talk:
    first = talk.turns[0]
    turn = Turn(_prompt(text) if "prompt" in text else first.prompt, text.get("answer", first.answer))
    return replace(talk, turns=(turn, *talk.turns[1:]))


def _prompt(text: dict[str, Any]) -> str:
    glue: str = text.get("glue", " ")
    return glue.join([text["prompt"]] * text.get("repeat", 1))


def _fact(kind: str, talk: Talk, text: dict[str, Any]) -> Fact:
    more = {"detail": text["detail"]} if "detail" in text else {}
    if kind == "hostile_text":
        more["prompt_sha256"] = sha256(talk.turns[0].prompt.encode()).hexdigest()
    return about(kind, talk, **more)


PLANTERS: dict[str, Planter] = {
    "pii_text": planter("pii_text"),
    "not_pii_text": planter("not_pii_text", in_battles=False),
    "leaked_identity": planter("leaked_identity"),
    "not_leaked_identity": planter("not_leaked_identity", in_battles=False),
    "service_error": planter("service_error"),
    "unfinished": planter("unfinished"),
    "hostile_text": planter("hostile_text", in_battles=False),
    "empty_answer": repeated(_emptied, ("null", None), ("empty", ""), ("blank", "  \n")),
}
"""Kind -> function that plants it."""
