"""Lines -> sightings, rejects and what is flagged. Every line ends in exactly one of sightings and rejects."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from schemas.reject import Reject, RejectReason
from tasks.ingest.csam_flags import ids_in, line_is_flagged
from tasks.ingest.log_files import LINE_BYTES_MAX, LogFile, lines, without_mark
from tasks.ingest.log_line import LineRejected, Place, Seen, parse_json, sightings, states_of
from tasks.ingest.people import Pseudonyms
from tasks.ingest.picture_names import LinkedPictures, picture_at
from tasks.running.progress import Advance, silent


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
        if csam or line_is_flagged(raw):
            raise hold(raw, content)
        if len(raw) > LINE_BYTES_MAX and len(raw.rstrip(b"\r\n")) > LINE_BYTES_MAX:
            raise LineRejected(RejectReason.LINE_TOO_LONG, f"more than {LINE_BYTES_MAX:,} bytes")
        record = parse_json(without_mark(raw, place.line))
        seen = sightings(record, states_of(record), place, people)
        content.sightings += _linked(seen, linked) if linked else seen
    except LineRejected as rejected:
        content.rejects.append(Reject(**place._asdict(), reason=rejected.reason, evidence=rejected.evidence))


def hold(raw: bytes, content: LogContent) -> LineRejected:
    """Quarantine every conversation and picture that a flagged line names."""
    conv_ids, pictures = ids_in(raw)
    content.flagged_conv_ids |= conv_ids
    content.flagged_pictures |= pictures
    return LineRejected(RejectReason.CSAM_FLAGGED, "flagged by the server; not read any further")


def _linked(seen: list[Seen], linked: LinkedPictures) -> list[Seen]:
    """The sightings with the pictures that only their file names link to them."""
    return [
        each._replace(pictures=[picture_at(linked[each.conv_id], each.tstamp / 1e6)])
        if not each.pictures and each.conv_id in linked
        else each
        for each in seen
    ]
