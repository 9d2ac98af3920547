"""Format adapters: they turn dataset rows into the records that an arena server would log.

In: a row of a file or table, and its place. Out: records (`chat`, `battle`) as lines of a log have them, with a name
for each picture. A format is one `FormatAdapter`; another spelling of a vote is a line of `_RECORD_TYPES`. Most formats
have one conversation or vote a row. Where a row has several, or spells them in its own way, `unpacked` first makes rows
of it whose columns are those of `chat` or `battle`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, NamedTuple

from schemas.items.reject import LineRejected, RejectReason
from tasks.ingest.formats.database_tables import DatabaseTables
from tasks.ingest.formats.documents import with_documents
from tasks.ingest.formats.parts import PICTURE, is_plain, messages_of, parts_of, role_of
from tasks.ingest.formats.pictures import SourceRow, column_pictures, path_of, relative_path, relative_path_on_disk
from tasks.ingest.formats.turns import READ_ROLES, turns_of
from tasks.ingest.log_line import Place, Record
from tasks.storage.content_id import text_id

UNDATED_SECONDS = 1_672_531_200
"""2023-01-01: rows without a time get this time plus one microsecond a row, before UNDATED_BEFORE."""
_RECORD_TYPES = {
    "model_a": "leftvote",
    "model_b": "rightvote",
    "tie": "tievote",
    "tie (bothbad)": "bothbad_vote",
    "tie_bothbad": "bothbad_vote",
    "both_bad": "bothbad_vote",
    "bothbad": "bothbad_vote",
}
"""Winner as datasets spell it, in lower case -> type of the record."""
_NOT_ANONYMOUS = frozenset({"false", "0", "0.0", "no"})
"""Values of `anony`, as texts in lower case, of a battle whose voter saw the names of the models."""
_ID = re.compile(r"[0-9A-Za-z_-]{8,60}")
_HASH_NAME = re.compile(r"[0-9a-f]{32}")
"""File name of an image in our releases, without its suffix."""

UNEXPECTED = (KeyError, TypeError, AttributeError, ValueError, IndexError, RecursionError)
"""Errors that an adapter may raise for a row of another shape."""


class RowExcluded(LineRejected):
    """A row that its source excludes from publication, perhaps after it was read: what was read of it is withdrawn."""

    def __init__(self, mark: str, row: SourceRow, id_column: str) -> None:
        """`mark` is the name of what excludes the row; `id_column` as in `battle`."""
        super().__init__(RejectReason.EXCLUDED_BY_SOURCE, f"by {mark}")
        stated_id = row.get(id_column)
        self.conv_ids = _ids_of_sides(_stated_id(stated_id)) if is_stated(stated_id) else ()
        """Ids of the conversations that the row would be; none where it has no id."""


def no_images(row: SourceRow) -> Sequence[SourceRow]:
    """The images of a row without any."""
    return ()


class ColumnKind(StrEnum):
    """Kind of the values of a column, the same for JSON and tables."""

    TEXT = "text"
    LIST = "list"
    OBJECT = "object"
    OTHER = "number, time or truth value"


def kind_of_value(value: Any) -> ColumnKind | None:
    """The kind of a JSON value; None for null."""
    if value is None:
        return None
    if isinstance(value, str):
        return ColumnKind.TEXT
    if isinstance(value, list):
        return ColumnKind.LIST
    return ColumnKind.OBJECT if isinstance(value, Mapping) else ColumnKind.OTHER


class FormatAdapter(NamedTuple):
    """One dataset format: how it is recognized, and how a row becomes log records."""

    name: str
    """Value of `--format`."""
    columns: frozenset[str]
    """Columns that must be there. If several adapters fit, the one with the most columns is used."""
    record: Callable[[SourceRow, Place], Record]
    """The record of a row. May raise LineRejected, or errors such as KeyError for a row of another shape."""
    images: Callable[[SourceRow], Sequence[SourceRow]] = no_images
    """The row's images in order, as {bytes, path} or as `pictures` gives them; bytes may be absent while only lines are
    read."""
    image_column: str | Sequence[str] | None = None
    """The columns that `images` needs."""
    other_columns: frozenset[str] = frozenset()
    """Columns whose messages are those of other conversations, or repeat the row's own; their parts are not counted."""
    unpacked: Callable[[SourceRow, Place], Sequence[SourceRow]] | None = None
    """The rows that a row of the file stands for, each one conversation or one vote, with the columns that `record` and
    `images` read; None where the row is read as it is. May raise what `record` may. Every message of the row must be in
    one of them, because their parts are counted (`unread_parts.py`)."""
    or_columns: tuple[frozenset[str], ...] = ()
    """Other sets of columns, each of which is enough in place of `columns`."""
    kinds: Mapping[str, frozenset[ColumnKind]] = MappingProxyType({})
    """Columns -> the kinds that their values may have. A file with another kind in one of them is refused."""
    facts: frozenset[str] = frozenset()
    """Fields of messages that hold no part of them and are not used; in Parquet they are not even read."""
    database: DatabaseTables | None = None
    """Tables of a database whose records are rows of the format; null for a format that is read from files alone."""
    about: str = ""
    """Description in some words, for `--format list`."""
    lacks: tuple[str, ...] = ()
    """The ones of votes, images, users and times that its rows do not have, for `--format list`."""

    @property
    def column_sets(self) -> tuple[frozenset[str], ...]:
        """Sets of columns by which the format is recognized; one is enough."""
        return (self.columns, *self.or_columns)

    @property
    def is_flat(self) -> bool:
        """Whether every column may be a text, so that a CSV file can hold its rows."""
        return bool(self.kinds) and all(ColumnKind.TEXT in kinds for kinds in self.kinds.values())


