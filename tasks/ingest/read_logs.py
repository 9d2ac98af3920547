"""Turns log lines and dataset rows into rows of `sightings` and `rejects`, and collects what is flagged.

Every line or row becomes either sightings or one reject; no content of a line can stop the reading.
"""

import gc
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pyarrow as pa

from schemas.items.conversation import Sighting
from schemas.items.reject import LineRejected, Reject, RejectReason
from schemas.row import arrow_schema
from tasks.ingest.formats import ARENA_LOGS, adapter
from tasks.ingest.formats.adapter import UNEXPECTED, FormatAdapter, RowExcluded, names_of_file, unpacked_rows
from tasks.ingest.formats.pictures import SourceRow, path_of
from tasks.ingest.image_files import LinkedImages, image_at, linked_images
from tasks.ingest.log_files import (
    LINE_BYTES_MAX,
    LINES_BYTES,
    LOG_PART_BYTES,
    LogFile,
    Piece,
    lines,
    open_stream,
    raw_lines,
    without_mark,
)
from tasks.ingest.log_line import (
    Place,
    Record,
    Seen,
    earlier_thoughts,
    parse_json,
    sightings,
    states_of,
    up_to_answer,
)
from tasks.ingest.quarantine import ids_in, line_is_flagged, row_is_flagged
from tasks.ingest.unread_parts import with_unread
from tasks.storage.keyed_ids import Pseudonyms
from tasks.storage.tables import Store, frame_of

LineTexts = list[str | None]
_NOT_TEXT = b"\0\xff\xfe\xef\xbb\xbf"
"""Byte order marks, and the zero bytes of UTF-16."""
_TABLE_ROW_BYTES = 2048
"""Assumed size of a row of a table."""
_KEY = re.compile(rb"""["']\s*:""")


@dataclass
class LogContent:
    """The sightings, rejects and flagged names of some lines."""

    line_count: int = 0
    sightings: list[Seen] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    flagged_conv_ids: set[str] = field(default_factory=set)
    flagged_images: set[str] = field(default_factory=set)
    flagged_unread: set[Place] = field(default_factory=set)
    """Flagged lines that are no JSON object: their images may be named by the lines around them."""
    excluded_conv_ids: set[str] = field(default_factory=set)
    """Conversations of rows that their source excludes from publication."""

    def add_line(self, raw: bytes, place: Place, csam: bool, people: Pseudonyms, linked: LinkedImages) -> None:
        """Add one log line. `csam` says that the server keeps flagged conversations in the file."""
        self.line_count += 1
        try:
            if csam or line_is_flagged(raw):
                raise self._hold(raw, place, raw)
            record = parse_json(_checked_length(raw, place))
            seen = sightings(record, states_of(record), place, people)
            self.sightings += _with_linked(seen, linked) if linked else seen
        except LineRejected as rejected:
            self._reject(place, rejected)

    def add_row(self, row: Any, place: Place, csam: bool, adapter: FormatAdapter, people: Pseudonyms) -> None:
        """Add one row of a published dataset: bytes of a JSON line, or a table's row. `csam` as for a log line."""
        self.line_count += 1
        try:
            if csam or (line_is_flagged(row) if isinstance(row, bytes) else row_is_flagged(row)):
                raw = row if isinstance(row, bytes) else _written(row)
                names = [raw.decode("utf-8", "replace"), *_named_by(row, place, adapter)]
                raise self._hold(row, place, _written(names) if len(names) > 1 else raw)
            self.sightings += _sightings_of_row(_values(row, place), place, adapter, people)
        except LineRejected as rejected:
            self._reject(place, rejected)

    def _reject(self, place: Place, rejected: LineRejected) -> None:
        if isinstance(rejected, RowExcluded):
            self.excluded_conv_ids.update(rejected.conv_ids)
        reject = Reject(source=place.source, line=place.line, reason=rejected.reason, evidence=rejected.evidence)
        self.rejects.append(reject)

    def _hold(self, row: Any, place: Place, named_in: bytes) -> LineRejected:
        """Note what a flagged line or row names for quarantine, which `named_in` has. Returns what to raise."""
        if isinstance(row, bytes) and row.strip() and not is_record(row, place):
            self.flagged_unread.add(place)
        conv_ids, images = ids_in(named_in)
        self.flagged_conv_ids |= conv_ids
        self.flagged_images |= images
        return LineRejected(RejectReason.CSAM_FLAGGED, "flagged by the server; not read any further")


def _written(value: Any) -> bytes:
    """The JSON of a value; of one that has none, such as a map with keys of bytes, what Python prints."""
    try:
        return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:
        return repr(value).encode("utf-8", "surrogatepass")


