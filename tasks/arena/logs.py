"""The arena's logs, line for line as FastChat's vision arena writes them.

A line is one `write` and one `fsync` under a lock on the file, so several processes may write, and a killed one leaves
at most half of the last line; the next line then starts on its own. Nothing is acknowledged before it is on the disk.
"""

import fcntl
import os
import re
import secrets
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from schemas.errors import BadInput, why_unreadable
from schemas.items.conversation import RecordType, Winner
from schemas.items.reject import REQUESTS_FILE
from tasks.signals.rules.texts import markdown

SERVED_IMAGES, FLAGGED_IMAGES = "serve_images", "csam_images"
_NAME = re.compile(r"vision-(?:tmp|csam)-(\d{4}-\d{2}-\d{2})-conv\.json")
_PRIVATE = 0o600
LoggedRecord = Mapping[str, Any]
"""A parsed line of a log."""


class Line(NamedTuple):
    """Where a line stands."""

    file: str
    start: int
    """Bytes before it."""


class LogsUnwritable(Exception):
    """The log folder cannot be written; the arena takes no messages until it can."""


class LogFolder:
    """The folder that one server's logs and images are written to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.writable = True
        """Whether the last write succeeded."""

    def prepare(self, today: date) -> None:
        """Make the folder. Raises BadInput when it cannot be written, or holds logs of a day that is still to come."""
        try:
            (self.folder / SERVED_IMAGES).mkdir(parents=True, exist_ok=True)
            self.check()
        except (OSError, LogsUnwritable) as error:
            cause = error if isinstance(error, OSError) else error.__cause__
            why = why_unreadable(cause if isinstance(cause, Exception) else error)
            raise BadInput(f"--logs {str(self.folder)!r} cannot be written ({why}); give a folder that can") from None
        latest = max(self._files().values(), default=today)
        if latest > today:
            raise BadInput(
                f"--logs {str(self.folder)!r} holds lines of {latest}, and this machine's clock says {today} (UTC); "
                "set the clock, or give another folder"
            )

    def check(self) -> None:
        """Write and remove a few bytes. Raises LogsUnwritable."""
        probe = self.folder / f".writable-{os.getpid()}"
        try:
            with self._failing():
                write_whole(probe, b"\n" * 4096)
        finally:
            probe.unlink(missing_ok=True)

    def append(self, record: dict[str, Any], now: datetime, *, flagged: bool = False) -> Line:
        """Write a record to the file of its UTC day; returns its place. Raises LogsUnwritable; then it is not there."""
        kind = "csam" if flagged else "tmp"
        line = orjson.dumps(record) + b"\n"
        path = self.folder / f"vision-{kind}-{now.astimezone(UTC):%Y-%m-%d}-conv.json"
        with self._failing():
            return Line(sys.intern(path.name), _append(path, line))

    def keep_image(self, name: str, png: bytes) -> None:
        """Store an image under its name, unless it is there."""
        with self._failing():
            self._keep(self.folder / SERVED_IMAGES / f"{name}.png", png)

    def image(self, name: str) -> bytes:
        """A kept image as PNG; empty when it is not there any more."""
        try:
            return (self.folder / SERVED_IMAGES / f"{name}.png").read_bytes()
        except OSError:
            return b""

    def drop_images(self, names: Collection[str]) -> None:
        """Delete images that no line of any conversation names."""
        unnamed = {name: name.encode() for name in names}
        with self._failing():
            for file in self._files() if unnamed else {}:
                with file.open("rb") as stream:
                    for line in stream:
                        unnamed = {name: raw for name, raw in unnamed.items() if raw not in line}
            for name in unnamed:
                (self.folder / SERVED_IMAGES / f"{name}.png").unlink(missing_ok=True)

    def quarantine(self, name: str, content: bytes) -> None:
        """Keep an upload that is on a list of known images, as it came, for the operator alone."""
        with self._failing():
            (self.folder / FLAGGED_IMAGES).mkdir(mode=0o700, exist_ok=True)
            self._keep(self.folder / FLAGGED_IMAGES / name, content)

    def ask_takedown(self, conv_ids: list[str]) -> None:
        """Add conversation ids to the list that the next ingest of this folder applies first."""
        with self._failing():
            _append(self.folder / REQUESTS_FILE, "".join(f"{conv_id}\n" for conv_id in conv_ids).encode())

    def records(self) -> Iterator[tuple[dict[str, Any], Line]]:
        """Every whole record of earlier days and today, in order, with its place; unreadable lines are left out."""
        for file in self._files():
            start = 0
            with file.open("rb") as stream:
                for line in stream:
                    place, start = Line(file.name, start), start + len(line)
                    if record := _record(line):
                        yield record, place

    def added(self, read_to: dict[str, int], mark: bytes) -> Iterator[tuple[dict[str, Any], Line]]:
        """Whole records with `mark` that any process wrote behind the bytes of `read_to`, which is brought on."""
        for file in self._files():
            start = read_to.get(file.name, 0)
            with suppress(FileNotFoundError), file.open("rb") as stream:
                stream.seek(start)
                for line in stream:
                    if not line.endswith(b"\n"):  # is being written
                        break
                    place, start = Line(file.name, start), start + len(line)
                    read_to[file.name] = start
                    if mark in line and (record := _record(line)):
                        yield record, place

    def read(self, places: Iterable[Line]) -> list[dict[str, Any]]:
        """The records of some lines; those that are not there any more are left out."""
        records = []
        for place in places:
            with suppress(OSError), (self.folder / place.file).open("rb") as stream:
                stream.seek(place.start)
                records.append(_record(stream.readline()))
        return [record for record in records if record]

    def forgotten(self) -> set[str]:
        """Conversation ids whose removal was asked for."""
        with suppress(OSError):
            return set((self.folder / REQUESTS_FILE).read_text(encoding="utf-8", errors="replace").split())
        return set()

    def _files(self) -> dict[Path, date]:
        """Log file -> its day, in order."""
        dated = {path: _day(path.name) for path in sorted(self.folder.iterdir())} if self.folder.is_dir() else {}
        return {path: day for path, day in dated.items() if day}

    def _keep(self, path: Path, content: bytes) -> None:
        if not path.exists():
            replace_whole(path, content)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Turn errors of the disk into LogsUnwritable, and note whether the folder can be written."""
        try:
            yield
        except OSError as error:
            self.writable = False
            raise LogsUnwritable from error
        self.writable = True


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return record if isinstance(record, dict) else None


