"""The law of parts, for every format: what stands in place of a text is read, counted as not read, or rejects its row.

A place of a text is one whose words become words of a conversation; every row of every format has its places, and so
has a message that is put beside the others.
"""

import copy
import functools
import json
import operator
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from tasks.ingest.formats import BUILT_IN
from tasks.ingest.log_line import Place
from tasks.ingest.read_logs import LogContent
from tasks.storage.keyed_ids import Pseudonyms
from tests.tasks.ingest.test_formats import PICTURED, ROWS
from tests.tasks.ingest.test_kinds_of_files import places_in, rows_of_formats

Row = dict[str, Any]
PlaceInRow = tuple[Any, ...]

SETS: dict[str, list[Row]] = {**rows_of_formats(), **{name: [ROWS[name]] for name in PICTURED}}
WORDS = "A heron stands in the reeds."
REPEATS: dict[str, tuple[PlaceInRow, ...]] = {
    **dict.fromkeys(("comparia-conversations", "comparia-votes", "comparia-reactions"), (("opening_msg",),)),
    "comparia": (("response_a",), ("response_b",)),
    "search-arena": (("system_a_metadata",), ("system_b_metadata",)),
    "open-webui": (("chat", "messages"),),
}
"""Set -> columns that repeat words of its messages."""
PLACES_TRIED = 12
OTHER_PARTS: tuple[Row, ...] = (
    {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
    {"type": "video_url", "video_url": {"url": "https://example.org/a.mp4"}},
    {"type": "tool_use", "id": "t1", "name": "search", "input": {"q": "herons"}},
    {"type": "file", "file": {"file_id": "f1"}},
    {"type": "hologram", "hologram": {"depth": 3}},
    {"kind": "unheard of", "value": [1, 2]},
)
OF_WORDS: dict[str, Any] = {"a text": WORDS, "a list of it": [WORDS], "an object of it": {"text": WORDS}}


def _read(row: Row, name: str) -> LogContent:
    content = LogContent()
    shape = BUILT_IN[name.partition(" ")[0].removesuffix("-nested")]
    content.add_row(row, Place("rows", 1), False, shape, Pseudonyms(b"k" * 16))
    return content


def _words(content: LogContent) -> str:
    """All words of the conversations of a row, and what was thought."""
    said = [[seen.texts, seen.served] for seen in content.sightings]
    return json.dumps(said, default=str, ensure_ascii=False)


def _counted(content: LogContent) -> int:
    """Parts of a row that are counted as not read."""
    return sum(len(seen.unread_parts or []) for seen in content.sightings)


def _at(row: Row, place: PlaceInRow) -> Any:
    return functools.reduce(operator.getitem, place, row)


def _with(row: Row, place: PlaceInRow, value: Any) -> Row:
    changed = copy.deepcopy(row)
    *above, key = place
    functools.reduce(operator.getitem, above, changed)[key] = value
    return changed


def _written_as(text: str, value: Any) -> Any:
    """A value in place of a text: in the JSON of a list, where the text is one."""
    return json.dumps([value, *json.loads(text)[1:]]) if text.startswith('["') else value


def _repeats(row: Row, name: str) -> tuple[PlaceInRow, ...]:
    """Where the words of a row stand once more, or stand beside what the row is about."""
    if name == "comparia-reactions":
        other_side = "b" if row["refers_to_conv_id"] == row["conv_a_id"] else "a"
        return (*REPEATS[name], (f"conversation_{other_side}",))
    return REPEATS.get(name, ())


def _places_of_texts(row: Row, name: str) -> list[PlaceInRow]:
    said = _words(_read(row, name))
    repeats = _repeats(row, name)
    places: list[PlaceInRow] = []
    for place in places_in(row):
        value = _at(row, place)
        if isinstance(value, str) and not any(place[: len(above)] == above for above in repeats):
            text = json.loads(value)[0] if value.startswith('["') else value
            if len(text) > 2 and json.dumps(text, ensure_ascii=False)[1:-1] in said:
                places.append(place)
    assert places
    return places


def _changed_rows(name: str, values: Callable[[random.Random], Any]) -> Iterator[tuple[PlaceInRow, LogContent, Row]]:
    """(place, what becomes of the row, the row as it was): each drawn place with a value of `values` in it."""
    drawn = random.Random(name)
    for row in SETS[name]:
        places = _places_of_texts(row, name)
        for place in drawn.sample(places, min(len(places), PLACES_TRIED)):
            value = _written_as(_at(row, place), values(drawn))
            yield place, _read(_with(row, place, value), name), row


@pytest.mark.parametrize("spelled", OF_WORDS)
@pytest.mark.parametrize("name", SETS)
def test_words_in_place_of_a_text_are_read_or_counted_or_reject_their_row(name, spelled):
    for place, content, _ in _changed_rows(name, lambda _: OF_WORDS[spelled]):
        assert content.rejects or WORDS in _words(content) or _counted(content), place


@pytest.mark.parametrize("beside", ["alone", "behind a text"])
@pytest.mark.parametrize("name", SETS)
def test_a_part_of_another_kind_in_place_of_a_text_is_counted_or_rejects_its_row(name, beside):
    before = [{"type": "text", "text": WORDS}] if beside == "behind a text" else []
    for place, content, row in _changed_rows(name, lambda drawn: [*before, drawn.choice(OTHER_PARTS)]):
        assert content.rejects or _counted(content) > _counted(_read(row, name)), place


@pytest.mark.parametrize("role", ["user", "assistant", "tool", "critic", None])
@pytest.mark.parametrize("name", SETS)
def test_a_message_more_is_read_or_counted_or_rejects_its_row(name, role):
    for row in SETS[name]:
        messages = {
            place[:-2] for place in _places_of_texts(row, name) if len(place) > 2 and isinstance(place[-2], int)
        }
        for place in sorted(messages, key=str):
            last_message = _at(row, place)[-1]
            if isinstance(last_message, Mapping) and ("role" in last_message or "from" in last_message):
                role_key = "role" if "role" in last_message else "from"
                added = {role_key: role, "content" if role_key == "role" else "value": WORDS}
                content = _read(_with(row, place, [*_at(row, place), added]), name)
                assert content.rejects or WORDS in _words(content) or _counted(content), place
