"""The usual lines of a block -> the `sightings` table; the others are left to `read_logs.py`.

`line_scan.py` says where the values stand. Values that are equal, such as a model's name or an address, are understood
once, by the functions that `log_line.py` has for them. Texts that a later line repeats are never decoded.
"""

from collections.abc import Callable, Set
from functools import lru_cache
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from tasks.content_id import text_id, utf8_id
from tasks.ingest.json_scan import Places
from tasks.ingest.line_block import Block
from tasks.ingest.line_scan import IMAGES, IP, KIND, KINDS, MODEL, MODELS, SIDES, STATE, TSTAMP, Scan, repeated, scan
from tasks.ingest.log_files import LINE_BYTES_MAX
from tasks.ingest.log_line import (
    FIRST_SECOND,
    LAST_SECOND,
    WINNERS,
    LineRejected,
    Place,
    images_beside,
    is_name,
    messages_of,
    names_hidden,
)
from tasks.ingest.people import Pseudonyms
from tasks.ingest.picture_names import LinkedPictures, picture_at, picture_names
from tasks.ingest.sighting_frame import table_of
from tasks.ingest.state_scan import (
    CONV_ID,
    COUNT,
    FIRST,
    HASH_CHARACTERS,
    LINE,
    MESSAGES,
    MODEL_NAME,
    NO_PICTURE,
    OFFSET,
    OTHER_PICTURES,
    PICTURE,
)
from tasks.ingest.text_decode import decoded

Value = TypeVar("Value")
Flags = npt.NDArray[np.bool_]


class _Understood(dict[Any, Value], Generic[Value]):
    """What each of some values means, found out once."""

    def __init__(self, understand: Callable[[Any], Value]) -> None:
        self._understand = understand

    def __missing__(self, key: Any) -> Value:
        value = self[key] = self._understand(key)
        return value


def _is_utf8(line: bytes) -> bool:
    try:
        return line.isascii() or bool(line.decode())
    except UnicodeDecodeError:
        return False


