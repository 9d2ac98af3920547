"""The law of parts: every part of a row's messages is read, or named as one that is not.

In: a row as it was parsed, and the log states (conversations) that a format adapter made of it. Out: the parts of the
row that are not in the states. They are counted by a walk over all columns that knows no format, so an adapter that
forgets one is noticed. A further place where rows have parts is a case in `parts_in`, `_column_parts`, or a key in
`parts.py`.
"""

import re
from collections.abc import Generator, Iterator, Sequence, Set
from typing import Any, NamedTuple

from tasks.ingest.formats.parts import (
    PICTURE,
    SYSTEM,
    TEXT,
    THINKING_PART,
    MessagePart,
    is_image_place,
    is_plain,
    name_of_kind,
    parts_of,
    role_of,
)
from tasks.ingest.formats.pictures import SourceRow, as_list, is_data_address
from tasks.ingest.log_line import Seen

_KIND_OF_COLUMN = {
    "images": PICTURE,
    "image": PICTURE,
    "videos": "video",
    "video": "video",
    "audios": "audio",
    "audio": "audio",
}
"""Columns with the pictures and the like of a row's messages -> the kind of each value."""
_BATTLE_SIDE = re.compile(r".*_([ab])")
"""Columns of one side of a battle."""
_FILE_STRUCT_KEYS = ({"bytes", "path"}, {"path"})
"""Keys of a file in a column of `datasets`; without its bytes while only lines are read."""
_BYTES_MIN = 64
"""Shorter binary values are ids and digests."""
_SEARCHES_FROM_START_MAX = 1000
"""Most texts of a row that are searched for from the beginning of all that was read, which takes quadratic time."""


class RowPart(NamedTuple):
    """A part of a row, and where it stands."""

    part: MessagePart
    column: str
    message: int | None
    """Number of its message, from 0; null beside the messages."""


def with_unread(row: SourceRow, states: Sequence[SourceRow], seen: list[Seen], other_columns: Set[str]) -> list[Seen]:
    """The sightings of a row, each with the parts that it lacks as `unread_parts`.

    `states` are the log states of which the sightings were made, one each. Columns of the row that are `other_columns`
    belong to other conversations and are not looked at.
    """
    if len(states) == 1 and not _may_lack_part(row, states[0], other_columns):
        return seen
    row_parts = list(parts_in({name: value for name, value in row.items() if name not in other_columns}))
    message_columns = {row_part.column for row_part in row_parts if row_part.message is not None}
    # A battle's row has a column of messages for each side, or one that both sides share. Where columns do not tell the
    # sides apart, each sighting is compared with the texts and pictures of all states together.
    has_columns_of_sides = len(seen) > 1 and all(_BATTLE_SIDE.fullmatch(column) for column in message_columns)
    sightings = []
    for number, (side, sighting) in enumerate(zip("ab", seen, strict=False)):
        if has_columns_of_sides:
            side_parts = [row_part for row_part in row_parts if _side_of(row_part.column) in (side, None)]
            state_numbers = [number]
        else:
            side_parts = row_parts
            state_numbers = list(range(len(seen)))
        texts_read: list[str] = []
        pictures_read = 0
        for state_number in state_numbers:
            texts_read += _texts(states[state_number])
            # `image_places` has the pictures with a usable name, `name_problems` the others, which have rejects.
            pictures_read += len(seen[state_number].image_places) + len(seen[state_number].name_problems)
        lost_parts = [*_lost_texts(side_parts, texts_read), *_lost_others(side_parts, pictures_read)]
        unread_parts = [{"kind": row_part.part.kind, "message": row_part.message} for row_part in lost_parts]
        sightings.append(sighting._replace(unread_parts=unread_parts) if unread_parts else sighting)
    return sightings


