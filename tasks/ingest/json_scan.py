"""Compiled steps over JSON text: strict where the standard is, and stopping at whatever is rare.

Each takes the bytes of whole lines, which Python ends with a byte 0, and a place; it returns the place behind what it
read, or STRANGE. That is not an error: such a line is read again by `log_line.py`, which names what is wrong with it.
What is accepted here is JSON to orjson as well, apart from bytes that are not UTF-8.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

from tasks.ingest.byte_blocks import BLOCK, same_ahead, text_ahead
from tasks.running.compiled import compiled

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
STRANGE = -1
QUOTE, COMMA, COLON, BACKSLASH, LINE_END = (ord(mark) for mark in '",:\\\n')
ARRAY, ARRAY_END, OBJECT, OBJECT_END = (ord(mark) for mark in "[]{}")
_DIGITS_MAX, _EXPONENT_DIGITS_MAX, _DEPTH_MAX = 18, 2, 60
"""Below any limit of orjson's."""
UNCOUNTED: dict[str, Any] = {"_nrt": False}
"""References to the arrays are not counted, which would take half the time; so nothing can be allocated."""
Function = TypeVar("Function", bound=Callable[..., Any])


def step(function: Function) -> Function:
    """Compiled into whatever calls it."""
    return cast(Function, numba.njit(nogil=True, **UNCOUNTED)(function))


def loop(function: Function) -> Function:
    """Compiled by itself and kept, for Python to call."""
    return compiled(function, **UNCOUNTED)


def table_of(marks: bytes) -> npt.NDArray[np.bool_]:
    """Bool (256,): which bytes are among `marks`."""
    return np.isin(np.arange(256), list(marks))


def names_table(names: tuple[str, ...]) -> npt.NDArray[np.uint8]:
    """uint8 (names, longest + 1): their lengths and their letters."""
    longest = max(map(len, names))
    rows = [[len(name), *name.encode().ljust(longest, b"\0")] for name in names]
    return np.array(rows, np.uint8)


_SPACE = table_of(b" \t\r")
_ESCAPES = table_of(b'"\\/bfnrt')
_DIGIT = table_of(b"0123456789")
_HEX = np.full(256, -1)
_HEX[list(b"0123456789abcdef")] = np.arange(16)
_HEX[list(b"ABCDEF")] = np.arange(10, 16)


@step
def after_space(raw: Bytes, at: int) -> int:
    """Behind white space; a line end is none, because it ends the record."""
    while _SPACE[raw[at]]:
        at += 1
    return at


@step
def code_unit(raw: Bytes, at: int) -> int:
    r"""The value of the four hex digits of a \uXXXX, or STRANGE."""
    value = 0
    for place in range(at, at + 4):
        digit = _HEX[raw[place]]
        if digit < 0:
            return STRANGE
        value = 16 * value + digit
    return value


@step
def _after_escape(raw: Bytes, at: int) -> int:
    """Behind what follows a backslash. Half a surrogate pair is strange."""
    if raw[at] != ord("u"):
        return at + 1 if _ESCAPES[raw[at]] else STRANGE
    unit = code_unit(raw, at + 1)
    if unit < 0xD800 or unit > 0xDFFF:
        return STRANGE if unit < 0 else at + 5
    if unit > 0xDBFF or raw[at + 5] != BACKSLASH or raw[at + 6] != ord("u"):
        return STRANGE
    return at + 11 if 0xDC00 <= code_unit(raw, at + 7) <= 0xDFFF else STRANGE


@step
def string_end(raw: Bytes, at: int) -> tuple[int, bool]:
    """(place of the closing quote or STRANGE, whether anything is escaped) of a string, from behind its first quote."""
    escaped = False
    while True:
        ahead = BLOCK
        while ahead == BLOCK and at + BLOCK <= len(raw):
            ahead = text_ahead(raw, at)
            at += ahead
        while ahead == BLOCK and raw[at] >= ord(" ") and raw[at] != QUOTE and raw[at] != BACKSLASH:
            at += 1
        if raw[at] == QUOTE:
            return at, escaped
        if raw[at] != BACKSLASH:
            return STRANGE, escaped
        at = _after_escape(raw, at + 1)
        if at < 0:
            return STRANGE, escaped
        escaped = True


@step
def _after_digits(raw: Bytes, at: int, most: int) -> int:
    start = at
    while _DIGIT[raw[at]]:
        at += 1
    return at if start < at <= start + most else STRANGE


