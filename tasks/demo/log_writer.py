"""Writes log lines in time order into the file of their day, and the facts about planted problems."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Any, BinaryIO, NamedTuple

from tasks.demo.people import Crowd
from tasks.demo.records import LogDay

Fact = dict[str, Any]

VISION_FILES_SINCE = date(2024, 5, 9)
SERVER_LOG, SERVER_LINES_A_DAY = "gradio_web_server.log", 20
"""The web server's own text log, which lies beside the conversation logs and must be ignored."""
_ACTIONS = ["load_demo", "add_text", "bot_response", "regenerate", "clear_history", "leftvote (anony)"]


class Channel(StrEnum):
    """Which of the server's logs a line goes to."""

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
    facts: tuple[Fact, ...] = ()
    """Planted facts to write with this line."""
    ended: bool = True
    """False for the incomplete last line of a crashed server."""


def record_line(record: dict[str, Any], channel: Channel = Channel.VISION, facts: tuple[Fact, ...] = ()) -> LogLine:
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

    def write_fact(self, fact: Fact) -> None:
        """Write one planted fact."""
        self._facts.write(json.dumps(fact, ensure_ascii=False) + "\n")

    def close(self) -> None:
        """Rename the file of facts to its final name; without it an arena is unfinished."""
        self._facts.close()
        Path(self._facts.name).replace(self._expected)


def write_server_log(logs: Path, days: Iterable[LogDay], crowd: Crowd, rng: Random) -> None:
    """Write some lines for every day."""
    with (logs / SERVER_LOG).open("w", encoding="utf-8") as stream:
        for day in days:
            for number in range(SERVER_LINES_A_DAY):
                clock = timedelta(seconds=6 * 3600 + number * 3000 + rng.randint(0, 2999))
                action, address = rng.choice(_ACTIONS), crowd.anybody(rng).address
                stream.write(f"{day.date} {clock!s:0>8} | INFO | gradio_web_server | {action}. ip: {address}\n")
