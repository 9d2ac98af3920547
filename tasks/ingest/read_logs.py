"""Log files -> sightings, rejects and quarantine. Every line ends in exactly one of sightings and rejects."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from schemas.conversation import Sighting
from schemas.reject import Quarantined, Reject, RejectReason
from tasks.ingest.log_files import LINE_BYTES_MAX, LogFile, lines
from tasks.ingest.log_line import LineRejected, Place, flagged_conv_ids, parse_json, sightings
from tasks.ingest.people import Pseudonyms
from tasks.progress import Advance, silent

_PICTURE_NAME = re.compile(rb"[0-9a-f]{32}")


@dataclass
class LogContent:
    """What the lines of some log files hold."""

    line_count: int = 0
    sightings: list[Sighting] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    flagged_conv_ids: set[str] = field(default_factory=set)
    flagged_pictures: set[str] = field(default_factory=set)


def read_logs(files: Iterable[LogFile], people: Pseudonyms, advance: Advance = silent) -> LogContent:
    """Read every line of `files`. Nothing in a line can stop the reading."""
    content = LogContent()
    for file in files:
        for number, raw in lines(file):
            content.line_count += 1
            try:
                content.sightings += _read_line(raw, Place(file.source, number), file, people, content)
            except LineRejected as rejected:
                row = Reject(source=file.source, line=number, reason=rejected.reason, evidence=rejected.evidence)
                content.rejects.append(row)
            advance()
    return content


def _read_line(raw: bytes, place: Place, file: LogFile, people: Pseudonyms, content: LogContent) -> list[Sighting]:
    if len(raw) > LINE_BYTES_MAX:
        raise LineRejected(RejectReason.LINE_TOO_LONG, f"more than {LINE_BYTES_MAX:,} bytes")
    record = parse_json(raw)
    flagged = flagged_conv_ids(record)
    if flagged is not None or file.csam:
        content.flagged_conv_ids.update(_conv_ids(record) if flagged is None else flagged)
        content.flagged_pictures.update(_named_pictures(raw))
        content.flagged_pictures -= content.flagged_conv_ids
        raise LineRejected(RejectReason.CSAM_FLAGGED, "flagged by the server; not read any further")
    return sightings(record, place, people)


def _named_pictures(raw: bytes) -> set[str]:
    """Everything in the line that looks like a picture name: too much is better than too little here."""
    return {name.decode() for name in _PICTURE_NAME.findall(raw)}


def _conv_ids(record: dict[str, Any]) -> list[str]:
    states = record.get("states") or [record.get("state")]
    return [state["conv_id"] for state in states if isinstance(state, dict) and isinstance(state.get("conv_id"), str)]


def quarantine(
    content: LogContent, known: Iterable[Quarantined]
) -> tuple[list[Sighting], list[Reject], list[Quarantined]]:
    """Withdraw every line that touches a flagged conversation or picture, in this content or known from before.

    Returns the remaining sightings, the rejects of withdrawn lines, and all that is quarantined now.
    """
    conversations = set(content.flagged_conv_ids)
    pictures = set(content.flagged_pictures)
    for row in known:
        (conversations if row.kind == "conversation" else pictures).add(row.key)
    withdrawn: set[Place] = set()
    while touched := _touching(content.sightings, conversations, pictures) - withdrawn:
        withdrawn |= touched
        lines_out = [s for s in content.sightings if Place(s.source, s.line) in withdrawn]
        conversations.update(s.conv_id for s in lines_out)
    remaining = [s for s in content.sightings if Place(s.source, s.line) not in withdrawn]
    evidence = "shares a conversation or picture with a flagged one"
    rejects = [
        Reject(source=place.source, line=place.line, reason=RejectReason.CSAM_FLAGGED, evidence=evidence)
        for place in sorted(withdrawn)
    ]
    rows = [Quarantined(kind="conversation", key=key) for key in sorted(conversations)]
    rows += [Quarantined(kind="picture", key=key) for key in sorted(pictures)]
    return remaining, rejects, rows


def _touching(rows: Iterable[Sighting], conversations: set[str], pictures: set[str]) -> set[Place]:
    return {
        Place(row.source, row.line)
        for row in rows
        if row.conv_id in conversations or not pictures.isdisjoint(row.pictures)
    }