@step
def _after_number(raw: Bytes, at: int) -> int:
    if raw[at] == ord("-"):
        at += 1
    zero = raw[at] == ord("0")
    at = at + 1 if zero else _after_digits(raw, at, _DIGITS_MAX)
    if at >= 0 and raw[at] == ord("."):
        at = _after_digits(raw, at + 1, _DIGITS_MAX)
    if at >= 0 and (raw[at] == ord("e") or raw[at] == ord("E")):
        sign = raw[at + 1] == ord("+") or raw[at + 1] == ord("-")
        at = _after_digits(raw, at + 2 if sign else at + 1, _EXPONENT_DIGITS_MAX)
    return at


@step
def _after_word(raw: Bytes, at: int, word: Bytes) -> int:
    for letter in word:
        if raw[at] != letter:
            return STRANGE
        at += 1
    return at


_NULL, _TRUE, _FALSE = (np.frombuffer(word, np.uint8) for word in (b"null", b"true", b"false"))


@step
def _after_scalar(raw: Bytes, at: int) -> int:
    if raw[at] == QUOTE:
        stop, _ = string_end(raw, at + 1)
        return STRANGE if stop < 0 else stop + 1
    if raw[at] == ord("n"):
        return _after_word(raw, at, _NULL)
    if raw[at] == ord("t"):
        return _after_word(raw, at, _TRUE)
    if raw[at] == ord("f"):
        return _after_word(raw, at, _FALSE)
    return _after_number(raw, at)


@step
def same(raw: Bytes, start: int, stop: int, other: int, other_stop: int) -> bool:
    """Whether the same bytes stand in both places."""
    if stop - start != other_stop - other:
        return False
    while start < stop:
        if start + BLOCK > len(raw) or other + BLOCK > len(raw):
            if raw[start] != raw[other]:
                return False
            start, other = start + 1, other + 1
        else:
            if same_ahead(raw, start, other) < min(BLOCK, stop - start):
                return False
            start, other = start + BLOCK, other + BLOCK
    return True


@step
def name_at(raw: Bytes, start: int, stop: int, names: Bytes) -> int:
    """Which of `names`, made by `names_table`, stands there, or STRANGE."""
    for number in range(len(names)):
        if names[number, 0] == stop - start:
            place = 0
            while place < stop - start and raw[start + place] == names[number, place + 1]:
                place += 1
            if place == stop - start:
                return number
    return STRANGE


@step
def key_end(raw: Bytes, at: int) -> int:
    """The closing quote of the key at `at`; one with anything escaped is strange."""
    if raw[at] != QUOTE:
        return STRANGE
    stop, escaped = string_end(raw, at + 1)
    return STRANGE if escaped else stop


@step
def after_colon(raw: Bytes, at: int) -> int:
    """Where the value begins whose key's closing quote is at `at`."""
    at = after_space(raw, at + 1)
    return after_space(raw, at + 1) if raw[at] == COLON else STRANGE


@step
def member(raw: Bytes, at: int, names: Bytes, fields: Places, row: int) -> tuple[int, int]:
    """(where the value of the key at `at` begins or STRANGE, which of `names` the key is). None may come twice."""
    stop = key_end(raw, at)
    if stop < 0:
        return STRANGE, STRANGE
    key = name_at(raw, at + 1, stop, names)
    if key >= 0 and fields[row, 2 * key] >= 0:
        return STRANGE, key
    return after_colon(raw, stop), key


@step
def after_value(raw: Bytes, at: int) -> int:
    """Behind the value that begins at `at`, whatever it holds."""
    depth, objects = 0, 0  # one bit a level: whether it is an object
    while True:
        opened = raw[at] == OBJECT or raw[at] == ARRAY
        if opened:
            if depth == _DEPTH_MAX:
                return STRANGE
            depth, objects = depth + 1, 2 * objects + (raw[at] == OBJECT)
            at = after_space(raw, at + 1)
        else:
            at = _after_scalar(raw, at)
        more = opened and raw[at] != ARRAY_END and raw[at] != OBJECT_END
        while at >= 0 and not more and depth:
            at = after_space(raw, at)
            if raw[at] == COMMA and not opened:
                at, more = after_space(raw, at + 1), True
            elif raw[at] == (OBJECT_END if objects & 1 else ARRAY_END):
                at, depth, objects, opened = at + 1, depth - 1, objects >> 1, False
            else:
                return STRANGE
        if at < 0 or not depth:
            return at
        if objects & 1:
            at = key_end(raw, at)
            at = after_colon(raw, at) if at >= 0 else STRANGE
            if at < 0:
                return STRANGE
