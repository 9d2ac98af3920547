"""Lines -> sightings, rejects and what is flagged. Every line ends in exactly one of sightings and rejects."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from schemas.reject import Reject, RejectReason
from tasks.ingest.csam_flags import flagged, flagged_elsewhere, looks_flagged
from tasks.ingest.log_files import LINE_BYTES_MAX, LogFile, lines, without_mark
from tasks.ingest.log_line import LineRejected, Place, Seen, parse_json, sightings, states_of
from tasks.ingest.people import Pseudonyms
from tasks.ingest.picture_names import LinkedPictures, picture_at
from tasks.running.progress import Advance, silent

_PICTURE_NAME = re.compile(rb"[0-9a-f]{32}")


@dataclass
class LogContent:
    """What the lines of some log files hold."""

    line_count: int = 0
    sightings: list[Seen] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    flagged_conv_ids: set[str] = field(default_factory=set)
    flagged_pictures: set[str] = field(default_factory=set)


def read_logs(files: Iterable[LogFile], people: Pseudonyms, advance: Advance = silent) -> LogContent:
    """Read every line of `files`. Nothing in a line can stop the reading."""
    content = LogContent()
    for file in files:
        for number, raw in lines(file):
            read_line(raw, Place(file.source, number), file.csam, people, {}, content)
        advance()
    return content


def read_line(
    raw: bytes, place: Place, csam: bool, people: Pseudonyms, linked: LinkedPictures, content: LogContent
) -> None:
    """Add what one line holds to `content`. `csam` says that the server keeps flagged conversations in the file."""
    content.line_count += 1
    try:
        if len(raw) > LINE_BYTES_MAX and len(raw.rstrip(b"\r\n")) > LINE_BYTES_MAX:
            raise LineRejected(RejectReason.LINE_TOO_LONG, f"more than {LINE_BYTES_MAX:,} bytes")
        record = parse_json(without_mark(raw, place.line))
        states = states_of(record)
        if csam or flagged(record, states):
            conv_ids = [state.get("conv_id") for state in states if type(state) is dict]
            raise _hold(raw, content, {conv_id for conv_id in conv_ids if type(conv_id) is str})
        if flagged_elsewhere(raw, record, states):
            raise _hold(raw, content, None)
        seen = sightings(record, states, place, people)
        content.sightings += _linked(seen, linked) if linked else seen
    except LineRejected as rejected:
        if rejected.reason is not RejectReason.CSAM_FLAGGED and (csam or looks_flagged(raw)):
            rejected = _hold(raw, content, None)
        content.rejects.append(Reject(**place._asdict(), reason=rejected.reason, evidence=rejected.evidence))


def _hold(raw: bytes, content: LogContent, conv_ids: set[str] | None) -> LineRejected:
    """Quarantine everything in the line that looks like a picture name: too much is better than too little here.

    Of a line too broken to tell its conversations, whatever looks like an id is held as both.
    """
    names = {name.decode() for name in _PICTURE_NAME.findall(raw)}
    content.flagged_conv_ids |= names if conv_ids is None else conv_ids
    content.flagged_pictures |= names if conv_ids is None else names - conv_ids
    return LineRejected(RejectReason.CSAM_FLAGGED, "flagged by the server; not read any further")


def _linked(seen: list[Seen], linked: LinkedPictures) -> list[Seen]:
    """The sightings with the pictures that only their file names link to them."""
    return [
        each._replace(pictures=[picture_at(linked[each.conv_id], each.tstamp / 1e6)])
        if not each.pictures and each.conv_id in linked
        else each
        for each in seen
    ]
