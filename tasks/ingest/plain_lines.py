"""The usual lines of a block -> the `sightings` table; the others are left to `read_logs.py`.

`line_scan.py` says where the values stand. Values that are equal, such as a model's name or an address, are understood
once, by the functions that `log_line.py` has for them. Texts that a later line repeats are never decoded.
"""

from collections.abc import Callable, Sequence, Set
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from tasks.ingest.arrow_columns import Flags, flags, lists, numbers, strings
from tasks.ingest.content_digests import text_ids
from tasks.ingest.distinct_values import distinct
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
from tasks.ingest.sighting_frame import TIME, table_of
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

Names: TypeAlias = Sequence[list[str]] | pa.ListArray
_KINDS, _WINNERS = strings(KINDS), strings([WINNERS.get(kind) for kind in KINDS])


def _is_utf8(line: bytes) -> bool:
    try:
        return line.isascii() or bool(line.decode())
    except UnicodeDecodeError:
        return False


class PlainLines:
    """What is understood of a block, whose first line stands at `place`: a row a state."""

    def __init__(self, block: Block, place: Place) -> None:
        self._block, self._place = block, place
        self._content = np.frombuffer(block.raw, np.uint8)
        found = scan(self._content, block.starts)
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
        self.conv_ids: pa.StringArray = decoded(self._content, self._states[:, CONV_ID : CONV_ID + 2])
        """Of every row."""
        self._side = np.concatenate([[False], self._lines[1:] == self._lines[:-1]])[: len(self._lines)]
        self._seconds = self._times()
        names = np.where(
            self._two[:, None], self._states[:, MODEL_NAME : MODEL_NAME + 2], self._records[:, MODEL : MODEL + 2]
        )
        self._model, self._models = self._understood(names, _model)
        self._hidden = self._hidden_names()

    def _refused(self) -> Flags:
        """Bool (rows,): whose time, model name or revealed names are not as they should be."""
        timely = (self._seconds >= FIRST_SECOND) & (self._seconds < LAST_SECOND)
        named = np.array([model is not None for model in self._models], np.bool_)[self._model]
        return ~(timely & named & (~self._two | (self._hidden >= 0)))

    def table(self, people: Pseudonyms, linked: LinkedPictures, elsewhere: Set[str]) -> pa.Table:
        """The rows of `sightings`. `linked` are pictures that only file names link to a conversation.

        Conversations that are also `elsewhere` keep all their texts.
        """
        kinds, rows = numbers(self._records[:, KIND]), len(self._states)
        pictures, problems = self._pictures(linked)
        opening, openings = self._openings()
        user, users = self._understood(
            self._records[:, IP : IP + 2], lambda raw: people.user_id(orjson.loads(raw or b"null"))
        )
        return table_of(
            {
                "source": strings([self._place.source]).take(numbers(np.zeros(rows, np.int64))),
                "line": numbers(self._lines + self._place.line),
                "side": numbers(self._side.astype(np.int32)),
                "record_type": _KINDS.take(kinds),
                "tstamp": numbers(np.rint(self._seconds * 1e6).astype(np.int64), TIME),
                "conv_id": self.conv_ids,
                "opening_id": openings.take(numbers(opening)),
                "model": strings(self._models).take(numbers(self._model)),
                "texts": self._texts(elsewhere),
                "num_messages": numbers(self._states[:, COUNT].astype(np.int32)),
                "pictures": pictures,
                "picture_problems": problems,
                "user_id": strings(users).take(numbers(user)),
                "anonymous": flags(self._hidden > 0, self._hidden >= 0),
                "winner": _WINNERS.take(kinds),
            }
        )

    def _understood(self, spans: Places, understand: Callable[[bytes], str | None]) -> tuple[Places, list[str | None]]:
        """(which of the distinct values every row has, what each of them means) of the values at `spans`."""
        codes, firsts = distinct(self._content, spans)
        return codes, list(map(understand, self._raw(spans[firsts])))

    def _raw(self, spans: Places) -> list[bytes]:
        """The bytes of a value in every row; empty where there is none."""
        raw = self._block.raw
        return [raw[start:stop] for start, stop in zip(*spans.T.tolist(), strict=True)]

    def _times(self) -> npt.NDArray[np.float64]:
        """Seconds, NaN where something else stands."""
        values = orjson.loads(b"[" + b",".join(self._raw(self._records[:, TSTAMP : TSTAMP + 2])) + b"]")
        return np.array([each if type(each) in (int, float) else np.nan for each in values], np.float64)

    def _hidden_names(self) -> npt.NDArray[np.int8]:
        """int8 (rows,): 1 if the names of a record with two sides were hidden, 0 if not; -1 with one side, or wrong."""
        left = np.flatnonzero(self._two & ~self._side)
        shown = self._raw(self._records[left, MODELS : MODELS + 2])
        own = [self._raw(self._states[rows, MODEL_NAME : MODEL_NAME + 2]) for rows in (left, left + 1)]
        found = np.full(len(self._lines), -1, np.int8)
        found[left] = found[left + 1] = list(map(_hidden, zip(shown, *own, strict=True)))
        return found

    def _openings(self) -> tuple[Places, pa.StringArray]:
        """(which of the distinct opening texts every row has, their ids)."""
        spans = self._found.messages[self._states[:, FIRST], :2]
        codes, firsts = distinct(self._content, spans)
        return codes, text_ids(decoded(self._content, spans[firsts]))

    def _texts(self, elsewhere: Set[str]) -> pa.ListArray:
        """The messages of every row, null where the next row of the conversation repeats them."""
        left_out = repeated(self._content, self._found, self._following(elsewhere))
        counts = np.where(left_out, 0, self._states[:, COUNT])
        messages = np.arange(counts.sum()) + np.repeat(self._states[:, FIRST] - np.cumsum(counts) + counts, counts)
        return lists(counts, decoded(self._content, self._found.messages[messages, :2]), left_out)

    def _following(self, elsewhere: Set[str]) -> Places:
        """int64 (rows,): the next row of the conversation, -1 where there is none."""
        conversation, _ = distinct(self._content, self._states[:, CONV_ID : CONV_ID + 2])
        order = np.argsort(conversation, kind="stable")
        again = conversation[order[1:]] == conversation[order[:-1]]
        following = np.full(len(order), -1)
        following[order[:-1][again]] = order[1:][again]
        if elsewhere:
            following[[conv_id in elsewhere for conv_id in self.conv_ids.to_pylist()]] = -1
        return following

    def _pictures(self, linked: LinkedPictures) -> tuple[Names, Names]:
        """(picture names, reject reasons of those that cannot be used) of every row."""
        places = self._states[:, PICTURE]
        alone = places >= 0
        names = lists(alone, decoded(self._content, places[alone, None] + np.array([-1, HASH_CHARACTERS + 1])))
        beside = (places == NO_PICTURE) & (self._records[:, IMAGES] >= 0)
        unusual = np.flatnonzero(beside | (places == OTHER_PICTURES)).tolist()
        if not unusual and not linked:
            return names, lists(np.zeros(len(places), np.int32), strings([]))
        found: list[list[str]] = names.to_pylist()
        problems: list[list[str]] = [[]] * len(found)
        for row in unusual:
            found[row], problems[row] = picture_names(self._logged(row))
        for row, conv_id in enumerate(self.conv_ids.to_pylist() if linked else []):
            if not found[row] and conv_id in linked:
                found[row] = [picture_at(linked[conv_id], self._seconds[row])]
        return found, problems

    def _logged(self, row: int) -> list[Any]:
        """The picture names of a row as logged, in its messages or, in the early era, beside the state."""
        here = slice(row, row + 1)
        (messages,) = self._raw(self._states[here, MESSAGES : MESSAGES + 2])
        (offset,) = self._raw(self._states[here, OFFSET : OFFSET + 2])
        state = {"messages": orjson.loads(messages), "offset": orjson.loads(offset or b"0")}
        (beside,) = self._raw(self._records[here, IMAGES : IMAGES + 2])
        return messages_of(state)[1] or images_beside({"images": orjson.loads(beside or b"null")})


@lru_cache(maxsize=4096)
def _model(raw: bytes) -> str | None:
    name = orjson.loads(raw)
    return name if type(name) is str and is_name(name) else None


@lru_cache(maxsize=65_536)
def _hidden(raw: tuple[bytes, bytes, bytes]) -> int:
    shown, *own = map(orjson.loads, raw)
    try:
        return names_hidden({"models": shown}, [{"model_name": name} for name in own])
    except LineRejected:
        return -1
