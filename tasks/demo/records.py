"""Raw records in the format of FastChat's `serve/`, for three eras of that format, and the log files they go to."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, BinaryIO, NamedTuple

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


class Model(NamedTuple):
    """One made-up model; `words/models.yaml` says what its fields mean."""

    name: str
    strength: float
    roles: list[str]


@cache
def models() -> tuple[Model, ...]:
    """All models, strongest first."""
    return tuple(Model(**entry) for entry in load("models"))


class Exchange(NamedTuple):
    """A user message and its answer."""

    prompt: str
    answer: str | None


@dataclass(frozen=True)
class Talk:
    """One conversation with one model."""

    conv_id: str
    model: Model
    turns: tuple[Exchange, ...]
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
        "template_name": talk.model.name.partition("-")[0], "system_message": "", "roles": talk.model.roles,
        "messages": messages, "offset": len(talk.examples), "conv_id": talk.conv_id, "model_name": talk.model.name,
    }  # fmt: skip
    if era is Era.PNG and talk.image is not None:
        content["has_csam_image"] = talk.flagged
    return content


def logged_turn(talk: Talk, era: Era, turn_count: int, start: float, finish: float, address: str) -> dict[str, Any]:
    """The log line written after a model's turn."""
    record: dict[str, Any] = {
        "tstamp": round(finish, 4), "type": "chat", "model": talk.model.name,
        "gen_params": {"temperature": 0.7, "top_p": 0.7, "max_new_tokens": 1024}, "start": round(start, 4),
        "finish": round(finish, 4), "state": state(talk, era, turn_count), "ip": address,
    }  # fmt: skip
    if era is Era.TEXT and talk.image is not None:
        by_address = talk.conv_id[0] == "0"
        record["images"] = [f"{BUCKET}/{talk.image}.jpg" if by_address else talk.image]
    return record


def feedback(kind: str, talk: Talk, era: Era, at: float, address: str) -> dict[str, Any]:
    """The log line of a button in direct chat: upvote, downvote or flag."""
    return {"tstamp": round(at, 4), "type": kind, "model": talk.model.name, "state": state(talk, era), "ip": address}


def logged_vote(
    kind: str, talks: Sequence[Talk], shown_names: Sequence[str], era: Era, at: float, address: str, reason: str = ""
) -> dict[str, Any]:
    """The log line of a vote between two conversations; `shown_names` are the model names displayed on the page."""
    states = [state(talk, era) for talk in talks]
    record = {"tstamp": round(at, 4), "type": kind, "models": list(shown_names), "states": states, "ip": address}
    return record | ({"reason": reason} if reason else {})


PlantedFact = dict[str, Any]

VISION_FILES_SINCE = date(2024, 5, 9)


class Channel(StrEnum):
    """The one of the server's logs that a line goes to."""

    VISION = "vision"
    TEXT = "text"
    CSAM = "csam"


class LogLine(NamedTuple):
    """One line to write."""

    at: float
    """Seconds since the epoch: decides the order and the file."""
    content: bytes
    """The line without its end."""
    channel: Channel = Channel.VISION
    facts: tuple[PlantedFact, ...] = ()
    """Planted facts to write with this line."""
    ended: bool = True
    """False for the incomplete last line of a crashed server."""


def record_line(
    record: dict[str, Any], channel: Channel = Channel.VISION, facts: tuple[PlantedFact, ...] = ()
) -> LogLine:
    """A record as the server dumps it."""
    return LogLine(record["tstamp"], json.dumps(record).encode(), channel, facts)


def file_name(at: float, channel: Channel) -> str:
    """The log file for a line written at that time."""
    day = datetime.fromtimestamp(at, UTC).date()
    if channel is Channel.CSAM:
        return f"vision-csam-{day}-conv.json"
    if channel is Channel.VISION and day >= VISION_FILES_SINCE:
        return f"vision-tmp-{day}-conv.json"
    return f"{day}-conv.json"


class LogWriter:
    """Writes lines day by day, and the facts about them."""

    def __init__(self, logs: Path, expected: Path) -> None:
        self._logs = logs
        self._expected = expected
        self._facts = expected.with_suffix(".partial").open("w", encoding="utf-8")
        self._lines: Counter[str] = Counter()

    def write_day(self, lines: Iterable[LogLine]) -> None:
        """Write lines in the order of their times."""
        with ExitStack() as stack:
            files: dict[str, BinaryIO] = {}
            for line in sorted(lines, key=lambda line: line.at):
                name = file_name(line.at, line.channel)
                if name not in files:
                    files[name] = stack.enter_context((self._logs / name).open("ab"))
                files[name].write(line.content + b"\n" * line.ended)
                self._lines[name] += 1
                for fact in line.facts:
                    if fact["kind"] == "bad_line":
                        digest = hashlib.sha256(line.content).hexdigest()
                        fact = fact | {"file": name, "line": self._lines[name], "sha256": digest}
                    self.write_fact(fact)

    def write_fact(self, fact: PlantedFact) -> None:
        """Write one planted fact."""
        self._facts.write(json.dumps(fact, ensure_ascii=False) + "\n")

    def close(self) -> None:
        """Rename the file of facts to its final name; without it an arena is unfinished."""
        self._facts.close()
        Path(self._facts.name).replace(self._expected)