def _day(name: str) -> date | None:
    """The day of a log file; None for other files."""
    match = _NAME.fullmatch(name)
    try:
        return date.fromisoformat(match[1]) if match else None
    except ValueError:  # a month 13
        return None


def _append(path: Path, line: bytes) -> int:
    """Write a line at the end; returns how many bytes stand before it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, _PRIVATE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        size = os.fstat(descriptor).st_size
        broken = bool(size) and os.pread(descriptor, 1, size - 1) != b"\n"  # a process was killed in mid-line
        line = b"\n" + line if broken else line
        try:
            if os.write(descriptor, line) != len(line):
                raise OSError(28, os.strerror(28))
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, size)
            raise
        return size + broken
    finally:
        os.close(descriptor)


def replace_whole(path: Path, content: bytes) -> None:
    """Put a whole file, for its owner alone, in place of another or of none; a killed process leaves the old one."""
    part = path.with_suffix(f".part-{secrets.token_hex(8)}")
    try:
        write_whole(part, content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file for its owner alone; it is on the disk when this returns."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _PRIVATE)
    try:
        with open(descriptor, "wb", closefd=False) as stream:
            stream.write(content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_WINNERS = {
    RecordType.LEFT_VOTE: Winner.MODEL_A,
    RecordType.RIGHT_VOTE: Winner.MODEL_B,
    RecordType.TIE_VOTE: Winner.TIE,
    RecordType.BOTH_BAD_VOTE: Winner.BOTH_BAD,
}
VOTE_WORDS = frozenset(_WINNERS)
CHOICES = VOTE_WORDS | {RecordType.UNSURE_VOTE}
"""Verdicts on two answers: a vote, or that one does not know."""
RATINGS = frozenset({RecordType.UPVOTE, RecordType.DOWNVOTE})


class Cast(NamedTuple):
    """One anonymous vote."""

    model_a: str
    model_b: str
    vote: RecordType
    with_image: bool
    battle: str = ""
    """`conv_id` of its first side."""
    user: str = ""
    """The visitor, as logged."""
    seconds: float = 0.0
    """Time of the vote, since 1970 (UTC); 0 where it is not known."""
    style: tuple[int, ...] = (0,) * 8
    """Characters, headers, list items and bold runs of the answers of A, then of B."""

    @property
    def winner(self) -> str:
        """The winner, as in the table of battles."""
        return _WINNERS[self.vote].value


def cast_in(record: Mapping[str, Any]) -> Cast | None:
    """The anonymous vote of a log line; None of a line that is none, or has another shape."""
    kind, states = record.get("type"), record.get("states")
    if not isinstance(kind, str) or kind not in VOTE_WORDS or record.get("models") != ["", ""]:
        return None
    match states:
        case [{"model_name": str(a), "messages": list(messages)} as first, {"model_name": str(b)} as second]:
            with_image = any(
                isinstance(part, list) for message in messages if isinstance(message, list) for part in message
            )
            user, at = record.get("ip"), record.get("tstamp")
            voter_and_time = user if isinstance(user, str) else "", float(at) if isinstance(at, int | float) else 0.0
            style = (*_style(messages, _turn(record)), *_style(second.get("messages"), _turn(record)))
            return Cast(a, b, RecordType(kind), with_image, str(first.get("conv_id", "")), *voter_and_time, style)
    return None


def _turn(record: Mapping[str, Any]) -> int | None:
    """The turn that a vote is on, from 1; None for a vote on all that was said."""
    match record.get("opinions"):
        case [{"turn": int(turn)}, *_]:
            return turn
    return None


def _style(messages: object, turn: int | None) -> tuple[int, int, int, int]:
    """Characters, headers, list items and bold runs of one side's answers up to a turn."""
    rated_messages = messages[: turn and 2 * turn] if isinstance(messages, list) else []
    text = "\n".join(
        message[1]
        for message in rated_messages
        if isinstance(message, list) and message[:1] == ["assistant"] and isinstance(message[-1], str)
    )
    marks = markdown(text)
    headers = marks.h1 + marks.h2 + marks.h3 + marks.h4 + marks.h5 + marks.h6
    return len(text), headers, marks.ordered + marks.unordered, marks.bold_stars + marks.bold_underscores


def conv_ids_in(record: Mapping[str, Any]) -> list[str]:
    """The conversation ids of a line; none of a line of another shape."""
    states = record.get("states", [record.get("state")])
    conv_ids = [state.get("conv_id") for state in states if isinstance(state, dict)] if isinstance(states, list) else []
    return [conv_id for conv_id in conv_ids if isinstance(conv_id, str)]
