"""JSON as other tools write it: NaN and Infinity, and other things than lines.

In place of lines a file may hold an array, objects that are printed over several lines, lists of an API
(`{"object": "list", "data": […]}`), or a table of pandas.
"""

import io
import json
import re
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from contextlib import suppress
from json import JSONDecoder
from pathlib import Path
from typing import Any

import orjson

from schemas.errors import BadInput, why_unreadable

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
TABLE_BYTES_MAX = 512 * 1024 * 1024
"""A table that is one JSON object is read whole; a larger one is taken for a line, which is too long."""
ELEMENT_CHARACTERS_MAX = 16 * 1024 * 1024
"""Where an element of an array is not complete after so many characters, it is broken."""
_READ_BYTES = 256 * 1024
_SIGNS = re.compile(rb"NaN|Infinity|\\u[dD][89a-fA-F]")
"""A broken line without any of these is not searched further."""
_ODD = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|-?(?:NaN|Infinity)', re.DOTALL)
"""A string, or a number that JSON does not have."""
_SURROGATE = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
"""An escaped backslash, a surrogate pair, or a lone surrogate (group `lone`)."""


def file_bytes(file: Path, kind: str = "answers") -> bytes:
    """The bytes of a file. Raises BadInput for one that cannot be read; `kind` says what it should hold."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise BadInput(f"{kind} {str(file)!r} cannot be read ({why_unreadable(error)}); give another file") from None


def json_file(file: Path) -> Any:
    """The value of a JSON file, in which NaN is a number. Raises BadInput for a file that holds no JSON."""
    try:
        return json.loads(file_bytes(file))
    except (ValueError, RecursionError):
        raise BadInput(f"{file.name}: not JSON; give it as its runner wrote it") from None


def loads(raw: bytes | str) -> Any:
    """The value of a JSON text. NaN and Infinity, which Python's `json` writes, are null; lone surrogates are U+FFFD.

    Raises orjson.JSONDecodeError.
    """
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        content = raw if isinstance(raw, bytes) else raw.encode("utf-8", "surrogatepass")
        if _SIGNS.search(content):
            with suppress(orjson.JSONDecodeError):
                return orjson.loads(_ODD.sub(_as_json, content))
        raise


def _as_json(odd: re.Match[bytes]) -> bytes:
    if not odd[0].startswith(b'"'):
        return b"null"
    return _SURROGATE.sub(lambda half: rb"\ufffd" if half["lone"] else half[0], odd[0])


_ARRAY = re.compile(rb"\s*\[\s*(?:\{|\]\s*\Z)")
_TABLE = re.compile(
    rb'\s*\{\s*"(?:[^"\\]|\\.){1,200}"\s*:\s*\{\s*"\d+"\s*:'  # {"model_a": {"0": …: columns of rows
    rb'|\s*\{\s*"\d+"\s*:\s*\{'  # {"0": {"model_a": …: rows of columns
    rb'|\s*\{\s*"(?:columns|index)"\s*:\s*\['  # orient="split"
    rb'|\s*\{\s*"schema"\s*:\s*\{\s*"fields"'  # orient="table"
)


_FIELDS = r'(?:"[a-z_]{1,40}"\s*:\s*(?:"[^"\\]{0,200}"|true|false|null|-?[0-9.]{1,20})'
"""Fields of an API's list beside its elements."""
_LIST_HEAD = rf'\{{\s*{_FIELDS}\s*,\s*)*"data"\s*:\s*\['
_LIST_TAIL = rf"\](?:\s*,\s*{_FIELDS}))*\s*\}}"
_LIST = re.compile(rf'\s*(?=\{{\s*(?:"object"\s*:\s*"list"|\r?\n)){_LIST_HEAD}\s*[\{{\]]'.encode())
_PRINTED = re.compile(rb'\s*\{[ \t]*\r?\n\s*"(?!(?:tstamp|type|models?|states?|ip|start)")')
"""An object over several lines. A record of a log that was broken into lines stays lines: flags are searched there."""


def is_one_document(stream: io.BufferedReader) -> bool:
    """Whether a file has no lines.

    It begins as an array of objects, an API's list, an object over several lines, or a table that pandas wrote.
    """
    start = stream.peek(1).removeprefix(BYTE_ORDER_MARK)
    return any(shape.match(start) for shape in (_ARRAY, _TABLE, _LIST, _PRINTED))


