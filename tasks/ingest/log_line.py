"""One raw line -> the conversation states it shows, or a named reject. Facts: FastChat `serve/`, all three eras."""

import math
import re
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson

from schemas.battle import Winner
from schemas.conversation import RecordType, Role, Sighting, Turn
from schemas.reject import RejectReason
from tasks.content_id import text_id
from tasks.ingest.people import Pseudonyms
from tasks.ingest.picture_names import picture_names

_WINNERS = {
    RecordType.LEFT_VOTE: Winner.MODEL_A,
    RecordType.RIGHT_VOTE: Winner.MODEL_B,
    RecordType.TIE_VOTE: Winner.TIE,
    RecordType.BOTH_BAD_VOTE: Winner.BOTH_BAD,
}
_SIDE_BY_SIDE = {*_WINNERS, RecordType.SHARE}
_CONV_ID = re.compile(r"[0-9A-Za-z_-]{8,64}")
_REVEALED = re.compile(r"\s*(?:<h3>|###)\s*Model [AB]\s*(?::|$)")
_ARENA_FIRST, _ARENA_LAST = datetime(2023, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
_MODEL_CHARACTERS_MAX = 200


class LineRejected(Exception):
    """A line that cannot be used. The evidence names what was seen, never text from the line."""

    def __init__(self, reason: RejectReason, evidence: str) -> None:
        super().__init__(f"{reason}: {evidence}")
        self.reason = reason
        self.evidence = evidence


class Place(NamedTuple):
    """Where a line stands."""

    source: str
    line: int


def flagged_conv_ids(record: dict[str, Any]) -> list[str] | None:
    """conv_ids of a record with a CSAM-flagged state on either side; None when no state is flagged."""
    states = [state for state in _states_leniently(record) if isinstance(state, dict)]
    if not any(state.get("has_csam_image") not in (None, False) for state in states):
        return None
    return [str(state["conv_id"]) for state in states if isinstance(state.get("conv_id"), str)]


def parse_json(raw: bytes) -> dict[str, Any]:
    """The record of a line. Raises LineRejected when it is blank, not JSON or not an object."""
    if not raw.strip():
        raise LineRejected(RejectReason.BLANK_LINE, "nothing on the line")
    try:
        record = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise LineRejected(RejectReason.NOT_JSON, f"at character {error.pos} of {len(raw)} bytes") from None
    if not isinstance(record, dict):
        raise LineRejected(RejectReason.NOT_A_RECORD, f"a JSON {type(record).__name__}, not an object")
    return record


def sightings(record: dict[str, Any], place: Place, people: Pseudonyms) -> list[Sighting]:
    """The one or two conversation states of a record. Raises LineRejected with the first thing that is wrong."""
    record_type = _record_type(record)
    states = _states(record, record_type)
    shared: dict[str, Any] = {
        "source": place.source,
        "line": place.line,
        "record_type": record_type,
        "tstamp": _time(record.get("tstamp")),
        "user_id": people.user_id(record.get("ip")),
        "anonymous": _anonymous(record, states) if record_type in _SIDE_BY_SIDE else None,
        "winner": _WINNERS.get(record_type),
    }
    return [Sighting(side=side, **shared, **_conversation(record, state)) for side, state in enumerate(states)]


def _conversation(record: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """The columns of a sighting that come from the conversation state."""
    messages = _messages(state)
    logged = [name for _, names in messages for name in names] or _list(_unstringified(record.get("images")))
    pictures, problems = picture_names(logged)
    turns = [
        Turn(role=Role.ASSISTANT if index % 2 else Role.USER, content=content)
        for index, (content, _) in enumerate(messages)
    ]
    return {
        "conv_id": _conv_id(state.get("conv_id")),
        "opening_id": text_id(turns[0].content or ""),
        "model": _model(record.get("model") if "state" in record else state.get("model_name")),
        "turns": turns,
        "pictures": pictures,
        "picture_problems": problems,
    }


def _conv_id(value: object) -> str:
    if not isinstance(value, str) or not _CONV_ID.fullmatch(value):
        raise LineRejected(RejectReason.BAD_CONVERSATION_ID, f"{type(value).__name__}, not 8 to 64 letters and digits")
    return value


def _record_type(record: dict[str, Any]) -> RecordType:
    try:
        return RecordType(str(record.get("type")))
    except ValueError:
        raise LineRejected(RejectReason.UNKNOWN_TYPE, "not one of the nine record types") from None


def _time(value: object) -> datetime:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise LineRejected(RejectReason.BAD_TIMESTAMP, f"{type(value).__name__}, not a finite number of seconds")
    try:
        moment = datetime.fromtimestamp(value, UTC)
    except (OverflowError, OSError, ValueError):
        raise LineRejected(RejectReason.BAD_TIMESTAMP, "outside the calendar") from None
    if not _ARENA_FIRST <= moment < _ARENA_LAST:
        raise LineRejected(RejectReason.BAD_TIMESTAMP, f"year {moment.year}; logs start in 2023")
    return moment


def _states(record: dict[str, Any], record_type: RecordType) -> list[dict[str, Any]]:
    wanted = 2 if record_type in _SIDE_BY_SIDE else 1
    states = _states_leniently(record)
    if len(states) != wanted or not all(isinstance(state, dict) for state in states):
        raise LineRejected(RejectReason.BAD_STATE, f"{len(states)} states, {wanted} needed as objects")
    return states


def _states_leniently(record: dict[str, Any]) -> list[Any]:
    """The states, whether nested or, as the remote logger posts them, turned into JSON strings."""
    if "states" in record:
        return [_unstringified(state) for state in _list(_unstringified(record["states"]))]
    return [_unstringified(record["state"])] if "state" in record else []


def _unstringified(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return value


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _model(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _MODEL_CHARACTERS_MAX or not value.isprintable():
        raise LineRejected(RejectReason.BAD_MODEL, f"{type(value).__name__}, not a printable name")
    return value


def _messages(state: dict[str, Any]) -> list[tuple[str | None, list[Any]]]:
    """(text, logged picture names) of every message after the template's few-shot examples."""
    messages, offset = state.get("messages"), state.get("offset", 0)
    if not isinstance(messages, list):
        raise LineRejected(RejectReason.BAD_MESSAGES, f"messages are a {type(messages).__name__}")
    if isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
        raise LineRejected(RejectReason.BAD_OFFSET, f"offset is a {type(offset).__name__}")
    if offset >= len(messages):
        raise LineRejected(RejectReason.NO_MESSAGES, f"offset {offset} of {len(messages)} messages")
    return [_message(message) for message in messages[offset:]]


def _message(message: Any) -> tuple[str | None, list[Any]]:
    if not isinstance(message, list) or len(message) != 2:
        raise LineRejected(RejectReason.BAD_MESSAGES, "a message is not [role, content]")
    content = message[1]
    if content is None or isinstance(content, str):
        return content, []
    if isinstance(content, list) and len(content) == 2 and isinstance(content[1], list):
        text, names = content
        if text is None or isinstance(text, str):
            return text, names
    raise LineRejected(
        RejectReason.BAD_MESSAGES, f"content is neither text nor [text, pictures]: {type(content).__name__}"
    )


def _anonymous(record: dict[str, Any], states: list[dict[str, Any]]) -> bool:
    """Whether the names were hidden until the vote.

    Hidden: empty, `Model A`, or revealed after the vote as `<h3>Model A: name</h3>` or `### Model A: name`
    (upstream's rule calls the last spelling named). Named: the plain model name.
    """
    shown = _unstringified(record.get("models"))
    if not isinstance(shown, list) or len(shown) != 2 or not all(isinstance(name, str) for name in shown):
        raise LineRejected(RejectReason.BAD_MODEL, "models is not a pair of names")
    hidden = [not name.strip() or name in ("Model A", "Model B") or bool(_REVEALED.match(name)) for name in shown]
    if hidden[0] != hidden[1]:
        raise LineRejected(RejectReason.HALF_ANONYMOUS, "one name shown, the other hidden")
    for name, state in zip(shown, states, strict=True):
        actual = state.get("model_name")
        if not hidden[0] and isinstance(actual, str) and actual not in name:
            raise LineRejected(RejectReason.MODEL_MISMATCH, "the shown name is not the answering model")
    return hidden[0]