def unpacked_rows(row: SourceRow, place: Place, shape: FormatAdapter) -> list[tuple[SourceRow, Place]]:
    """Every conversation or vote of a row of the file, with its place: rows as `shape.record` reads them."""
    if shape.unpacked is None:
        rows = [(row, place)]
    else:
        rows = [(part, place._replace(part=number)) for number, part in enumerate(shape.unpacked(row, place))]
    if shape.image_column is None or not place.folder:
        return rows
    return [(with_documents(part, part_place), part_place) for part, part_place in rows]


def pictures(row: SourceRow, *conversations: str) -> list[SourceRow]:
    """The pictures of a row (`picture_of`): those of its columns, then those in the messages of its conversations.

    {} for each part that stands for a picture of a column and finds none there.
    """
    own_pictures = []
    placeholders_max = 0
    for name in conversations:
        in_messages = _message_pictures(row[name])
        own_pictures += in_messages.own
        placeholders_max = max(placeholders_max, in_messages.placeholders)
    return [*_pictures_of_columns(row, placeholders_max), *own_pictures]


class _MessagePictures(NamedTuple):
    """The picture parts in the messages of one conversation."""

    own: list[SourceRow]
    """The pictures of the parts that hold one themselves (`picture_of`), in order."""
    placeholders: int
    """Number of parts without a picture: each marks where a picture of the row's columns stands. Indexes in a message's
    `images` are no parts and do not count."""


def _message_pictures(conversation: Any) -> _MessagePictures:
    pictures_of_parts = list[SourceRow]()
    placeholders = 0
    for message in messages_of(conversation):
        if is_plain(message) or role_of(message) not in READ_ROLES:
            continue
        for part in parts_of(message):
            if part.kind != PICTURE:
                continue
            if part.picture is None:
                placeholders += 1
            else:
                pictures_of_parts.append(part.picture)
    return _MessagePictures(pictures_of_parts, placeholders)


