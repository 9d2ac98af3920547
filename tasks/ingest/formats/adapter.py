"""Format adapters: they turn dataset rows into the records that an arena server would log."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from schemas.items.reject import LineRejected, RejectReason
from tasks.ingest.log_line import Place
from tasks.storage.content_id import text_id

Row = Mapping[str, Any]
Record = dict[str, Any]

UNDATED_SECONDS = 1_672_531_200
"""2023-01-01: rows without a time get this time plus one microsecond a row, before UNDATED_BEFORE."""
_VOTES = {
    "model_a": "leftvote",
    "model_b": "rightvote",
    "tie": "tievote",
    "tie (bothbad)": "bothbad_vote",
    "tie_bothbad": "bothbad_vote",
    "both_bad": "bothbad_vote",
    "bothbad": "bothbad_vote",
}
_TEXT_PARTS = ("text", "input_text", "output_text")
_IMAGE_PARTS = ("image", "image_url", "input_image")
_ID = re.compile(r"[0-9A-Za-z_-]{8,60}")
_HASH_NAME = re.compile(r"[0-9a-f]{32}")


def no_images(row: Row) -> Sequence[Row]:
    """The images of a row without any."""
    return ()


class FormatAdapter(NamedTuple):
    """One dataset format: how it is recognized, and how a row becomes a log record."""

    name: str
    """Value of `--format`."""
    columns: frozenset[str]
    """Columns that must be there. If several adapters fit, the one with the most columns is used."""
    record: Callable[[Row, Place], Record]
    """The record of a row. May raise LineRejected, or errors such as KeyError for a row of another shape."""
    images: Callable[[Row], Sequence[Row]] = no_images
    """{bytes, path} of the row's images, in order; bytes are absent while only lines are read."""
    image_column: str | None = None
    """The column with the images."""


def chat(row: Row, place: Place, images: Sequence[Row] = (), *, id_column: str = "conversation_id") -> Record:
    """A `chat` record of a row with `model` and `conversation`."""
    state = {"conv_id": _id(row.get(id_column), place), "messages": messages(row["conversation"], place, images)}
    return {"type": "chat", "model": row["model"], "state": state, "tstamp": seconds(row, place), "ip": person(row)}


def battle(row: Row, place: Place, images: Sequence[Row] = (), *, id_column: str = "question_id") -> Record:
    """A vote record of a row with `model_a`, `model_b`, `winner` and both conversations."""
    vote = _VOTES.get(str(row["winner"]).strip().lower())
    if vote is None:
        raise LineRejected(RejectReason.UNKNOWN_WINNER, "not model_a, model_b, tie, tie (bothbad) or both_bad")
    question = _id(row.get(id_column), place)
    states = [
        {
            "conv_id": question + suffix,
            "model_name": row[f"model_{side}"],
            "messages": messages(row[f"conversation_{side}"], place, images),
        }
        for side, suffix in (("a", ""), ("b", "-b"))
    ]
    shown = [state["model_name"] for state in states] if row.get("anony") is False else ["", ""]
    reason = {"reason": row.get("vote_reason", row.get("reason"))}
    return {"type": vote, "models": shown, "states": states, "tstamp": seconds(row, place), "ip": person(row)} | reason


def messages(conversation: Any, place: Place, images: Sequence[Row]) -> list[list[Any]]:
    """[role, content] of {role, content} messages, which some releases wrap in one-item lists.

    An image stands where a typed part or the message's own `images` (of our releases) puts it, if the row says it of
    all; else all go to the first user message. System messages are left out.
    Raises LineRejected unless user and assistant take turns, the user first.
    """
    found: list[list[Any]] = []
    places: list[list[tuple[int, int]]] = []
    for message in conversation:
        message = message[0] if isinstance(message, list) and len(message) == 1 else message
        if message["role"] in ("system", "developer"):
            continue
        if message["role"] != ("assistant" if len(found) % 2 else "user"):
            raise LineRejected(RejectReason.BAD_MESSAGES, "user and assistant do not take turns")
        text, characters = _text_and_places(message["content"])
        found.append([message["role"], text])
        shown = [(each["image"], each["character"]) for each in message.get("images") or ()]
        places.append(shown or list(enumerate(characters, sum(map(len, places)))))
    names = [image_name(place, index, each) for index, each in enumerate(images)]
    if {image for shown in places for image, _ in shown} == {*range(len(names))}:
        for said, shown in zip(found, places, strict=True):
            if shown:
                said[1] = [said[1], [names[image] for image, _ in shown], [character for _, character in shown]]
    elif found:
        found[0][1] = [found[0][1], names]
    return found


def _text_and_places(content: Any) -> tuple[Any, list[int]]:
    """(text, characters before each image part); text parts of a list of typed parts are joined by line breaks."""
    if not isinstance(content, list):
        return content, []
    said, places, waiting = "", list[int](), 0
    for part in content:
        if part["type"] in _IMAGE_PARTS:
            waiting += 1
        elif part["type"] in _TEXT_PARTS and part["text"]:
            said += "\n" if said else ""
            places += [len(said)] * waiting
            said, waiting = said + part["text"], 0
    return said, places + [len(said)] * waiting


def image_name(place: Place, index: int, image: Row) -> str:
    """32 hex digits: the file name if it has this form, else a hash of source, line and index."""
    stem = PurePosixPath(str(image.get("path") or "")).stem
    return stem if _HASH_NAME.fullmatch(stem) else text_id(f"{place.source}:{place.line}:{index}")


def seconds(row: Row, place: Place) -> Any:
    """The row's time as it stands there, which is read with the record; a row without one gets one in its order."""
    times = (row.get(key) for key in ("tstamp", "timestamp", "created", "created_at"))
    present = (time for time in times if time is not None and time == time)  # a number that is none equals nothing
    return next(present, UNDATED_SECONDS + place.line / 1e6)


def person(row: Row) -> str | None:
    """The user's name in the dataset; like an address, it is only stored as a keyed hash."""
    keys = ("judge", "judge_hash", "user_id", "user", "evaluation_session_id")
    return next((str(row[key]) for key in keys if row.get(key) is not None), None)


def _id(value: Any, place: Place) -> str:
    if value is None:
        return text_id(f"{place.source}:{place.line}")
    return str(value) if _ID.fullmatch(str(value)) else text_id(str(value))
