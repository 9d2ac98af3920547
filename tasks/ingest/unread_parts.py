"""The law of parts: every part of a row's messages is read, or named as one that is not.

In: a row as it was parsed, and the states that a format adapter made of it. Out: the parts that are not in the states.
They are counted by a walk over all columns that knows no format, so an adapter that forgets one is noticed.
"""

import re
from collections.abc import Iterator, Sequence, Set
from typing import Any, NamedTuple

from tasks.ingest.formats.parts import (
    PICTURE,
    SYSTEM,
    TEXT,
    THINKING,
    MessagePart,
    Row,
    is_place,
    is_plain,
    name_of_kind,
    parts_of,
    role_of,
)
from tasks.ingest.formats.pictures import is_data_address, listed
from tasks.ingest.log_line import Seen

_BESIDE = {
    "images": PICTURE,
    "image": PICTURE,
    "videos": "video",
    "video": "video",
    "audios": "audio",
    "audio": "audio",
}
"""Columns whose values belong to the messages beside them -> the kind of these."""
_SIDE = re.compile(r".*_([ab])")
"""Columns of one side of a battle."""
_STRUCTS = ({"bytes", "path"}, {"path"})
"""Keys of a file in a column of `datasets`; without its bytes while only lines are read."""
_HOLDERS = frozenset({dict, list, str, bytes})
_BYTES_MIN = 64
"""Shorter binary values are ids and digests."""
_SEARCHED_AGAIN_MAX = 1000
"""Texts of a row that are looked for from the beginning; those of an adapter that reads all are found in order."""


class PartIn(NamedTuple):
    """A part that a row holds."""

    part: MessagePart
    column: str
    message: int | None
    """Number of its message in the column, from 0; null beside the messages."""


def with_unread(row: Row, states: Sequence[Row], seen: list[Seen], other_columns: Set[str]) -> list[Seen]:
    """The sightings of a row, each with the parts that it lacks. `other_columns` hold other conversations."""
    held = list(parts_in({name: value for name, value in row.items() if name not in other_columns}))
    columns = {each.column for each in held if each.message is not None}
    are_sides = len(seen) > 1 and all(map(_SIDE.fullmatch, columns))
    found = []
    for side, sighting in zip("ab", seen, strict=False):
        own = [each for each in held if not are_sides or _side_of(each.column) in (side, None)]
        read = [number for number in range(len(seen)) if not are_sides or "ab"[number] == side]
        texts = [text for number in read for text in _texts(states[number])]
        pictures = sum(len(seen[number].image_places) + len(seen[number].name_problems) for number in read)
        lost = [*_lost_texts(own, texts), *_lost_others(own, pictures)]
        unread = [{"kind": each.part.kind, "message": each.message} for each in lost]
        found.append(sighting._replace(unread_parts=unread) if unread else sighting)
    return found


def _side_of(column: str) -> str | None:
    named = _SIDE.fullmatch(column)
    return named[1] if named else None


def parts_in(row: Row) -> Iterator[PartIn]:
    """The parts of a row: those of every object that says who speaks, and pictures and the like beside them.

    What the system says counts without its texts, which are instructions.
    """
    if _is_message(row):
        yield from (PartIn(part, "", 0) for part in parts_of(row))
    for column, value in row.items():
        if column in _BESIDE and value is not None:
            values = value if isinstance(value, list) else [value]
            yield from (PartIn(MessagePart(_BESIDE[column]), column, None) for _ in values)
        elif _may_hold(value):
            yield from _in_column(column, value)


def _in_column(column: str, value: Any) -> Iterator[PartIn]:
    """The parts of the messages of a column, and of every file that stands elsewhere in it."""
    waiting, messages = [(column, value)], 0
    while waiting:
        key, value = waiting.pop()
        if is_plain(value):
            if value["content"]:
                yield PartIn(MessagePart(TEXT, value["content"]), column, messages)
            messages += 1
        elif type(value) is list:
            waiting += [(key, each) for each in reversed(value) if type(each) in _HOLDERS and _may_hold(each)]
        elif type(value) is dict and _is_message(value):
            yield from (PartIn(part, column, messages) for part in _of_message(value))
            messages += 1
        elif type(value) is not dict or value.keys() in _STRUCTS:
            yield PartIn(MessagePart(name_of_kind(key)), column, messages - 1 if messages else None)
        else:
            within = reversed(value.items())
            waiting += [(str(name), each) for name, each in within if type(each) in _HOLDERS and _may_hold(each)]


def _may_hold(value: Any) -> bool:
    """Whether a value is, or may have inside it, a message or a file: bytes, or a data: address."""
    kind = type(value)
    if kind is dict or kind is list:
        return bool(value)
    return is_data_address(value) if kind is str else kind is bytes and len(value) >= _BYTES_MIN


def _is_message(value: Row) -> bool:
    return type(value.get("role")) is str or (type(value.get("from")) is str and "value" in value)


def _of_message(message: Row) -> Iterator[MessagePart]:
    """The parts of a message, and one for each picture of a column that it says the place of."""
    is_told = role_of(message) == SYSTEM
    for part in parts_of(message):
        if not is_told or part.kind not in (TEXT, THINKING):
            yield part
    if "images" in message:
        yield from (MessagePart(PICTURE) for each in listed(message["images"]) if is_place(each))


def _texts(state: Row) -> list[str]:
    """The texts of a state of a log."""
    contents = [message[1] for message in state["messages"]]
    texts = [content[0] if isinstance(content, list) else content for content in contents]
    return [text for text in texts if text]


def _lost_texts(held: Sequence[PartIn], read: Sequence[str]) -> list[PartIn]:
    """The texts that are in none of those that were read, into which adapters join several.

    They are at most as many as fewer were read: an adapter may change texts, but not drop one.
    """
    said = [each for each in held if each.part.kind in (TEXT, THINKING)]
    if len(said) <= len(read):
        return []
    whole, start, lost = "\0".join(read), 0, list[PartIn]()
    for each in said:
        text = each.part.text or "\0\0"
        place = whole.find(text, start)
        if place < 0 and len(lost) < _SEARCHED_AGAIN_MAX:
            place = whole.find(text)
        if place < 0:
            lost.append(each)
        start = max(start, place + len(text)) if place >= 0 else start
    return lost[: len(said) - len(read)]


def _lost_others(held: Sequence[PartIn], pictures_read: int) -> list[PartIn]:
    """The pictures beyond those that were read or are missing, and all parts of other kinds.

    A part that holds nothing itself and a value beside the messages are one: the part says where the value stands.
    """
    by_kind: dict[str, list[PartIn]] = {}
    for each in held:
        if each.part.kind not in (TEXT, THINKING):
            by_kind.setdefault(each.part.kind, []).append(each)
    lost: list[PartIn] = []
    for kind, of_kind in by_kind.items():
        whole = [each for each in of_kind if each.part.picture is not None]
        beside = [each for each in of_kind if each.message is None]
        standing = [each for each in of_kind if each.message is not None and each.part.picture is None]
        counted = [*whole, *max(standing, beside, key=len)]
        lost += counted[pictures_read if kind == PICTURE else 0 :]
    return lost
