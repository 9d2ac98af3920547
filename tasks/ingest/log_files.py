"""Which log files a run reads, and their lines."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from schemas.errors import BadInput

_NAME = re.compile(r"(?:vision-(?P<kind>tmp|csam)-)?(?P<day>\d{4}-\d{2}-\d{2})-conv\.jsonl?")
LINE_BYTES_MAX = 16 * 1024 * 1024
"""Longer lines are rejected unread: a state of 50 turns of 30,000 characters is below 8 MB."""


@dataclass(frozen=True)
class LogFile:
    """One file of conversation records."""

    path: Path
    source: str
    """Path relative to the log folder, with forward slashes."""
    day: date
    """The server's local date in the file's name."""
    csam: bool
    """Whether the server keeps flagged conversations in this file."""


def log_files(folder: Path, since: date | None = None, until: date | None = None) -> list[LogFile]:
    """Log files below `folder` whose day lies in the window, both ends included, in name order.

    Other files beside them, such as the web server's own logs, are ignored.
    Raises BadInput when the folder is missing, holds no log file, or none in the window.
    """
    if not folder.is_dir():
        raise BadInput(f"log folder {str(folder)!r} does not exist or is not a folder")
    found = sorted(_found(folder), key=lambda file: file.source)
    if not found:
        raise BadInput(f"log folder {str(folder)!r} holds no log file; expected names like 2024-06-20-conv.json")
    chosen = [f for f in found if (since is None or f.day >= since) and (until is None or f.day <= until)]
    if not chosen:
        days = sorted(file.day for file in found)
        window = f"from {since or 'the first day'} to {until or 'the last day'}"
        raise BadInput(f"no log file {window}; the folder holds {days[0]} to {days[-1]}")
    return chosen


def _found(folder: Path) -> Iterator[LogFile]:
    for path in folder.rglob("*-conv.json*"):
        match = _NAME.fullmatch(path.name)
        if match and path.is_file():
            try:
                day = date.fromisoformat(match["day"])
            except ValueError:
                continue
            yield LogFile(path, path.relative_to(folder).as_posix(), day, match["kind"] == "csam")


def lines(file: LogFile) -> Iterator[tuple[int, bytes]]:
    """(1-based number, raw bytes without the line end) of every line; too long ones are cut."""
    with file.path.open("rb") as stream:
        number = 0
        while piece := stream.readline(LINE_BYTES_MAX + 1):
            number += 1
            whole = piece
            while not piece.endswith(b"\n") and (piece := stream.readline(LINE_BYTES_MAX)):
                pass  # the rest of an overlong line is skipped, not kept
            yield number, whole.rstrip(b"\r\n")