def is_record(raw: bytes, place: Place) -> bool:
    """Whether a line is a JSON object."""
    try:
        parse_json(without_mark(raw, place.line))
    except LineRejected:
        return False
    return True


class BrokenRecord(NamedTuple):
    """A record that is no JSON object on one line."""

    lines: set[int]
    fragments: set[int]
    """Lines with one key at most, of a record that is spread over several."""
    names: set[str]
    """Everything that looks like an id or the name of an image."""


def broken_records(file: LogFile) -> Iterator[BrokenRecord]:
    """The broken records of a file; of a file that is flagged as a whole, all records.

    A line that begins with a brace begins a record, which goes on to the next such line unless it also ends with one.
    """
    broken = BrokenRecord(set(), set(), set())
    for number, raw in lines(file):
        text, is_whole = raw.translate(None, _NOT_TEXT), is_record(raw, Place(file.source, number))
        if broken.lines and (is_whole or text.startswith(b"{")):
            yield broken
            broken = BrokenRecord(set(), set(), set())
        if not is_whole or file.csam:
            broken.lines.add(number)
            broken.fragments.update([number] if len(_KEY.findall(text)) < 2 else [])
            broken.names.update(*ids_in(raw))
        if broken.lines and text.startswith(b"{") and text.endswith(b"}"):
            yield broken
            broken = BrokenRecord(set(), set(), set())
    yield broken


def _checked_length(raw: bytes, place: Place) -> bytes:
    if len(raw) > LINE_BYTES_MAX and len(raw.rstrip(b"\r\n")) > LINE_BYTES_MAX:
        raise LineRejected(RejectReason.LINE_TOO_LONG, f"more than {LINE_BYTES_MAX:,} bytes")
    return without_mark(raw, place.line)


def _values(row: Any, place: Place) -> SourceRow:
    """The row of a table, or that of a line of JSON."""
    return parse_json(_checked_length(row, place)) if isinstance(row, bytes) else row


class _RecordOfRow(NamedTuple):
    row: SourceRow
    """The row as the adapter reads it."""
    place: Place
    record: Record


def _records(row: SourceRow, place: Place, adapter: FormatAdapter) -> list[_RecordOfRow]:
    """The records of a row: one each conversation or vote. Raises LineRejected when one cannot be made."""
    try:
        parts = unpacked_rows(row, place, adapter)
        return [_RecordOfRow(part, part_place, adapter.record(part, part_place)) for part, part_place in parts]
    except UNEXPECTED as error:
        evidence = f"{type(error).__name__} where {adapter.name} has a value of another type"
        raise LineRejected(RejectReason.UNEXPECTED_ROW, evidence) from None


def _sightings_of_row(row: SourceRow, place: Place, adapter: FormatAdapter, people: Pseudonyms) -> list[Seen]:
    """All sightings of a row, or LineRejected for the row as a whole: no row is both read and rejected.

    What was thought before an earlier answer is in a sighting of its own, up to this answer: a log has a line for each.
    """
    all_seen: list[Seen] = []
    first_side = 0
    for part, part_place, record in _records(row, place, adapter):
        states = states_of(record)
        seen = with_unread(part, states, sightings(record, states, part_place, people), adapter.other_columns)
        # Sides are numbered over the whole line.
        numbered = [sighting._replace(side=first_side + sighting.side) for sighting in seen] if first_side else seen
        first_side += len(seen)
        for state, sighting in zip(states, numbered, strict=True):
            all_seen += [up_to_answer(sighting, *answer) for answer in earlier_thoughts(state)]
            all_seen.append(sighting)
    return all_seen


def _named_by(row: Any, place: Place, adapter: FormatAdapter) -> list[Any]:
    """The record of a flagged row, and names of the files that its pictures are in, as far as they can be told."""
    records_and_names: list[Any] = []
    with suppress(LineRejected, *UNEXPECTED):
        for part, part_place in unpacked_rows(_values(row, place), place, adapter):
            for image in adapter.images(part):
                records_and_names += names_of_file(place, image) if path_of(image) else []
            records_and_names.append(adapter.record(part, part_place))
    return records_and_names


def _with_linked(seen: list[Seen], linked: LinkedImages) -> list[Seen]:
    """The sightings with images that are linked by their file names alone."""
    return [
        sighting._replace(
            images=[image_at(linked[sighting.conv_id], sighting.tstamp / 1e6)],
            image_places=[{"image": 0, "message": 0, "character": 0}],
        )
        if not sighting.images and sighting.conv_id in linked
        else sighting
        for sighting in seen
    ]


