"""Pieces of files -> parts of the `sightings` and `rejects` tables, in as many processes as there are workers."""

import gc
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from schemas.reject import Reject
from tasks.ingest.formats import ARENA_LOGS, DOORS
from tasks.ingest.formats.read_published import read_published
from tasks.ingest.formats.rows import TABLES, table_rows
from tasks.ingest.log_files import open_stream, raw_lines
from tasks.ingest.log_line import Place
from tasks.ingest.people import Pseudonyms
from tasks.ingest.picture_names import LinkedPictures, linked_pictures
from tasks.ingest.read_logs import LogContent, read_line
from tasks.ingest.read_plan import PART_BYTES, PIECE_BYTES, Piece
from tasks.ingest.sighting_frame import sighting_table
from tasks.running.parallel import map_in_processes
from tasks.tables import Store, frame_of

BATCHES_ALONE = 6
"""As many are read in this process sooner than others have started."""
_ROWS_A_BLOCK = 1024


class PartsRead(NamedTuple):
    """What one batch of pieces became."""

    sightings: list[str]
    """Parts of the table, not yet listed."""
    rejects: list[str]
    lines: Counter[str]
    """Lines by source."""
    reasons: Counter[str]
    """Rejected lines by reason."""
    bytes_read: int
    flagged_conv_ids: set[str]
    flagged_pictures: set[str]


class PieceReader(NamedTuple):
    """Reads batches of pieces; travels to other processes."""

    store: str
    key: bytes
    logs: Path

    def read(self, batch: Sequence[Piece]) -> PartsRead:
        """Read a batch and write its parts. Nothing in a line can stop the reading."""
        people, linked = Pseudonyms(self.key), linked_pictures(self.logs)
        result = PartsRead([], [], Counter(), Counter(), sum(piece.size_bytes for piece in batch), set(), set())
        part = _Part(Store(self.store), result)
        with _collector_paused():
            for piece in batch:
                first = Place(piece.file.source, piece.lines_before + 1)
                for size, rows in _blocks(piece):
                    content, sightings = _read(rows, first, piece, people, linked)
                    part.add(content, sightings, size)
                    first = first._replace(line=first.line + content.line_count)
                result.lines[first.source] += first.line - 1 - piece.lines_before
            part.write()
        return result


class _Part:
    """Collects what blocks hold until it is enough for a part. Their sightings wait as columns, not as objects."""

    def __init__(self, store: Store, result: PartsRead) -> None:
        self._store = store
        self._result = result
        self._sightings: list[pa.Table] = []
        self._rejects: list[Reject] = []
        self._bytes = 0

    def add(self, content: LogContent, sightings: pa.Table, size: int) -> None:
        if sightings.num_rows:
            self._sightings.append(sightings)
        self._rejects += content.rejects
        self._result.flagged_conv_ids.update(content.flagged_conv_ids)
        self._result.flagged_pictures.update(content.flagged_pictures)
        self._bytes += size
        if self._bytes >= PART_BYTES:
            self.write()

    def write(self) -> None:
        if self._sightings:
            self._result.sightings.append(self._store.write_part("sightings", pa.concat_tables(self._sightings)))
        if self._rejects:
            self._result.rejects.append(self._store.write_part("rejects", frame_of(Reject, self._rejects)))
            self._result.reasons.update(row.reason.value for row in self._rejects)
        self._sightings, self._rejects, self._bytes = [], [], 0


def read_batches(reader: PieceReader, batches: Iterable[Sequence[Piece]], workers: int) -> Iterator[PartsRead]:
    """What became of each batch, in order; more than a few are read by `workers` processes."""
    ahead = iter(batches)
    first = list(islice(ahead, BATCHES_ALONE + 1))
    if workers == 1 or len(first) <= BATCHES_ALONE:
        yield from map(reader.read, chain(first, ahead))
    else:
        yield from map_in_processes(reader.read, chain(first, ahead), workers)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Millions of small objects without cycles: looking for cycles would take a third of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _blocks(piece: Piece) -> Iterator[tuple[int, Iterable[Any]]]:
    """(about how many bytes, raw lines or rows) of a piece, some at a time."""
    if piece.file.path.suffix in TABLES:
        rows = table_rows(piece.file.path, picture_bytes=False)
        while some_rows := list(islice(rows, _ROWS_A_BLOCK)):
            yield PART_BYTES // 16, some_rows
        return
    with open_stream(piece.file.path) as stream:
        lines = raw_lines(stream)
        if piece.lines is not None:
            stream.seek(piece.start)
            yield piece.size_bytes, islice(lines, piece.lines)
            return
        while some_lines := _some_lines(lines):
            yield sum(map(len, some_lines)), some_lines


def _some_lines(rows: Iterator[bytes]) -> list[bytes]:
    """The next lines of an archive, up to a piece."""
    size, some = 0, []
    for raw in rows:
        some.append(raw)
        size += len(raw)
        if size >= PIECE_BYTES:
            break
    return some


def _read(
    rows: Iterable[Any], first: Place, piece: Piece, people: Pseudonyms, linked: LinkedPictures
) -> tuple[LogContent, pa.Table]:
    """What some rows or lines hold, and its sightings."""
    content = LogContent()
    for number, row in enumerate(rows):
        place = first._replace(line=first.line + number)
        if piece.format == ARENA_LOGS:
            read_line(row, place, piece.file.csam, people, linked, content)
        else:
            read_published(row, place, DOORS[piece.format], people, content)
    return content, sighting_table(content.sightings)
