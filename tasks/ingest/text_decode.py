"""Compiled: JSON strings -> their text as Arrow holds it, without a Python object a text."""

from typing import Any

import numpy as np
import pyarrow as pa

from tasks.ingest.byte_blocks import BLOCK, copy_ahead
from tasks.ingest.json_scan import BACKSLASH, Bytes, Places, code_unit, loop, step

_ESCAPED = np.arange(256, dtype=np.uint8)
_ESCAPED[list(b"bfnrt")] = list(b"\b\f\n\r\t")


def decoded(content: Bytes, spans: Places) -> pa.StringArray:
    """The strings and nulls that stand at `spans`, int64 (n, 2): first place and the one behind. All are valid JSON."""
    size = int((spans[:, 1] - spans[:, 0]).sum())
    out, offsets = np.empty(size + BLOCK, np.uint8), np.zeros(len(spans) + 1, np.int32)
    _decode(content, np.ascontiguousarray(spans), out, offsets)
    null = content[spans[:, 0]] == ord("n")
    there = pa.py_buffer(np.packbits(~null, bitorder="little")) if null.any() else None
    return pa.Array.from_buffers(pa.string(), len(spans), [there, pa.py_buffer(offsets), pa.py_buffer(out)])


@loop
def _decode(raw: Bytes, spans: Places, out: Bytes, offsets: Any) -> None:
    to = 0
    for number in range(len(spans)):
        if raw[spans[number, 0]] != ord("n"):
            to = _put_text(raw, spans[number, 0] + 1, spans[number, 1] - 1, out, to)
        offsets[number + 1] = to


@step
def _put_text(raw: Bytes, at: int, stop: int, out: Bytes, to: int) -> int:
    """Write what stands before the closing quote at `stop`; behind it in `out`. Blocks are copied whole."""
    while at < stop:
        if at + BLOCK <= len(raw):
            ahead = min(copy_ahead(raw, at, out, to), stop - at)
            at, to = at + ahead, to + ahead
        elif raw[at] != BACKSLASH:
            out[to] = raw[at]
            at, to = at + 1, to + 1
        if at < stop and raw[at] == BACKSLASH:
            at, to = _put_escaped(raw, at + 1, out, to)
    return to


@step
def _put_escaped(raw: Bytes, at: int, out: Bytes, to: int) -> tuple[int, int]:
    """Write the character that stands behind a backslash, in UTF-8."""
    if raw[at] != ord("u"):
        out[to] = _ESCAPED[raw[at]]
        return at + 1, to + 1
    point = code_unit(raw, at + 1)
    at += 5
    if 0xD800 <= point <= 0xDBFF:
        point = 0x10000 + ((point - 0xD800) << 10) + code_unit(raw, at + 2) - 0xDC00
        at += 6
    return at, _put_character(point, out, to)


@step
def _put_character(point: int, out: Bytes, to: int) -> int:
    if point < 0x80:
        out[to] = point
        return to + 1
    followers = 1 if point < 0x800 else 2 if point < 0x10000 else 3
    out[to] = (0xF00 >> followers + 1) & 0xFF | point >> 6 * followers
    for place in range(1, followers + 1):
        out[to + place] = 0x80 | (point >> 6 * (followers - place)) & 0x3F
    return to + followers + 1