def _may_lack_part(row: SourceRow, state: SourceRow, other_columns: Set[str]) -> bool:
    """Whether a row's parts are to be compared with its only state: not if it has texts alone, and no more than that.

    Most rows are such, and this takes a quarter of the time of the comparison.
    """
    text_count = 0
    for column, value in row.items():
        if column in other_columns or value is None:
            continue
        if column in _KIND_OF_COLUMN or (type(value) is not list and _may_hold_part(value)):
            return True
        for element in value if type(value) is list else ():
            if is_plain(element):
                text_count += bool(element["content"])
            elif _may_hold_part(element):
                return True
    return _is_message(row) or text_count > len(_texts(state))


def _side_of(column: str) -> str | None:
    """The side of a battle, a or b, whose column this is; None for a column of both."""
    match = _BATTLE_SIDE.fullmatch(column)
    return match[1] if match else None


def parts_in(row: SourceRow) -> Iterator[RowPart]:
    """The parts of a row: those of every object that says who speaks, and pictures and the like beside them.

    What the system says counts without its texts, which are instructions. Messages are numbered through all columns,
    because an answer may stand in one of its own; those of one side of a battle from 0.
    """
    message_count = 0
    # Rows of some files are one message each.
    if _is_message(row):
        yield from (RowPart(part, "", 0) for part in parts_of(row))
    for column, value in row.items():
        if column in _KIND_OF_COLUMN and value is not None:
            values = value if isinstance(value, list) else [value]
            for _ in values:
                yield RowPart(MessagePart(_KIND_OF_COLUMN[column]), column, None)
        elif _may_hold_part(value):
            is_of_side = _side_of(column) is not None
            messages_read = yield from _column_parts(column, value, 0 if is_of_side else message_count)
            message_count = message_count if is_of_side else messages_read


def _column_parts(column: str, value: Any, message_count: int) -> Generator[RowPart, None, int]:
    """The parts of the messages of a column, and of every file that stands elsewhere in it, in order.

    `message_count` is the number of its first message. Returns the number of the next one.
    """
    # (key below which a value stands, value), the next one last
    stack = [(column, value)]
    first_message = message_count
    while stack:
        key, value = stack.pop()
        if is_plain(value):
            if value["content"]:
                yield RowPart(MessagePart(TEXT, value["content"]), column, message_count)
            message_count += 1
        elif type(value) is list:
            stack += [(key, element) for element in reversed(value) if _may_hold_part(element)]
        elif type(value) is dict and _is_message(value):
            for part in _message_parts(value):
                yield RowPart(part, column, message_count)
            message_count += 1
        elif _is_file(value):
            # A file that is no part of a message: it belongs to the message before it, if there is one.
            message = message_count - 1 if message_count > first_message else None
            yield RowPart(MessagePart(name_of_kind(key)), column, message)
        else:
            stack += [(str(name), field) for name, field in reversed(value.items()) if _may_hold_part(field)]
    return message_count


def _may_hold_part(value: Any) -> bool:
    """Whether a value is, or may have inside it, a message or a file: bytes, or a data: address."""
    value_type = type(value)
    if value_type is dict or value_type is list:
        return bool(value)
    if value_type is str:
        return is_data_address(value)
    return value_type is bytes and len(value) >= _BYTES_MIN


def _is_file(value: Any) -> bool:
    """Whether a value that may hold a part is a file itself: bytes, a data: address, or a struct of bytes and path."""
    return type(value) is not dict or value.keys() in _FILE_STRUCT_KEYS


def _is_message(value: SourceRow) -> bool:
    return type(value.get("role")) is str or (type(value.get("from")) is str and "value" in value)


def _message_parts(message: SourceRow) -> Iterator[MessagePart]:
    """The parts of a message, and one picture for each index into the row's pictures in its `images`."""
    is_instruction = role_of(message) == SYSTEM
    for part in parts_of(message):
        if not is_instruction or part.kind not in (TEXT, THINKING_PART):
            yield part
    if "images" in message:
        for value in as_list(message["images"]):
            if is_image_place(value):
                yield MessagePart(PICTURE)


def _texts(state: SourceRow) -> list[str]:
    """The texts of a log state that are not empty."""
    contents = [message[1] for message in state["messages"]]
    texts = [content[0] if isinstance(content, list) else content for content in contents]
    return [text for text in texts if text]


