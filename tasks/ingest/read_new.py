"""Reads the new bytes of a store's input into `sightings`, `rejects`, `quarantine` and `log_files`."""

import gc
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa

from schemas.conversation import LogFileRead
from schemas.errors import BadInput
from schemas.reject import QuarantineCause, Reject
from tasks.ingest.formats import ARENA_LOGS, adapter
from tasks.ingest.formats.data_files import TABLES, table_rows
from tasks.ingest.image_files import LinkedImages, linked_images
from tasks.ingest.log_files import LogFile, open_stream, raw_lines
from tasks.ingest.log_line import Place
from tasks.ingest.quarantine import hold, withdraw_taken_down
from tasks.ingest.read_logs import LogContent, broken_records, sighting_table
from tasks.ingest.read_plan import PART_BYTES, PIECE_BYTES, FilePlan, Piece, batches, changed, plan
from tasks.runtime.parallel import map_in_processes
from tasks.runtime.progress import progress, tell
from tasks.storage.parts import rows_without
from tasks.storage.tables import Store, frame_of
from tasks.storage.tombstones import UNFINISHED as UNFINISHED_TAKEDOWN
from tasks.storage.tombstones import Tombstones
from tasks.storage.user_ids import Pseudonyms, store_key

BATCHES_ALONE = 12
"""Up to this many batches are read in this process: each other process takes 1.4 CPU seconds to start."""
_TABLE_ROW_BYTES = 2048
"""Assumed size of a row of a table."""
_UNFINISHED = "ingest/unfinished"


class PartsRead(NamedTuple):
    """Result of reading one batch of pieces."""

    sightings: list[str]
    """Parts of the table, not yet listed."""
    rejects: list[str]
    """Parts of the table, not yet listed."""
    lines: Counter[str]
    """Lines by source."""
    rejected: list[int]
    """Rejected lines of each part."""
    bytes_read: int
    flagged_conv_ids: set[str]
    flagged_images: set[str]
    flagged_unread: set[Place]
    """Flagged lines that are no JSON object."""


class PieceReader(NamedTuple):
    """Reads batches of pieces; it is pickled for worker processes."""

    store: str
    key: bytes
    logs: Path

    def read(self, batch: Sequence[Piece]) -> PartsRead:
        """Read a batch and write its parts. Parsed lines have no cycles; searching them for some takes a sixth more."""
        gc.disable()
        try:
            return self._read(batch)
        finally:
            gc.enable()

    def _read(self, batch: Sequence[Piece]) -> PartsRead:
        people, linked = Pseudonyms(self.key), linked_images(self.logs)
        result = PartsRead([], [], Counter(), [], sum(piece.size_bytes for piece in batch), set(), set(), set())
        tables: list[pa.Table] = []
        rejects: list[Reject] = []
        waiting_bytes = 0
        for chunk in _chunks(batch):
            content = _content(chunk, people, linked)
            tables.append(sighting_table(content.sightings))
            rejects += content.rejects
            result.lines[chunk.piece.file.source] += content.line_count
            result.flagged_conv_ids.update(content.flagged_conv_ids)
            result.flagged_images.update(content.flagged_images)
            result.flagged_unread.update(content.flagged_unread)
            waiting_bytes += chunk.size_bytes
            if waiting_bytes >= PART_BYTES:
                self._write(tables, rejects, result)
                tables, rejects, waiting_bytes = [], [], 0
        self._write(tables, rejects, result)
        return result

    def _write(self, tables: Sequence[pa.Table], rejects: Sequence[Reject], result: PartsRead) -> None:
        store = Store(self.store)
        if any(table.num_rows for table in tables):
            result.sightings.append(store.write_part("sightings", pa.concat_tables(tables)))
        if rejects:
            result.rejects.append(store.write_part("rejects", frame_of(Reject, rejects)))
            result.rejected.append(len(rejects))


class _Chunk(NamedTuple):
    piece: Piece
    first_line: int
    rows: list[Any]
    """Raw lines, or rows of a table."""
    size_bytes: int


