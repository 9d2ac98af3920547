"""Turns log lines and dataset rows into rows of `sightings` and `rejects`, and collects what is flagged.

Every line or row becomes either sightings or one reject; no content of a line can stop the reading.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson
import pyarrow as pa

from schemas.conversation import Sighting
from schemas.reject import LineRejected, Reject, RejectReason
from schemas.row import arrow_schema
from tasks.ingest.csam_flags import ids_in, line_is_flagged, row_is_flagged
from tasks.ingest.formats.adapter import FormatAdapter, Record
from tasks.ingest.image_files import LinkedImages, image_at
from tasks.ingest.log_files import LINE_BYTES_MAX, LogFile, lines, without_mark
from tasks.ingest.log_line import Place, Seen, parse_json, sightings, states_of
from tasks.storage.user_ids import Pseudonyms

Texts = list[str | None]
_NOT_TEXT = b"\0\xff\xfe\xef\xbb\xbf"
"""Byte order marks, and the zero bytes of UTF-16."""
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
                raise self._hold_row(row, place, adapter)
            record = _record(row, place, adapter)
            self.sightings += sightings(record, states_of(record), place, people)
        except LineRejected as rejected:
            self._reject(place, rejected)

    def _reject(self, place: Place, rejected: LineRejected) -> None:
        self.rejects.append(Reject(**place._asdict(), reason=rejected.reason, evidence=rejected.evidence))

    def _hold(self, raw: bytes, place: Place, named_in: bytes) -> LineRejected:
        """Note what a flagged line names for quarantine; `named_in` is the line, or more. Returns what to raise."""
        if raw.strip() and not is_record(raw, place):
            self.flagged_unread.add(place)
        conv_ids, images = ids_in(named_in)
        self.flagged_conv_ids |= conv_ids
        self.flagged_images |= images
        return LineRejected(RejectReason.CSAM_FLAGGED, "flagged by the server; not read any further")

    def _hold_row(self, row: Any, place: Place, adapter: FormatAdapter) -> LineRejected:
        """The same for a dataset row, also with the ids and names that its record gives them."""
        raw = named_in = row if isinstance(row, bytes) else orjson.dumps(row, default=str)
        with suppress(LineRejected):
            named_in = orjson.dumps([raw.decode("utf-8", "replace"), _record(row, place, adapter)], default=str)
        return self._hold(raw, place, named_in)


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
    """Those of its lines with one key at most, of a record that is spread over several."""
    names: set[str]
    """What looks like an id or the name of an image."""


def broken_records(file: LogFile) -> Iterator[BrokenRecord]:
    """The broken records of a file; of a file that is flagged as a whole, all records.

    A line that begins with a brace begins a record, which goes on to the next such line unless it also ends with one.
    """
    broken = BrokenRecord(set(), set(), set())
    for number, raw in lines(file):
        text, whole = raw.translate(None, _NOT_TEXT), is_record(raw, Place(file.source, number))
        if broken.lines and (whole or text.startswith(b"{")):
            yield broken
            broken = BrokenRecord(set(), set(), set())
        if not whole or file.csam:
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


def _record(row: Any, place: Place, adapter: FormatAdapter) -> Record:
    if isinstance(row, bytes):
        row = parse_json(_checked_length(row, place))
    try:
        return adapter.record(row, place)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        evidence = f"{type(error).__name__} where {adapter.name} has a value of another type"
        raise LineRejected(RejectReason.UNEXPECTED_ROW, evidence) from None


def _with_linked(seen: list[Seen], linked: LinkedImages) -> list[Seen]:
    """The sightings with images that are linked by their file names alone."""
    return [
        each._replace(
            images=[image_at(linked[each.conv_id], each.tstamp / 1e6)],
            image_places=[{"image": 0, "message": 0, "character": 0}],
        )
        if not each.images and each.conv_id in linked
        else each
        for each in seen
    ]


def sighting_table(seen: Sequence[Seen]) -> pa.Table:
    """One row a sighting, in order; texts that the next sighting of the conversation repeats are left out."""
    values = zip(*seen, strict=True) if seen else [()] * len(Seen._fields)
    columns: dict[str, Sequence[Any]] = dict(zip(Seen._fields, values, strict=True))
    columns["num_messages"] = list(map(len, columns["texts"]))
    columns["texts"] = _not_repeated(columns["conv_id"], columns["texts"])
    schema = arrow_schema(Sighting)
    return pa.table([pa.array(columns[field.name], field.type) for field in schema], schema=schema)


def _not_repeated(conv_ids: Sequence[str], texts: Sequence[Texts]) -> list[Texts | None]:
    """`texts` with null for those that the next sighting of the same conv_id begins with."""
    own: list[Texts | None] = list(texts)
    following: dict[str, Texts] = {}
    for place in range(len(own) - 1, -1, -1):
        conv_id, said = conv_ids[place], texts[place]
        if conv_id in following and following[conv_id][: len(said)] == said:
            own[place] = None
        following[conv_id] = said
    return own
