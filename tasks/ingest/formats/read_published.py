"""Rows of a published dataset -> sightings and rejects, through the same checks as a log line."""

from contextlib import suppress
from typing import Any

import orjson

from schemas.reject import Reject, RejectReason
from tasks.ingest.csam_flags import line_is_flagged, row_is_flagged
from tasks.ingest.formats.door import Door
from tasks.ingest.log_files import LINE_BYTES_MAX, without_mark
from tasks.ingest.log_line import LineRejected, Place, parse_json, sightings, states_of
from tasks.ingest.people import Pseudonyms
from tasks.ingest.read_logs import LogContent, hold


def read_published(row: Any, place: Place, door: Door, people: Pseudonyms, content: LogContent) -> None:
    """Add what one row (bytes of a JSON line, or a table's row) holds to `content`."""
    content.line_count += 1
    try:
        if line_is_flagged(row) if isinstance(row, bytes) else row_is_flagged(row):
            raise _hold(row, place, door, content)
        record = _record(row, place, door)
        content.sightings += sightings(record, states_of(record), place, people)
    except LineRejected as rejected:
        content.rejects.append(Reject(**place._asdict(), reason=rejected.reason, evidence=rejected.evidence))


def _hold(row: Any, place: Place, door: Door, content: LogContent) -> LineRejected:
    """Quarantine what a flagged row names, under the names that its record gives them as well."""
    raw = row if isinstance(row, bytes) else orjson.dumps(row, default=str)
    with suppress(LineRejected):
        raw = orjson.dumps([raw.decode("utf-8", "replace"), _record(row, place, door)], default=str)
    return hold(raw, content)


def _record(row: Any, place: Place, door: Door) -> dict[str, Any]:
    if isinstance(row, bytes):
        if len(row) > LINE_BYTES_MAX:
            raise LineRejected(RejectReason.LINE_TOO_LONG, f"more than {LINE_BYTES_MAX:,} bytes")
        row = parse_json(without_mark(row, place.line))
    try:
        return door.record(row, place)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        evidence = f"{type(error).__name__} where {door.name} has a value of another type"
        raise LineRejected(RejectReason.UNEXPECTED_ROW, evidence) from None
