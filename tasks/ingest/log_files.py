"""Which log files a run reads, and their bytes."""

import gzip
import re
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import IO, cast

import zstandard

from schemas.errors import BadInput

_NAME = re.compile(r"(?:vision-(?P<kind>tmp|csam)-)?(?P<day>\d{4}-\d{2}-\d{2})-conv\.jsonl?(?:\.gz|\.zst)?")
_COMPRESSED = (".gz", ".zst")
LINE_BYTES_MAX = 16 * 1024 * 1024
"""Longer lines are rejected unread: a state of 50 turns of 30,000 characters is below 8 MB."""
READ_BYTES = 1024 * 1024
"""Small enough that a block stays in the processor's cache while its lines are read."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class LogFile:
    """One file of records."""

    path: Path
    source: str
    """Path relative to the log folder, with forward slashes and without .gz or .zst: rotating renames nothing."""
    day: date | None
    """The server's local date in the file's name; null in other formats."""
    csam: bool
    """Whether the server keeps flagged conversations in this file."""

    @property
    def compressed(self) -> bool:
        """Whether the file can only be read from its beginning."""
        return self.path.suffix in _COMPRESSED


def log_files(folder: Path, since: date | None = None, until: date | None = None) -> list[LogFile]:
    """Log files below `folder` whose day lies in the window, both ends included, in name order.

    Other files beside them, such as the web server's own logs, are ignored. Several servers' folders may lie below.
    Raises BadInput when the folder is missing, holds no log file, or none in the window.
    """
    if not folder.is_dir():
        raise BadInput(f"log folder {str(folder)!r} does not exist or is not a folder")
    found = arena_logs(folder)
    if not found:
        raise BadInput(f"log folder {str(folder)!r} holds no log file; expected names like 2024-06-20-conv.json")
    days = sorted(file.day for file in found if file.day)
    chosen = [f for f in found if f.day and (since is None or f.day >= since) and (until is None or f.day <= until)]
    if not chosen:
        window = f"from {since or 'the first day'} to {until or 'the last day'}"
        raise BadInput(f"no log file {window}; the folder holds {days[0]} to {days[-1]}")
    return chosen


def arena_logs(folder: Path) -> list[LogFile]:
    """Every arena log below `folder`, in name order. Of a file and its compressed copy, the file."""
    by_source: dict[str, LogFile] = {}
    for file in _found(folder):
        by_source.setdefault(file.source, file)  # in name order, so the file comes before its compressed copy
    return [by_source[source] for source in sorted(by_source)]


def _found(folder: Path) -> Iterator[LogFile]:
    for path in sorted(folder.rglob("*-conv.json*")):
        match = _NAME.fullmatch(path.name)
        if match and path.is_file():
            try:
                day = date.fromisoformat(match["day"])
            except ValueError:
                continue
            yield LogFile(path, source_name(path, folder), day, match["kind"] == "csam")


def source_name(path: Path, folder: Path) -> str:
    """What a file is called in the tables."""
    relative = path.relative_to(folder)
    return (relative.with_suffix("") if path.suffix in _COMPRESSED else relative).as_posix()


def open_stream(path: Path) -> IO[bytes]:
    """The file's content, decompressed when its name says so."""
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.open(path))
    if path.suffix == ".zst":
        return cast(IO[bytes], zstandard.open(path, "rb"))
    return path.open("rb")


def blocks(stream: IO[bytes], size: int | None = None) -> Iterator[tuple[bytes, int]]:
    """(whole lines, bytes read) up to the end of the stream, or of its next `size` bytes.

    An overlong line comes alone, cut at its limit. The last block may end without a line end, when a server is
    about to write the rest.
    """
    pieces = _pieces(stream, sys.maxsize if size is None else size)
    waiting = b""
    for piece in pieces:
        waiting = waiting + piece if waiting else piece
        end = waiting.rfind(b"\n") + 1
        if end:
            yield waiting[:end], end
            waiting = waiting[end:]
        elif len(waiting) > LINE_BYTES_MAX:
            skipped, rest = _rest_of_line(pieces)
            yield waiting[: LINE_BYTES_MAX + 1] + b"\n", len(waiting) + skipped
            waiting = rest
    if waiting:
        yield waiting, len(waiting)


def _pieces(stream: IO[bytes], left: int) -> Iterator[bytes]:
    """What can be read; of an archive that breaks off, up to there and then a byte that no line may hold."""
    one_read = getattr(stream, "read1", stream.read)  # `read` of a broken archive loses what stands before the break
    try:
        while piece := one_read(min(READ_BYTES, left)):
            left -= len(piece)
            yield piece
    except (EOFError, OSError, zlib.error, zstandard.ZstdError):
        yield b"\0"


def _rest_of_line(pieces: Iterator[bytes]) -> tuple[int, bytes]:
    """Read on to the end of the line: (bytes that belong to it, what was read beyond)."""
    skipped = 0
    for piece in pieces:
        end = piece.find(b"\n") + 1
        if end:
            return skipped + end, piece[end:]
        skipped += len(piece)
    return skipped, b""


def split_lines(block: bytes) -> list[bytes]:
    """The lines of a block; the end of the last line starts no further line."""
    pieces = block.split(b"\n")
    if not pieces[-1]:
        pieces.pop()
    return pieces


def lines(file: LogFile) -> Iterator[tuple[int, bytes]]:
    """(1-based number, raw bytes without the line end) of every line; too long ones are cut."""
    number = 0
    with open_stream(file.path) as stream:
        for block, _ in blocks(stream):
            for raw in split_lines(block):
                number += 1
                yield number, raw.rstrip(b"\r")