class PlainLines:
    """What is understood of a block, whose first line stands at `place`: a row a state."""

    def __init__(self, block: Block, place: Place) -> None:
        self._block, self._place = block, place
        found = scan(np.frombuffer(block.raw, np.uint8), block.starts)
        usual = found.lines[:, SIDES] > 0
        usual &= np.diff(block.starts) <= LINE_BYTES_MAX
        if not block.raw.isascii():
            usual &= [_is_utf8(block.line(line)) for line in range(len(usual))]
        self._take(found, usual)
        refused = self._refused()
        if refused.any():
            usual[self._lines[refused]] = False
            self._take(found, usual)
        self.odd: list[int] = np.flatnonzero(~usual).tolist()
        """Lines of the block that are left to others, 0 the first."""

    def _take(self, found: Scan, usual: Flags) -> None:
        """Begin the columns of the states in the lines that are `usual`."""
        self._found = found = found._replace(states=found.states[usual[found.states[:, LINE]]])
        self._states, self._lines = found.states, found.states[:, LINE]
        self._records = found.lines[self._lines]
        self._two = self._records[:, STATE] < 0
        self.conv_ids = [raw[1:-1].decode() for raw in self._raw(self._states, CONV_ID)]
        self._side = np.concatenate([[False], self._lines[1:] == self._lines[:-1]])[: len(self._lines)]
        self._seconds = self._times()
        names = np.where(
            self._two[:, None], self._states[:, MODEL_NAME : MODEL_NAME + 2], self._records[:, MODEL : MODEL + 2]
        )
        self._models = list(map(_model, self._raw(names, 0)))
        self._hidden = self._hidden_names()

    def _refused(self) -> Flags:
        """Bool (rows,): whose time, model name or revealed names are not as they should be."""
        timely = (self._seconds >= FIRST_SECOND) & (self._seconds < LAST_SECOND)
        named = np.array([model is not None for model in self._models], np.bool_)
        voted = np.array([hidden is not None for hidden in self._hidden], np.bool_)
        return ~(timely & named & (voted | ~self._two))

    def table(self, people: Pseudonyms, linked: LinkedPictures, elsewhere: Set[str]) -> pa.Table:
        """The rows of `sightings`. `linked` are pictures that only file names link to a conversation.

        Conversations that are also `elsewhere` keep all their texts.
        """
        kinds = [KINDS[kind] for kind in self._records[:, KIND].tolist()]
        seconds = self._seconds.tolist()
        pictures, problems = self._pictures()
        if linked:
            pictures = [
                [picture_at(linked[conv_id], at)] if not names and conv_id in linked else names
                for names, conv_id, at in zip(pictures, self.conv_ids, seconds, strict=True)
            ]
        user_id = _Understood(lambda raw: people.user_id(orjson.loads(raw or b"null")))
        return table_of(
            {
                "source": [self._place.source] * len(kinds),
                "line": (self._lines + self._place.line).tolist(),
                "side": self._side.astype(np.int32),
                "record_type": kinds,
                "tstamp": np.rint(self._seconds * 1e6).astype(np.int64).tolist(),
                "conv_id": self.conv_ids,
                "opening_id": list(map(_Understood(_opening_id).__getitem__, self._openings())),
                "model": self._models,
                "texts": self._texts(elsewhere),
                "num_messages": self._states[:, COUNT].astype(np.int32),
                "pictures": pictures,
                "picture_problems": problems,
                "user_id": list(map(user_id.__getitem__, self._raw(self._records, IP))),
                "anonymous": self._hidden,
                "winner": list(map(WINNERS.get, kinds)),
            }
        )

    def _raw(self, places: Places, column: int) -> list[bytes]:
        """The bytes of a value in every row; empty where there is none."""
        raw = self._block.raw
        return [raw[start:stop] for start, stop in zip(*places[:, column : column + 2].T.tolist(), strict=True)]

    def _times(self) -> npt.NDArray[np.float64]:
        """Seconds, NaN where something else stands."""
        values = orjson.loads(b"[" + b",".join(self._raw(self._records, TSTAMP)) + b"]")
        return np.array([each if type(each) in (int, float) else np.nan for each in values], np.float64)

    def _hidden_names(self) -> list[bool | None]:
        """Whether the names of a record with two sides were hidden; None with one side, and where they are wrong."""
        left = np.flatnonzero(self._two & ~self._side)
        shown = self._raw(self._records[left], MODELS)
        own = [self._raw(self._states[rows], MODEL_NAME) for rows in (left, left + 1)]
        found: list[bool | None] = [None] * len(self._lines)
        for row, hidden in zip(left.tolist(), map(_hidden, zip(shown, *own, strict=True)), strict=True):
            found[row] = found[row + 1] = hidden
        return found

    def _openings(self) -> list[bytes]:
        return self._raw(self._found.messages[self._states[:, FIRST]], 0)

    def _texts(self, elsewhere: Set[str]) -> pa.ListArray:
        """The messages of every row, null where the next row of the conversation repeats them."""
        content = np.frombuffer(self._block.raw, np.uint8)
        left_out = repeated(content, self._found, self._following(elsewhere))
        counts = np.where(left_out, 0, self._states[:, COUNT])
        behind = np.cumsum(counts)
        messages = np.arange(counts.sum()) + np.repeat(self._states[:, FIRST] - behind + counts, counts)
        said = decoded(content, self._found.messages[messages, :2])
        offsets = pa.array(np.concatenate([[0], behind]), pa.int32())
        return pa.ListArray.from_arrays(offsets, said, mask=pa.array(left_out, pa.bool_()))

    def _following(self, elsewhere: Set[str]) -> Places:
        """int64 (rows,): the next row of the conversation, -1 where there is none."""
        following = np.full(len(self.conv_ids), -1)
        last = dict.fromkeys(elsewhere, -1)
        for row in range(len(following) - 1, -1, -1):
            conv_id = self.conv_ids[row]
            following[row] = last.get(conv_id, -1)
            if conv_id not in elsewhere:
                last[conv_id] = row
        return following

    def _pictures(self) -> tuple[list[list[str]], list[list[str]]]:
        """(picture names, reject reasons of those that cannot be used) of every row."""
        raw, places = self._block.raw, self._states[:, PICTURE]
        names = [[raw[place : place + HASH_CHARACTERS].decode()] if place >= 0 else [] for place in places.tolist()]
        problems: list[list[str]] = [[]] * len(names)
        beside = (places == NO_PICTURE) & (self._records[:, IMAGES] >= 0)
        for row in np.flatnonzero(beside | (places == OTHER_PICTURES)).tolist():
            names[row], problems[row] = picture_names(self._logged(row))
        return names, problems

    def _logged(self, row: int) -> list[Any]:
        """The picture names of a row as logged, in its messages or, in the early era, beside the state."""
        here = slice(row, row + 1)
        (messages,), (offset,) = self._raw(self._states[here], MESSAGES), self._raw(self._states[here], OFFSET)
        state = {"messages": orjson.loads(messages), "offset": orjson.loads(offset or b"0")}
        beside = self._raw(self._records[here], IMAGES)[0]
        return messages_of(state)[1] or images_beside({"images": orjson.loads(beside or b"null")})


@lru_cache(maxsize=4096)
def _model(raw: bytes) -> str | None:
    name = orjson.loads(raw)
    return name if type(name) is str and is_name(name) else None


@lru_cache(maxsize=65_536)
def _hidden(raw: tuple[bytes, bytes, bytes]) -> bool | None:
    shown, *own = map(orjson.loads, raw)
    try:
        return names_hidden({"models": shown}, [{"model_name": name} for name in own])
    except LineRejected:
        return None


def _opening_id(raw: bytes) -> str:
    return text_id(orjson.loads(raw) or "") if b"\\" in raw or raw == b"null" else utf8_id(raw[1:-1])