def raw_rows(
    stream: io.BufferedReader, lines: Callable[[io.BufferedIOBase], Iterator[bytes]] = iter
) -> Iterator[bytes]:
    """The JSON of each row of a file from its beginning.

    A row is a line, an element of an array or an API's list, an object, or a row of pandas' `to_json`. `lines` cuts a
    stream into lines. A row that is no JSON is given as it is; the next one is found again.
    """
    if not is_one_document(stream):
        yield from lines(stream)
        return
    start = stream.peek(1).removeprefix(BYTE_ORDER_MARK)
    if _LIST.match(start):
        yield from _elements(stream, _BETWEEN_LISTED)
    elif _ARRAY.match(start) or not _TABLE.match(start):
        yield from _elements(stream, _BETWEEN)
    else:
        content = stream.read(TABLE_BYTES_MAX + 1)
        rows = _rows_of(content) if len(content) <= TABLE_BYTES_MAX else None
        if rows is None:
            yield from lines(io.BytesIO(content))
            yield from lines(stream)
        else:
            yield from map(orjson.dumps, rows)


_VALUE = JSONDecoder(strict=False, parse_int=len, parse_float=len)
"""Finds where a value ends; what its numbers are does not matter."""
_OPENING = re.compile(r"\ufeff?\s*\[(?:.*?\n)?(?P<indent>[ \t]*)(?=\{)", re.DOTALL)
_BETWEEN = re.compile(r"[\s,\[\]\ufeff]*")
_BETWEEN_LISTED = re.compile(rf"(?:{_LIST_HEAD}|{_LIST_TAIL}|[\s,\[\]\ufeff])*")
_BETWEEN_CHARACTERS_MAX = 4096
"""Longest text between two elements: where so much of the text is there, it is whole."""


def _elements(stream: io.BufferedReader, between: re.Pattern[str]) -> Iterator[bytes]:
    """The JSON of each element of an array, or of each object of several. `between` matches what is between them.

    One that is broken goes up to the next line that begins an element.
    """
    decoder = getincrementaldecoder("utf-8")("surrogateescape")
    text, ended = decoder.decode(stream.read(_READ_BYTES)), False
    opening = _OPENING.match(text, _start_of_array(text) if between is _BETWEEN_LISTED else 0)
    indent_characters = len(opening["indent"]) if opening else 0
    next_element = re.compile(rf"\n[ \t]{{0,{indent_characters}}},?[ \t]?\{{")
    place = 0
    while True:
        if not ended and len(text) - place < _BETWEEN_CHARACTERS_MAX:
            more = stream.read(_READ_BYTES)
            text, place, ended = text[place:] + decoder.decode(more, not more), 0, not more
            continue
        place += len(between.match(text, place)[0])  # type: ignore[index]  # it matches nothing, too
        stop = _end_of_value(text, place)
        if stop is None and not ended and len(text) - place <= ELEMENT_CHARACTERS_MAX:
            more = stream.read(max(_READ_BYTES, len(text) - place))
            text, place, ended = text[place:] + decoder.decode(more, not more), 0, not more
            continue
        if place == len(text):
            return
        if stop is None:
            next_match = next_element.search(text, place)
            stop = next_match.start() if next_match else len(text)
        yield text[place:stop].encode("utf-8", "surrogateescape")
        place = stop


def _start_of_array(text: str) -> int:
    """Where the array of an API's list begins."""
    head = re.match(rf"\ufeff?\s*{_LIST_HEAD}", text)
    return head.end() - 1 if head else 0


def _end_of_value(text: str, place: int) -> int | None:
    """Where the JSON value ends that begins at a place; None when it is broken or not complete."""
    try:
        return _VALUE.raw_decode(text, place)[1]
    except (ValueError, RecursionError):
        return None


def _rows_of(content: bytes) -> list[dict[str, Any]] | None:
    """The rows of a table as `DataFrame.to_json` writes it, in any of its shapes; None for anything else."""
    try:
        table = loads(content.removeprefix(BYTE_ORDER_MARK))
    except orjson.JSONDecodeError:
        return None
    match table:
        case {"columns": [*names], "data": [*rows]}:
            return [dict(zip(map(str, names), row, strict=False)) for row in rows if isinstance(row, list)]
        case {"schema": {"fields": [*_]}, "data": [*rows]}:
            return rows
        case dict() if all(isinstance(inner, dict) for inner in table.values()):
            if all(map(str.isdigit, table)):
                return list(table.values())
            first, *others = table.values()
            if all(inner.keys() == first.keys() for inner in others):
                return [{name: column[label] for name, column in table.items()} for label in first]
    return None