def _lost_texts(parts: Sequence[RowPart], texts_read: Sequence[str]) -> list[RowPart]:
    """The texts and thoughts among the parts of a row that an adapter dropped.

    An adapter may change a text, or join several into one, so a text that is not found among `texts_read` is not
    always lost. A lost text makes the row have one text more than were read, and so does each joined one: at most that
    surplus is lost.
    """
    text_parts = [text_part for text_part in parts if text_part.part.kind in (TEXT, THINKING_PART)]
    surplus = len(text_parts) - len(texts_read)
    if surplus <= 0:
        return []
    words_read = _WordsRead(texts_read)
    within_lines = [text_part for text_part in text_parts if not words_read.has_lines(text_part.part.text)]
    lost_parts = [text_part for text_part in within_lines if not words_read.take(text_part.part.text)]
    return lost_parts[:surplus]


class _WordsRead:
    """The texts that were read, in which those of parts are looked for."""

    def __init__(self, texts: Sequence[str]) -> None:
        # Between two texts that an adapter joined there is an end of a line.
        self._text = _as_lines(["", *texts, ""])
        self._position = 0
        """Place behind the lines that were found last."""
        self._searches_left = 2 * _SEARCHES_FROM_START_MAX
        self._found: list[tuple[int, int]] = []
        """First character, and the one behind the last, of all lines that were found."""
        self._rest: str | None = None
        """The texts without these lines, and without what was taken since."""

    def has_lines(self, words: str | None) -> bool:
        """Whether these words were read as lines of their own. A row may repeat a message: they may be found again."""
        if not words:
            return False
        lines = _as_lines(["", words, ""])
        start = self._text.find(lines, self._position)
        # An adapter that keeps the order needs no second search.
        if start < 0 and self._may_search():
            start = self._text.find(lines)
        if start >= 0:
            stop = start + len(lines) - 1
            self._position = max(self._position, stop)
            self._found.append((start + 1, stop))
        return start >= 0

    def take(self, words: str | None) -> bool:
        """Whether these words stand outside of all lines that were found. No other part finds them again."""
        if not words or not self._may_search():
            return False
        if self._rest is None:
            self._rest = self._without_lines()
        lines = _as_lines([words])
        start = self._rest.find(lines)
        if start >= 0:
            self._rest = f"{self._rest[:start]}\0{self._rest[start + len(lines) :]}"
        return start >= 0

    def _may_search(self) -> bool:
        self._searches_left -= 1
        return self._searches_left >= 0

    def _without_lines(self) -> str:
        pieces: list[str] = []
        position = 0
        for start, stop in sorted(self._found):
            pieces.append(self._text[position:start])
            position = max(position, stop)
        return "\0".join([*pieces, self._text[position:]])


def _as_lines(texts: Sequence[str]) -> str:
    return "\0".join(texts).replace("\n", "\0")


def _lost_others(parts: Sequence[RowPart], pictures_read: int) -> list[RowPart]:
    """The pictures beyond those that were read or are missing, and all parts of other kinds.

    A placeholder, which is a part without a picture of its own, and a value beside the messages are one part: the
    placeholder marks where in the messages the value belongs. Only parts of pictures have a picture.
    """
    parts_by_kind: dict[str, list[RowPart]] = {}
    for row_part in parts:
        if row_part.part.kind not in (TEXT, THINKING_PART):
            parts_by_kind.setdefault(row_part.part.kind, []).append(row_part)
    lost_parts: list[RowPart] = []
    for kind, parts_of_kind in parts_by_kind.items():
        with_picture = [row_part for row_part in parts_of_kind if row_part.part.picture is not None]
        beside_messages = [row_part for row_part in parts_of_kind if row_part.message is None]
        placeholders = [
            row_part for row_part in parts_of_kind if row_part.message is not None and row_part.part.picture is None
        ]
        # Placeholders and values beside the messages are counted once: as many as there are of the more frequent.
        counted = [*with_picture, *max(placeholders, beside_messages, key=len)]
        read_count = pictures_read if kind == PICTURE else 0
        lost_parts += counted[read_count:]
    return lost_parts