def _pictures_of_columns(row: SourceRow, placeholders: int) -> list[SourceRow]:
    """The pictures of the row's columns, and {} for each placeholder that finds none there."""
    found_pictures = column_pictures(row)
    missing_pictures: list[SourceRow] = [{} for _ in range(placeholders - len(found_pictures))]
    return [*found_pictures, *missing_pictures]


def chat(
    row: SourceRow, place: Place, images: Sequence[SourceRow] | None = None, *, id_column: str = "conversation_id"
) -> Record:
    """A `chat` record of a row with `model` and `conversation`. Without `images`, they are the row's `pictures`."""
    (turns,) = _conversations(row, place, images, "conversation")
    state = {"conv_id": _id(row.get(id_column), place), "messages": turns}
    return {"type": "chat", "model": row["model"], "state": state, "tstamp": seconds(row, place), "ip": person(row)}


def battle(
    row: SourceRow, place: Place, images: Sequence[SourceRow] | None = None, *, id_column: str = "question_id"
) -> Record:
    """A vote record of a row with `model_a`, `model_b`, `winner` and both conversations; `images` as in `chat`."""
    record_type = _RECORD_TYPES.get(str(row["winner"]).strip().lower())
    if record_type is None:
        raise LineRejected(RejectReason.UNKNOWN_WINNER, "not model_a, model_b, tie, tie (bothbad) or both_bad")
    return {**without_vote(row, place, images, id_column=id_column), "type": record_type}


def without_vote(
    row: SourceRow, place: Place, images: Sequence[SourceRow] | None = None, *, id_column: str = "question_id"
) -> Record:
    """A record of a row with both conversations and no vote, which is a `share`; as `battle` else."""
    id_a, id_b = _ids_of_sides(_id(row.get(id_column), place))
    left_turns, right_turns = _conversations(row, place, images, "conversation_a", "conversation_b")
    states = [
        {"conv_id": id_a, "model_name": row["model_a"], "messages": left_turns},
        {"conv_id": id_b, "model_name": row["model_b"], "messages": right_turns},
    ]
    # Servers log the names that the voter saw, and empty ones for an anonymous battle.
    is_named = str(row.get("anony")).strip().lower() in _NOT_ANONYMOUS
    visible_models = [row["model_a"], row["model_b"]] if is_named else ["", ""]
    return {
        "type": "share",
        "models": visible_models,
        "states": states,
        "tstamp": seconds(row, place),
        "ip": person(row),
        "reason": row.get("vote_reason", row.get("reason")),
    }


def _conversations(
    row: SourceRow, place: Place, images: Sequence[SourceRow] | None, *columns: str
) -> list[list[list[Any]]]:
    """The turns of each conversation of a row, as [role, content].

    `images` that an adapter gives belong to all of the conversations. Without them, all conversations share the
    pictures of the row's columns, and each has those in its own messages. Pictures are numbered as in `pictures`,
    because a name may depend on the number.
    """
    if images is not None:
        return [messages(row[column], place, images) for column in columns]
    in_messages = [_message_pictures(row[column]) for column in columns]
    shared_pictures = _pictures_of_columns(row, max(message_pictures.placeholders for message_pictures in in_messages))
    shared_names = _names(place, shared_pictures)
    of_columns = len(column_pictures(row))
    conversations = []
    number = len(shared_pictures)
    for column, (own_pictures, placeholders) in zip(columns, in_messages, strict=True):
        own_names = _names(place, own_pictures, first=number)
        number += len(own_pictures)
        # A picture that lacks is one of the conversation that has a part for it, and of no other.
        conversations.append(turns_of(row[column], shared_names[: max(of_columns, placeholders)], own_names))
    return conversations


def messages(conversation: Any, place: Place, images: Sequence[SourceRow]) -> list[list[Any]]:
    """`turns_of` with the names of these images, which are all of the conversation."""
    return turns_of(conversation, _names(place, images), ())


