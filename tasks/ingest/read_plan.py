"""Finds the new bytes of each file and cuts them into pieces that can be read in parallel.

Unchanged files are skipped. Appended files resume at the last offset if the hash of the old bytes is the same.
Rewritten files, archives and tables are read from the beginning.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import BinaryIO, NamedTuple

from xxhash import xxh3_128

from schemas.conversation import LogFileRead
from tasks.ingest.formats.data_files import TABLES
from tasks.ingest.log_files import LogFile

PIECE_BYTES = 8 * 1024 * 1024
"""Bytes that a reader holds in memory; more if a line is longer."""
PART_BYTES = 4 * PIECE_BYTES
"""Bytes that a reader reads in one batch and writes as one part."""


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


class FilePlan(NamedTuple):
    """The pieces of one file to read."""

    read: LogFileRead
    """The row of `log_files` when it has been read; files read as a whole get their lines then."""
    lines_kept: int
    """Lines that earlier runs read and that have not changed."""
    pieces: list[Piece]


def changed(files: Iterable[tuple[LogFile, str]], before: Mapping[str, LogFileRead]) -> list[tuple[LogFile, str]]:
    """The (file, format) whose size, time or format differ from what was read before."""
    return [each for each in files if not _is_known(*each, before.get(each[0].source))]


def _is_known(file: LogFile, name: str, known: LogFileRead | None) -> bool:
    status = file.path.stat()
    stamp = (name, status.st_size, status.st_mtime_ns)
    return known is not None and (known.format, known.size_bytes, known.modified_ns) == stamp


def plan(file: LogFile, name: str, known: LogFileRead | None) -> FilePlan:
    """Plan the reading of a file in format `name`; `known` says how far earlier runs read it."""
    status = file.path.stat()
    row = LogFileRead(
        source=file.source, format=name, size_bytes=status.st_size, modified_ns=status.st_mtime_ns,
        offset=0, lines=0, tail_lines=0, end_digest="",
    )  # fmt: skip
    if file.compressed or file.path.suffix in TABLES:
        return FilePlan(row, 0, [Piece(file, name, 0, None, 0, None)])
    with file.path.open("rb", buffering=0) as stream:
        digest = _unchanged(stream, known) if known and known.format == name else None
        start, lines = (known.offset, known.lines) if known and digest else (0, 0)
        stream.seek(start)
        return _plan_rest(stream, row, Piece(file, name, start, start, lines, 0), digest or xxh3_128())


def _unchanged(stream: BinaryIO, known: LogFileRead) -> xxh3_128 | None:
    """The digest of the bytes before the offset, or None if they have changed."""
    digest, left = xxh3_128(), known.offset
    while left and (content := stream.read(min(PIECE_BYTES, left))):
        digest.update(content)
        left -= len(content)
    return digest if known.offset and digest.hexdigest() == known.end_digest else None


def _plan_rest(stream: BinaryIO, row: LogFileRead, first: Piece, digest: xxh3_128) -> FilePlan:
    """Cut the rest of the file into pieces of whole lines. An unfinished last line is a piece of its own."""
    pieces: list[Piece] = []
    start, position, lines, whole = first.start, first.start, first.lines_before, digest.copy()
    while content := stream.read(PIECE_BYTES):
        end = content.rfind(b"\n") + 1
        if end:
            whole = digest.copy()
            whole.update(content[:end])
            count = content.count(b"\n")
            pieces.append(first._replace(start=start, stop=position + end, lines_before=lines, lines=count))
            start, lines = position + end, lines + count
        digest.update(content)
        position += len(content)
    if position > start:
        pieces.append(first._replace(start=start, stop=position, lines_before=lines, lines=1))
    read = {"size_bytes": position, "offset": start, "lines": lines, "tail_lines": int(position > start)}
    return FilePlan(row.model_copy(update=read | {"end_digest": whole.hexdigest()}), first.lines_before, pieces)


def batches(plans: Iterable[FilePlan]) -> Iterator[list[Piece]]:
    """Group pieces, also of different files, into batches of about PART_BYTES."""
    waiting: list[Piece] = []
    waiting_bytes = 0
    for piece in (piece for each in plans for piece in each.pieces):
        size = PART_BYTES if piece.stop is None else piece.size_bytes
        if waiting and waiting_bytes + size > PART_BYTES:
            yield waiting
            waiting, waiting_bytes = [], 0
        waiting.append(piece)
        waiting_bytes += size
    if waiting:
        yield waiting
