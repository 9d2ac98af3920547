"""Messages that a pipeline should act on or leave alone: personal data, leaked names, service texts, hostile texts."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from hashlib import sha256
from random import Random
from typing import Any

from tasks.demo.log_writer import LogLine
from tasks.demo.problems.plan import Planter, Problem, texts
from tasks.demo.records import Talk, Turn
from tasks.demo.stage import Stage, battle_lines, chat_lines
from tasks.demo.timeline import Moment

_IN_BATTLES_EVERY = 3
"""Every third planted message stands in a battle, the others in direct chats."""


def planter(kind: str, in_battles: bool = True) -> Planter:
    """Plants each text of a kind in a conversation of its own."""

    def plant(stage: Stage, rng: Random) -> Iterator[Problem]:
        for number, text in enumerate(texts(kind)):
            play = _in_battle if in_battles and number % _IN_BATTLES_EVERY == 2 else _in_chat
            yield Problem(partial(play, stage, kind, text))

    return plant


def empty_answers(stage: Stage, rng: Random) -> Iterator[Problem]:
    """Answers that are null, as while one is pending, or hold nothing."""
    for detail, answer in (("null", None), ("empty", ""), ("blank", "  \n")):
        yield Problem(partial(_emptied, stage, detail, answer))


def _in_chat(stage: Stage, kind: str, text: dict[str, Any], rng: Random, moment: Moment) -> list[LogLine]:
    talk = _with_text(_any_talk(stage, rng, moment), text)
    return chat_lines(rng, talk, moment, stage.crowd.anybody(rng), [_fact(kind, talk, text)])


def _in_battle(stage: Stage, kind: str, text: dict[str, Any], rng: Random, moment: Moment) -> list[LogLine]:
    picture = stage.picture(rng, moment)
    prompts = [_prompt(text)] if "prompt" in text else stage.prompts(rng, picture)
    left, right = stage.pair(rng, picture, prompts)
    left = _with_text(left, text)
    talks = (left, right) if rng.random() < 0.5 else (right, left)
    return battle_lines(rng, talks, moment, stage.crowd.anybody(rng), [_fact(kind, left, text)])


def _emptied(stage: Stage, detail: str, answer: str | None, rng: Random, moment: Moment) -> list[LogLine]:
    talk = _any_talk(stage, rng, moment)
    talk = replace(talk, turns=(Turn(talk.turns[0].prompt, answer),))
    return chat_lines(rng, talk, moment, stage.crowd.anybody(rng), [_fact("empty_answer", talk, {"detail": detail})])


def _any_talk(stage: Stage, rng: Random, moment: Moment) -> Talk:
    picture = stage.picture(rng, moment)
    return stage.talk(rng, picture, stage.prompts(rng, picture))


def _with_text(talk: Talk, text: dict[str, Any]) -> Talk:
    first = talk.turns[0]
    turn = Turn(_prompt(text) if "prompt" in text else first.prompt, text.get("answer", first.answer))
    return replace(talk, turns=(turn, *talk.turns[1:]))


def _prompt(text: dict[str, Any]) -> str:
    glue: str = text.get("glue", " ")
    return glue.join([text["prompt"]] * text.get("repeat", 1))


def _fact(kind: str, talk: Talk, text: dict[str, Any]) -> dict[str, Any]:
    fact: dict[str, Any] = {"kind": kind, "conversation_id": talk.conv_id}
    if "detail" in text:
        fact["detail"] = text["detail"]
    if kind == "hostile_text":
        fact["prompt_sha256"] = sha256(talk.turns[0].prompt.encode()).hexdigest()
    return fact


PLANTERS: dict[str, Callable[[Stage, Random], Iterator[Problem]]] = {
    "pii_text": planter("pii_text"),
    "not_pii_text": planter("not_pii_text", in_battles=False),
    "leaked_identity": planter("leaked_identity"),
    "not_leaked_identity": planter("not_leaked_identity", in_battles=False),
    "service_error": planter("service_error"),
    "unfinished": planter("unfinished"),
    "hostile_text": planter("hostile_text", in_battles=False),
    "empty_answer": empty_answers,
}
