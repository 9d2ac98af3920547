"""Which bytes of which files are new, cut into pieces that can be read at the same time.

An unchanged file costs a stat. A grown file is read from its last whole line on, after its old bytes were hashed. A
file that was rewritten, or that can only be read from its beginning, is read anew.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from xxhash import xxh3_128

from schemas.conversation import LogFileRead
from tasks.ingest.log_files import READ_BYTES, LogFile

PART_BYTES = 32 * 1024 * 1024
"""What one reader reads in one go and writes as one part."""
PIECE_BYTES = PART_BYTES // 4 - 2 * READ_BYTES
"""What it has in memory of that: so little that the memory is used again. The last piece of a file may be larger."""
PIECE_BYTES_MIN = 4 * 1024 * 1024
"""Fewer bytes are no piece of their own."""
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
    file_bytes, modified_ns = file.path.stat().st_size, file.path.stat().st_mtime_ns
    known = known if known and known.format == name else None
    seen = {"source": file.source, "format": name, "modified_ns": modified_ns}
    if file.compressed or file.path.suffix in (".parquet", ".arrow"):
        row = LogFileRead(**seen, size_bytes=file_bytes, offset=0, lines=0, tail_lines=0, end_digest="")
        return FilePlan(row, 0, [Piece(file, name, 0, None, 0, None)])
    offset, lines, whole_lines = _read_before(file.path, known)
    kept = lines
    pieces: list[Piece] = []
    start, lines_before, end = offset, lines, offset
    for size, line_ends, last_line_end, digest in _line_ends(file.path, offset, whole_lines):
        if line_ends:
            lines, offset, whole_lines = lines + line_ends, end + last_line_end, digest
        end += size
        if offset - start >= PIECE_BYTES and file_bytes - offset >= PIECE_BYTES_MIN:
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
        end_digest=whole_lines.hexdigest(),
    )
    return FilePlan(row, kept, pieces)


def _read_before(path: Path, known: LogFileRead | None) -> tuple[int, int, xxh3_128]:
    """(bytes, lines, their digest) of what is still as it was read; nothing of a file that was rewritten."""
    before = _digest(path, known.offset) if known and known.offset else None
    if known and before and before.hexdigest() == known.end_digest:
        return known.offset, known.lines, before
    return 0, 0, xxh3_128()


def _line_ends(path: Path, offset: int, digest: xxh3_128) -> Iterator[tuple[int, int, int, xxh3_128]]:
    """(bytes, line ends among them, where the last of these ends, `digest` up to there) of what follows `offset`."""
    content, digest = bytearray(READ_BYTES), digest.copy()
    seen, view = np.frombuffer(content, np.uint8), memoryview(content)
    with path.open("rb", buffering=0) as stream:
        stream.seek(offset)
        while size := stream.readinto(content):
            line_ends = int(np.count_nonzero(seen[:size] == _LINE_END))  # bytes.count takes three times as long
            last = content.rfind(b"\n", 0, size) + 1
            digest.update(view[:last])
            yield size, line_ends, last, digest.copy()
            digest.update(view[last:size])


def _digest(path: Path, offset: int) -> xxh3_128:
    """Hash of the bytes before `offset`, or of all where there are fewer: as fast as memory, for no one is deceived."""
    content, digest = memoryview(bytearray(READ_BYTES)), xxh3_128()
    with path.open("rb", buffering=0) as stream:
        while size := stream.readinto(content[: min(READ_BYTES, offset)]):
            digest.update(content[:size])
            offset -= size
    return digest


def batches(plans: Iterable[FilePlan]) -> Iterator[list[Piece]]:
    """Pieces together of about one part; many small files are one too."""
    waiting: list[Piece] = []
    waiting_bytes = 0
    for piece in (piece for each in plans for piece in each.pieces):
        size = PART_BYTES if piece.stop is None else piece.stop - piece.start
        if waiting and waiting_bytes + size > PART_BYTES:
            yield waiting
            waiting, waiting_bytes = [], 0
        waiting.append(piece)
        waiting_bytes += size
    if waiting:
        yield waiting
