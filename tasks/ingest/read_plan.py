"""Which bytes of which files are new, cut into pieces that can be read at the same time.

An unchanged file costs a stat. A grown file is read from its last whole line on. A file that was rewritten, or that
can only be read from its beginning, is read anew.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from schemas.conversation import LogFileRead
from tasks.ingest.log_files import READ_BYTES, LogFile

PIECE_BYTES = 32 * 1024 * 1024
"""What one reader reads at a time and writes as one part."""
_BLOCKS, _BLOCK_BYTES = 64, 4096
"""What is compared of the bytes that were read: all of a small file, and of a large one enough to see long changes."""
_LINE_END = ord("\n")


class Piece(NamedTuple):
    """Part of a file that one reader reads."""

    file: LogFile
    format: str
    start: int
    """First byte."""
    stop: int | None
    """Byte after the last; null for a file that is read as a whole."""
    lines_before: int
    """Lines of the file before the piece."""
    lines: int | None
    """Lines in the piece; null for a file that is read as a whole."""

    @property
    def size_bytes(self) -> int:
        """Bytes on disk."""
        return self.file.path.stat().st_size if self.stop is None else self.stop - self.start


@dataclass(frozen=True)
class FilePlan:
    """What is to be read of one file."""

    read: LogFileRead
    """The ledger's row when it has been read; files read as a whole get their lines then."""
    lines_kept: int
    """Lines of the file that earlier runs read and that still stand."""
    pieces: list[Piece]


def changed(files: Iterable[tuple[LogFile, str]], ledger: Mapping[str, LogFileRead]) -> list[tuple[LogFile, str]]:
    """The (file, format) that are not as the ledger says."""
    return [each for each in files if not _as_known(*each, ledger.get(each[0].source))]


def _as_known(file: LogFile, name: str, known: LogFileRead | None) -> bool:
    status = file.path.stat()
    stamp = (name, status.st_size, status.st_mtime_ns)
    return known is not None and (known.format, known.size_bytes, known.modified_ns) == stamp


def plan(file: LogFile, name: str, known: LogFileRead | None) -> FilePlan:
    """What is to be read of a file, as format `name`, that the ledger knows as `known`."""
    modified_ns = file.path.stat().st_mtime_ns
    known = known if known and known.format == name else None
    seen = {"source": file.source, "format": name, "modified_ns": modified_ns}
    if file.compressed or file.path.suffix in (".parquet", ".arrow"):
        size = file.path.stat().st_size
        row = LogFileRead(**seen, size_bytes=size, offset=0, lines=0, tail_lines=0, end_digest="")
        return FilePlan(row, 0, [Piece(file, name, 0, None, 0, None)])
    grown = known is not None and known.offset > 0 and known.end_digest == _digest(file, known.offset)
    offset, lines = (known.offset, known.lines) if known and grown else (0, 0)
    kept = lines
    pieces: list[Piece] = []
    start, lines_before, end = offset, lines, offset
    for size, line_ends, last_line_end in _line_ends(file.path, offset):
        if line_ends:
            lines, offset = lines + line_ends, end + last_line_end
        end += size
        if offset - start >= PIECE_BYTES:
            pieces.append(Piece(file, name, start, offset, lines_before, lines - lines_before))
            start, lines_before = offset, lines
    if offset > start:
        pieces.append(Piece(file, name, start, offset, lines_before, lines - lines_before))
    if end > offset:  # the unfinished last line by itself, because it will be read again
        pieces.append(Piece(file, name, offset, end, lines, 1))
    row = LogFileRead(
        **seen,
        size_bytes=end,
        offset=offset,
        lines=lines,
        tail_lines=int(end > offset),
        end_digest=_digest(file, offset),
    )
    return FilePlan(row, kept, pieces)


def _line_ends(path: Path, offset: int) -> Iterator[tuple[int, int, int]]:
    """(bytes, line ends among them, where the last of these ends) of what follows `offset`, read by read."""
    content = bytearray(READ_BYTES)
    seen = np.frombuffer(content, np.uint8)
    with path.open("rb", buffering=0) as stream:
        stream.seek(offset)
        while size := stream.readinto(content):
            line_ends = int(np.count_nonzero(seen[:size] == _LINE_END))  # bytes.count takes three times as long
            yield size, line_ends, content.rfind(b"\n", 0, size) + 1


def _digest(file: LogFile, offset: int) -> str:
    """Hash of blocks spread evenly over the bytes before `offset`, the first and last among them, and of how many.

    Empty when the file is shorter. What changes between two blocks and keeps its length is not seen.
    """
    if file.path.stat().st_size < offset:
        return ""
    last = max(0, offset - _BLOCK_BYTES)
    digest = hashlib.blake2b(str(offset).encode(), digest_size=16)
    with file.path.open("rb", buffering=0) as stream:
        for start in sorted({last * number // (_BLOCKS - 1) for number in range(_BLOCKS)}):
            stream.seek(start)
            digest.update(stream.read(min(_BLOCK_BYTES, offset - start)))
    return digest.hexdigest()


def batches(plans: Iterable[FilePlan]) -> Iterator[list[Piece]]:
    """Pieces together of about one block, so that many small files are one part."""
    waiting: list[Piece] = []
    waiting_bytes = 0
    for piece in (piece for each in plans for piece in each.pieces):
        size = PIECE_BYTES if piece.stop is None else piece.stop - piece.start
        if waiting and waiting_bytes + size > PIECE_BYTES:
            yield waiting
            waiting, waiting_bytes = [], 0
        waiting.append(piece)
        waiting_bytes += size
    if waiting:
        yield waiting