def _chunks(batch: Sequence[Piece]) -> Iterator[_Chunk]:
    """The pieces; archives and tables, which cannot be cut, in chunks of about PIECE_BYTES."""
    for piece in batch:
        line, rows, size = piece.lines_before + 1, [], 0
        for row in _rows(piece):
            rows.append(row)
            size += len(row) if isinstance(row, bytes) else _TABLE_ROW_BYTES
            if size >= PIECE_BYTES and piece.stop is None:
                yield _Chunk(piece, line, rows, size)
                line, rows, size = line + len(rows), [], 0
        yield _Chunk(piece, line, rows, size)


def _content(chunk: _Chunk, people: Pseudonyms, linked: LinkedImages) -> LogContent:
    """The sightings, rejects and flagged names of a chunk."""
    content, file = LogContent(), chunk.piece.file
    shape = None if chunk.piece.format == ARENA_LOGS else adapter(chunk.piece.format)
    for number, row in enumerate(chunk.rows, chunk.first_line):
        if shape is None:
            content.add_line(row, Place(file.source, number), file.csam, people, linked)
        else:
            content.add_row(row, Place(file.source, number), file.csam, shape, people)
    return content


def _rows(piece: Piece) -> Iterator[Any]:
    if piece.file.path.suffix in TABLES:
        yield from table_rows(piece.file.path, image_bytes=False)
        return
    with open_stream(piece.file.path) as stream:
        if piece.start:
            stream.seek(piece.start)
        yield from islice(raw_lines(stream), piece.lines)


def _read_batches(reader: PieceReader, batches: Iterable[Sequence[Piece]], workers: int) -> Iterator[PartsRead]:
    """The result of each batch, in order; more than BATCHES_ALONE are read by `workers` processes."""
    ahead = iter(batches)
    first = list(islice(ahead, BATCHES_ALONE + 1))
    if workers == 1 or len(first) <= BATCHES_ALONE:
        yield from map(reader.read, chain(first, ahead))
    else:
        yield from map_in_processes(reader.read, chain(first, ahead), workers)


