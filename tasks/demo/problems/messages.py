"""Messages that must be caught or must survive: personal data, leaked model names, service texts, hostile texts."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from hashlib import sha256
from random import Random
from typing import Any

from tasks.demo.problems.plan import Planter, about, planter, texts
from tasks.demo.records import Exchange, Fact, LogLine, Moment, Talk
from tasks.demo.traffic import Scene, Stage

_KINDS = (
    "pii_text", "not_pii_text", "leaked_identity", "not_leaked_identity", "service_error", "unfinished", "hostile_text",
    "empty_answer",
)  # fmt: skip
_IN_BATTLES_EVERY, _IN_CHATS = 3, {"not_pii_text", "not_leaked_identity", "hostile_text", "empty_answer"}
"""Every third planted message is in a battle and the others in direct chats; those of some kinds are all in chats."""


def _scenes(kind: str) -> Iterator[Scene]:
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


def _fact(kind: str, talk: Talk, text: dict[str, Any]) -> Fact:
    more = {"detail": text["detail"]} if "detail" in text else {}
    if kind == "hostile_text":
        more["prompt_sha256"] = sha256(talk.turns[0].prompt.encode()).hexdigest()
    return about(kind, talk, **more)


PLANTERS: dict[str, Planter] = {kind: planter(*_scenes(kind)) for kind in _KINDS}
"""Kind -> function that plants it."""
