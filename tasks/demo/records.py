"""Raw records in the format of FastChat's `serve/`, for three eras of that format, and the days of each era."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from functools import cache
from random import Random
from typing import Any, NamedTuple

from schemas.row import Row
from tasks.demo.words import load

OPENS_SECONDS, OPEN_SECONDS = 6 * 3600, 17 * 3600
"""Conversations start between 06:00 and 23:00, so that only planted ones cross midnight."""
MIDNIGHT_SECONDS = 86_400
BUCKET = "https://pictures.example.org/serve_images"
"""Early servers sometimes logged a bucket address instead of a name."""


class Era(StrEnum):
    """Formats of FastChat's vision logs."""

    TEXT = "text"
    """Until 2024-05-09: messages are text; image names are in a separate key of chat lines; `.jpg` files."""
    JPG = "jpg"
    """Until 2024-06-18: image names in the messages; re-encoded `.jpg` files."""
    PNG = "png"
    """Since then: image names in the messages; `.png` files with exactly the hashed pixels."""


class LogDay(NamedTuple):
    """One day of traffic."""

    date: date
    era: Era
    share: float
    """Weight among the days."""
    has_morrow: bool
    """Whether the next day has traffic too."""

    @property
    def start(self) -> float:
        """Midnight, in seconds since the epoch. The server's clock runs on UTC."""
        return datetime.combine(self.date, time(), UTC).timestamp()


class Moment(NamedTuple):
    """When a scene begins."""

    day: LogDay
    at: float
    """Seconds since the epoch."""

    @property
    def era(self) -> Era:
        """The format of the day's logs."""
        return self.day.era


def log_days() -> list[LogDay]:
    """Every day of traffic, in order."""
    return [
        LogDay(run["first"] + timedelta(days=index), Era(run["era"]), run["share"], index < run["days"] - 1)
        for run in load("days")
        for index in range(run["days"])
    ]


class Model(Row):
    """One made-up model."""

    name: str
    """Name in the logs."""
    strength: float
    """Planted rating on a Bradley-Terry scale of 400, base 10."""
    roles: list[str]
    """Role names of its template: user, assistant."""


@cache
def models() -> tuple[Model, ...]:
    """All models, strongest first."""
    return tuple(Model(**entry) for entry in load("models"))


class Turn(NamedTuple):
    """A user message and its answer."""

    prompt: str
    answer: str | None


@dataclass(frozen=True)
class Talk:
    """One conversation with one model."""

    conv_id: str
    model: Model
    turns: tuple[Turn, ...]
    image: str | None = None
    """Logged name: 32 hex digits, or a hostile name."""
    flagged: bool = False
    """Whether the server's scan flagged the image as child abuse."""
    examples: tuple[str, ...] = ()
    """Few-shot messages of the template, before the user's first."""


def new_conv_id(rng: Random) -> str:
    """32 hex digits, like a uuid4 without dashes."""
    return f"{rng.getrandbits(128):032x}"


def state(talk: Talk, era: Era, turn_count: int | None = None) -> dict[str, Any]:
    """The conversation state after `turn_count` turns (default: all)."""
    user, assistant = talk.model.roles
    messages: list[list[Any]] = [[(user, assistant)[index % 2], text] for index, text in enumerate(talk.examples)]
    for index, turn in enumerate(talk.turns[:turn_count]):
        with_image = talk.image is not None and index == 0 and era is not Era.TEXT
        messages.append([user, [turn.prompt, [talk.image]] if with_image else turn.prompt])
        messages.append([assistant, turn.answer])
    content: dict[str, Any] = {
        "template_name": talk.model.name.partition("-")[0],
        "system_message": "",
        "roles": talk.model.roles,
        "messages": messages,
        "offset": len(talk.examples),
        "conv_id": talk.conv_id,
        "model_name": talk.model.name,
    }
    if era is Era.PNG and talk.image is not None:
        content["has_csam_image"] = talk.flagged
    return content


def chat(talk: Talk, era: Era, turn_count: int, start: float, finish: float, address: str) -> dict[str, Any]:
    """The log line written after a model's turn."""
    record: dict[str, Any] = {
        "tstamp": round(finish, 4),
        "type": "chat",
        "model": talk.model.name,
        "gen_params": {"temperature": 0.7, "top_p": 0.7, "max_new_tokens": 1024},
        "start": round(start, 4),
        "finish": round(finish, 4),
        "state": state(talk, era, turn_count),
        "ip": address,
    }
    if era is Era.TEXT and talk.image is not None:
        by_address = talk.conv_id[0] == "0"
        record["images"] = [f"{BUCKET}/{talk.image}.jpg" if by_address else talk.image]
    return record


def feedback(kind: str, talk: Talk, era: Era, at: float, address: str) -> dict[str, Any]:
    """The log line of a button in direct chat: upvote, downvote or flag."""
    return {"tstamp": round(at, 4), "type": kind, "model": talk.model.name, "state": state(talk, era), "ip": address}


def vote(kind: str, talks: Sequence[Talk], shown: Sequence[str], era: Era, at: float, address: str) -> dict[str, Any]:
    """The log line of a vote between two conversations; `shown` are the model names displayed on the page."""
    states = [state(talk, era) for talk in talks]
    return {"tstamp": round(at, 4), "type": kind, "models": list(shown), "states": states, "ip": address}