def sighting_table(seen: Sequence[Seen]) -> pa.Table:
    """One row a sighting, in order; texts that the next sighting of the conversation repeats are left out."""
    values = zip(*seen, strict=True) if seen else [()] * len(Seen._fields)
    columns: dict[str, Sequence[Any]] = dict(zip(Seen._fields, values, strict=True))
    columns["num_messages"] = list(map(len, columns["texts"]))
    conv_ids = columns["conv_id"]
    texts = columns["texts"]
    stored_texts: list[LineTexts | None] = list(texts)
    next_texts: dict[str, LineTexts] = {}
    for row_number in range(len(stored_texts) - 1, -1, -1):
        conv_id, messages = conv_ids[row_number], texts[row_number]
        if conv_id in next_texts and next_texts[conv_id][: len(messages)] == messages:
            stored_texts[row_number] = None
        next_texts[conv_id] = messages
    columns["texts"] = stored_texts
    schema = arrow_schema(Sighting)
    return pa.table([pa.array(columns[field.name], field.type) for field in schema], schema=schema)


class PartsRead(NamedTuple):
    """Result of reading one batch of pieces."""

    sightings: list[str]
    """Parts of the table, not yet listed."""
    rejects: list[str]
    """Parts of the table, not yet listed."""
    lines: Counter[str]
    """Lines by source."""
    rejected: Counter[str]
    """Rejected lines by source."""
    bytes_read: int
    flagged_conv_ids: set[str]
    flagged_images: set[str]
    flagged_unread: set[Place]
    """Flagged lines that are no JSON object."""
    excluded_conv_ids: set[str]
    """Conversations of rows that their source excludes from publication."""


def no_parts(bytes_read: int = 0) -> PartsRead:
    """The result of reading nothing."""
    return PartsRead([], [], Counter(), Counter(), bytes_read, set(), set(), set(), set())


class PieceReader(NamedTuple):
    """Reads batches of pieces; it is pickled for worker processes."""

    store: str
    key: bytes
    logs: Path | None
    """Folder of the logs, beside which images may lie; null for a database."""

    def read(self, batch: Sequence[Piece]) -> PartsRead:
        """Read a batch and write its parts. Parsed lines have no cycles; searching them for some takes a sixth more."""
        gc.disable()
        try:
            return self._read(batch)
        finally:
            gc.enable()

    def _read(self, batch: Sequence[Piece]) -> PartsRead:
        people = Pseudonyms(self.key)
        linked = linked_images(self.logs) if self.logs is not None else {}
        result = no_parts(sum(piece.size_bytes for piece in batch))
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
            result.excluded_conv_ids.update(content.excluded_conv_ids)
            waiting_bytes += chunk.size_bytes
            if waiting_bytes >= LOG_PART_BYTES:
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
            result.rejected.update(reject.source for reject in rejects)


class _Chunk(NamedTuple):
    piece: Piece
    first_line: int
    rows: list[Any]
    """Raw lines, or rows of a table."""
    size_bytes: int


def _chunks(batch: Sequence[Piece]) -> Iterator[_Chunk]:
    """The pieces; archives and tables, which cannot be cut, in chunks of about LINES_BYTES."""
    for piece in batch:
        line, rows, size = piece.lines_before + 1, [], 0
        for row in _rows(piece):
            rows.append(row)
            size += len(row) if isinstance(row, bytes) else _TABLE_ROW_BYTES
            if size >= LINES_BYTES and piece.stop is None:
                yield _Chunk(piece, line, rows, size)
                line, rows, size = line + len(rows), [], 0
        yield _Chunk(piece, line, rows, size)


def _content(chunk: _Chunk, people: Pseudonyms, linked: LinkedImages) -> LogContent:
    """The sightings, rejects and flagged names of a chunk."""
    content, file = LogContent(), chunk.piece.file
    shape = None if chunk.piece.format == ARENA_LOGS else adapter(chunk.piece.format)
    folder = file.folder if shape is not None else ""  # asked once: it takes longer than many a row
    for number, row in enumerate(chunk.rows, chunk.first_line):
        if shape is None:
            content.add_line(row, Place(file.source, number), file.csam, people, linked)
        else:
            content.add_row(row, Place(file.source, number, folder), file.csam, shape, people)
    return content


def _rows(piece: Piece) -> Iterator[Any]:
    if piece.stop is None:
        facts = frozenset[str]() if piece.format == ARENA_LOGS else adapter(piece.format).facts
        yield from piece.file.rows(facts)
        return
    assert isinstance(piece.file, LogFile)  # other sources are read as a whole
    with open_stream(piece.file.path) as stream:
        stream.seek(piece.start)
        yield from islice(raw_lines(stream), piece.lines)
