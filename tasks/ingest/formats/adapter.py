"""Format adapters: they turn dataset rows into the records that an arena server would log."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from schemas.items.reject import LineRejected, RejectReason
from tasks.ingest.formats.parts import PICTURE, is_plain, messages_of, parts_of, role_of
from tasks.ingest.formats.pictures import below, beside, path_of
from tasks.ingest.formats.turns import READ_ROLES, turns_of
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
_ID = re.compile(r"[0-9A-Za-z_-]{8,60}")
_HASH_NAME = re.compile(r"[0-9a-f]{32}")


UNEXPECTED = (KeyError, TypeError, AttributeError, ValueError, IndexError, RecursionError)
"""Errors that an adapter may raise for a row of another shape."""


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
    """The row's images in order, as {bytes, path} or as `pictures` gives them; bytes may be absent while only lines are
    read."""
    image_column: str | Sequence[str] | None = None
    """The columns that `images` needs."""
    other_columns: frozenset[str] = frozenset()
    """Columns whose messages are those of other conversations, or repeat the row's own; their parts are not counted."""


def pictures(row: Row, *conversations: str) -> list[Row]:
    """The pictures of a row (`picture_of`): those of its columns, then those in the messages of its conversations.

    {} for each part that stands for a picture of a column and finds none there.
    """
    return _pictures(row, [_in_messages(row[name]) for name in conversations])


def _pictures(row: Row, in_messages: Sequence[Sequence[Row | None]]) -> list[Row]:
    of_columns, standing_most = beside(row), max((each.count(None) for each in in_messages), default=0)
    lacking: list[Row] = [{} for _ in range(standing_most - len(of_columns))]
    return [*of_columns, *lacking, *(each for shown in in_messages for each in shown if each is not None)]


def _in_messages(conversation: Any) -> list[Row | None]:
    """The pictures in the messages of a conversation; None for a part that stands for one of a column."""
    shown: list[Row | None] = []
    for message in messages_of(conversation):
        if not is_plain(message) and role_of(message) in READ_ROLES:
            shown += [part.picture for part in parts_of(message) if part.kind == PICTURE]
    return shown


def chat(row: Row, place: Place, images: Sequence[Row] | None = None, *, id_column: str = "conversation_id") -> Record:
    """A `chat` record of a row with `model` and `conversation`. Without `images`, they are the row's `pictures`."""
    (said,) = _conversations(row, place, images, "conversation")
    state = {"conv_id": _id(row.get(id_column), place), "messages": said}
    return {"type": "chat", "model": row["model"], "state": state, "tstamp": seconds(row, place), "ip": person(row)}


def battle(row: Row, place: Place, images: Sequence[Row] | None = None, *, id_column: str = "question_id") -> Record:
    """A vote record of a row with `model_a`, `model_b`, `winner` and both conversations; `images` as in `chat`."""
    vote = _VOTES.get(str(row["winner"]).strip().lower())
    if vote is None:
        raise LineRejected(RejectReason.UNKNOWN_WINNER, "not model_a, model_b, tie, tie (bothbad) or both_bad")
    question = _id(row.get(id_column), place)
    left, right = _conversations(row, place, images, "conversation_a", "conversation_b")
    states = [
        {"conv_id": question, "model_name": row["model_a"], "messages": left},
        {"conv_id": f"{question}-b", "model_name": row["model_b"], "messages": right},
    ]
    shown = [row["model_a"], row["model_b"]] if row.get("anony") is False else ["", ""]
    reason = {"reason": row.get("vote_reason", row.get("reason"))}
    return {"type": vote, "models": shown, "states": states, "tstamp": seconds(row, place), "ip": person(row)} | reason


def _conversations(row: Row, place: Place, images: Sequence[Row] | None, *columns: str) -> list[list[list[Any]]]:
    """The messages of each conversation of a row; pictures that an adapter gives belong to all of them."""
    if images is not None:
        return [messages(row[column], place, images) for column in columns]
    in_messages = [_in_messages(row[column]) for column in columns]
    names = _names(place, _pictures(row, in_messages))
    counts = [len(shown) - shown.count(None) for shown in in_messages]
    of_columns, own = names[: len(names) - sum(counts)], iter(names[len(names) - sum(counts) :])
    each_column = zip(columns, counts, strict=True)
    return [turns_of(row[column], of_columns, list(islice(own, count))) for column, count in each_column]


def messages(conversation: Any, place: Place, images: Sequence[Row]) -> list[list[Any]]:
    """`turns_of` with the names of these images, which are all of the conversation."""
    return turns_of(conversation, _names(place, images), ())


def _names(place: Place, images: Sequence[Row]) -> list[str]:
    return [image_name(place, index, each) for index, each in enumerate(images)]


def image_name(place: Place, index: int, image: Row) -> str:
    """32 hex digits: the name of its file if it has this form, a hash of its path, or one of source, line and index.

    A row of a table may hold bytes beside a path that many rows share, so only a path alone is a name.
    """
    path = path_of(image) or ""
    if "file" in image or _HASH_NAME.fullmatch(PurePosixPath(path).stem):
        return name_of_file(place, path)
    return text_id(f"{place.source}:{place.line}:{index}")


def name_of_file(place: Place, path: str) -> str:
    """Name of the image in a file, which all lines that show it share; no valid name for one out of the folder."""
    stem, relative = PurePosixPath(path).stem, below(place, path)
    if _HASH_NAME.fullmatch(stem):
        return stem
    return "../" if relative is None else text_id(f"file:{relative}")


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