def read_new(store: Store, files: Sequence[tuple[LogFile, str]], logs: Path, workers: int) -> dict[str, int]:
    """Read the new lines of `files`, which are (file, format). Returns counts of files, lines and rejects.

    `lines_replaced`, if any, counts the old lines of files that are read again from the beginning. New parts are listed
    last, so a killed run leaves the tables as they were.
    """
    before = {row["source"]: LogFileRead(**row) for row in store.read("log_files").iter_rows(named=True)}
    reader = PieceReader(store.root, store_key(store), logs)
    new = changed(files, before)
    plans: list[FilePlan] = []
    read: list[PartsRead] = []

    def planned() -> Iterator[FilePlan]:
        for file, name in new:
            plans.append(plan(file, name, before.get(file.source)))
            yield plans[-1]

    with progress("log megabytes", sum(file.path.stat().st_size for file, _ in new) // 1_000_000) as advance:
        for parts in _read_batches(reader, batches(planned()), workers):
            read.append(parts)
            advance(parts.bytes_read // 1_000_000)
    flagged = _named_around(new, set[Place]().union(*(each.flagged_unread for each in read)))
    read += [PartsRead([], [], Counter(), [], 0, flagged, flagged, set())] if flagged else []
    if plans:
        _list(store, plans, read, before, Tombstones(store, reader.key))
    counts = {"files": len(files), "files_read": len(plans), "lines": sum(each.lines.total() for each in read)}
    anew = [before[each.read.source] for each in plans if each.read.source in before and not each.lines_kept]
    replaced = sum(row.lines for row in anew)
    counts |= {"lines_replaced": replaced} if replaced else {}
    return counts | {"rejected": sum(sum(each.rejected) for each in read)}


def _named_around(files: Sequence[tuple[LogFile, str]], unread: Set[Place]) -> set[str]:
    """Ids and image names in the records that flagged lines are part of; `unread` are those that are no JSON object."""
    found: set[str] = set()
    for file, _ in files:
        if flagged := {place.line for place in unread if place.source == file.source}:
            found |= _named_in_broken_records(file, flagged)
    return found


def _named_in_broken_records(file: LogFile, flagged: set[int]) -> set[str]:
    """Ids and names in the records with a flagged line; where fragments of one name nothing, in all broken records.

    Raises BadInput when these name nothing either, because an image that is not known could not be held back.
    """
    first, records = min(flagged), list(broken_records(file))
    everything = set[str]().union(*(record.names for record in records))
    records = [record for record in records if record.lines & flagged]
    lost = any(record.fragments & flagged and not record.names for record in records)
    if lost and not everything:
        raise BadInput(
            f"log file {file.source!r}, line {first}: it is flagged as child abuse, it is no JSON object, and no image "
            "or conversation can be read there that could be held back; mend the line, or remove it from the log"
        )
    tell(f"{file.source}, line {first}: flagged, but no JSON object; what can be read of its record is held back")
    return everything if lost else set[str]().union(*(record.names for record in records))


def _list(
    store: Store,
    plans: Sequence[FilePlan],
    read: Sequence[PartsRead],
    before: Mapping[str, LogFileRead],
    tombstones: Tombstones,
) -> None:
    """List the new parts in the tables, without lines that were replaced, quarantined or taken down."""
    interrupted = store.read_bytes(_UNFINISHED) is not None
    again = {each.read.source: each.lines_kept for each in plans if interrupted or each.read.source in before}
    store.write_bytes(_UNFINISHED, b"")
    sightings = _earlier(store, "sightings", again)
    rejects = _earlier(store, "rejects", again) + [part for each in read for part in each.rejects]
    sightings, held, withdrawn = _quarantine(store, sightings, read)
    known = set() if store.read_bytes(UNFINISHED_TAKEDOWN) is not None else set(store.parts("sightings"))
    fresh = [part for part in sightings if part not in known]
    sightings, taken_down = withdraw_taken_down(store, sightings, fresh, tombstones, datetime.now(UTC))
    rejects += [store.write_part("rejects", rows) for rows in (withdrawn, taken_down) if rows.height]
    lines = sum((each.lines for each in read), Counter[str]())
    rows = dict(before) | {each.read.source: _with_lines(each, lines) for each in plans}
    store.replace("quarantine", held)
    store.list_parts("sightings", list(dict.fromkeys(sightings)))
    store.list_parts("rejects", list(dict.fromkeys(rejects)))
    store.replace("log_files", frame_of(LogFileRead, rows.values()))
    store.fs.rm_file(store.at(_UNFINISHED))


def _earlier(store: Store, table: str, kept_lines: Mapping[str, int]) -> list[str]:
    """Parts of earlier runs without the lines that were read again: rewritten files and unfinished last lines."""
    parts = store.parts(table)
    if not kept_lines:
        return parts
    limit = pl.col("source").replace_strict(
        list(kept_lines), list(kept_lines.values()), default=None, return_dtype=pl.Int64
    )
    return rows_without(store, table, parts, pl.col("line") > limit)


def _quarantine(
    store: Store, earlier: list[str], read: Sequence[PartsRead]
) -> tuple[list[str], pl.DataFrame, pl.DataFrame]:
    """(parts without what is quarantined, the `quarantine` table, rejects of withdrawn lines)."""
    known, new = store.read("quarantine"), [part for each in read for part in each.sightings]
    conversations = set[str]().union(*(each.flagged_conv_ids for each in read))
    images = set[str]().union(*(each.flagged_images for each in read))
    flagged = hold(store, earlier, new, known, QuarantineCause.FLAGGED, conversations, images)
    listed = hold(store, flagged[0], flagged[1], known, QuarantineCause.KNOWN_HASH)
    return listed[0] + listed[1], pl.concat([flagged[2], listed[2]]), pl.concat([flagged[3], listed[3]])


def _with_lines(each: FilePlan, lines: Counter[str]) -> LogFileRead:
    """The row of `log_files`; lines of files that are read as a whole are counted by their reader."""
    whole = any(piece.stop is None for piece in each.pieces)
    return each.read.model_copy(update={"lines": lines[each.read.source]}) if whole else each.read