def _names(place: Place, images: Sequence[SourceRow], first: int = 0) -> list[str]:
    """Names of some pictures of a row; `first` is the number of the first one in the row."""
    return [image_name(place, index, image) for index, image in enumerate(images, first)]


def image_name(place: Place, index: int, image: SourceRow) -> str:
    """32 hex digits: the name of its file if it has this form, a hash of its path, or one of source, line and index.

    A row of a table may hold bytes beside a path that many rows share, so only a path alone is a name.
    """
    return names_of_image(place, index, image)[0]


def names_of_image(place: Place, index: int, image: SourceRow) -> list[str]:
    """`image_name`, and the name that the image had while its file was not there, if this is another one."""
    path = path_of(image) or ""
    if "file" in image or _HASH_NAME.fullmatch(PurePosixPath(path).stem):
        return names_of_file(place, image)
    of_part = f":{place.part}" if place.part else ""
    return [text_id(f"{place.source}:{place.line}{of_part}:{index}")]


def names_of_file(place: Place, image: SourceRow) -> list[str]:
    """Names of the image in a file, which all lines that show it share; no valid name for one out of the folder.

    The first is a hash of the path as it is on disk, so that rows which spell it in other ways show one image. The
    second, if the row's spelling is another one, is a hash of this: rows read while the file was not there have it.
    Pages of a PDF have the number of the page in their names.
    """
    path, page = path_of(image) or "", image.get("page")
    stem = PurePosixPath(path).stem
    if _HASH_NAME.fullmatch(stem) and page is None:
        return [stem]
    of_page = "" if page is None else f":{page}"
    # A path that leads out of the folder has no spelling; "../" is a name that no record may have.
    spellings = (relative_path_on_disk(place, path), relative_path(place, path))
    names = ["../" if spelling is None else text_id(f"file:{spelling}{of_page}") for spelling in spellings]
    return list(dict.fromkeys(names))


def seconds(row: SourceRow, place: Place) -> Any:
    """The row's time as it stands there, which is read with the record; a row without one gets one in its order."""
    for key in ("tstamp", "timestamp", "created", "created_at"):
        if is_stated(time := row.get(key)):
            return time
    return UNDATED_SECONDS + place.line / 1e6


def person(
    row: SourceRow, columns: Sequence[str] = ("judge", "judge_hash", "user_id", "user", "evaluation_session_id")
) -> Any:
    """The user's name in the dataset, in the first of `columns`; like an address, it is only stored as a keyed hash.

    A list, an object or a truth value is no name, and is given as it is: the reader of the record rejects it.
    """
    for column in columns:
        name = row.get(column)
        if is_stated(name):
            return name if isinstance(name, bool | list | Mapping) else text_of_name(name)
    return None


def is_stated(value: Any) -> bool:
    """Whether a value that names something, such as an id, is there: not null, NaN, or a text of blanks."""
    is_blank = isinstance(value, str) and not value.strip()
    return value is not None and value == value and not is_blank


def whole_number(value: Any) -> int | None:
    """A whole number, also as 3.0, as columns of numbers with nulls have it; None for another value."""
    if type(value) is float and value.is_integer():
        return int(value)
    return value if type(value) is int else None


def _id(value: Any, place: Place) -> str:
    if not is_stated(value):
        of_part = f":{place.part}" if place.part else ""
        return text_id(f"{place.source}:{place.line}{of_part}")
    return _stated_id(value)


def _stated_id(value: Any) -> str:
    """The id that a row states, if a log may have it, else a hash of it."""
    text = text_of_name(value)
    return text if _ID.fullmatch(text) else text_id(text)


def text_of_name(value: Any) -> str:
    """An id or the name of a person as a text. A column of numbers with a null has 3.0 in place of 3."""
    number = whole_number(value)
    return str(value if number is None else number)


def _ids_of_sides(question_id: str) -> tuple[str, str]:
    """Ids of the conversations of side A and side B of a battle."""
    return question_id, f"{question_id}-b"
