"""Compiled: the content ids of many items at once, the same that `tasks.content_id` gives one by one.

Hashing one message takes less time than the Python around `hashlib` does.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tasks.ingest.arrow_columns import strings
from tasks.ingest.blake2b import BLOCK_BYTES, DIGEST_BYTES, STATE, WORD, mix_in
from tasks.ingest.byte_blocks import BLOCK, copy_ahead
from tasks.ingest.json_scan import Bytes, Places, loop, step

Words = npt.NDArray[np.uint64]
ID_BYTES = DIGEST_BYTES
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)


def text_ids(texts: pa.StringArray) -> pa.StringArray:
    """Of texts; null is an empty one."""
    return digests(b"text", np.ones(len(texts), np.int64), texts)


def digests(kind: bytes, counts: npt.NDArray[Any], parts: pa.StringArray) -> pa.StringArray:
    """Ids, 32 hex digits, of items that consist of `counts`, int (n,), consecutive `parts` each.

    They are those of `content_id.text_id` for the kind `text` and one part, and else of `content_id.combined_id`.
    """
    if not len(counts):
        return strings([])
    _, offsets, content = parts.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(parts) + 1, 4 * parts.offset).astype(np.int64)
    stops = np.cumsum(counts, dtype=np.int64)
    sizes = np.diff(bounds[stops], prepend=bounds[0]) + WORD * (2 + np.asarray(counts)) + len(kind)
    message = np.empty(sizes.max() + BLOCK_BYTES, np.uint8)
    digits = np.empty((len(stops), 2 * ID_BYTES), np.uint8)
    values = np.frombuffer(content or b"", np.uint8)
    _digest(np.frombuffer(kind, np.uint8), values, bounds, stops, message, np.empty(8, np.uint64), digits)
    ends = np.arange(len(stops) + 1, dtype=np.int32) * 2 * ID_BYTES
    return pa.Array.from_buffers(pa.string(), len(stops), [None, pa.py_buffer(ends), pa.py_buffer(digits)])


@loop
def _digest(
    kind: Bytes, values: Bytes, bounds: Places, stops: Places, message: Bytes, state: Words, digits: Bytes
) -> None:
    part = 0
    for item in range(len(stops)):
        size = _put_part(kind, 0, len(kind), message, 0)
        while part < stops[item]:
            size = _put_part(values, bounds[part], bounds[part + 1], message, size)
            part += 1
        _hash(message, size, state)
        for place in range(2 * ID_BYTES):
            word = state[place // (2 * WORD)] >> np.uint64(place % (2 * WORD) // 2 * 8)
            digits[item, place] = _DIGITS[np.int64(word >> np.uint64(0 if place % 2 else 4)) & 0xF]


@step
def _put_part(raw: Bytes, start: int, stop: int, message: Bytes, to: int) -> int:
    """Write how long a part is and the part; behind it in `message`."""
    end = to + WORD + stop - start
    for place in range(WORD):
        message[to + place] = ((stop - start) >> (8 * place)) & 0xFF
    to += WORD
    while to < end:
        if start + BLOCK <= len(raw):  # copied whole: what is too much is written over, or left out
            copy_ahead(raw, start, message, to)
            start, to = start + BLOCK, to + BLOCK
        else:
            message[to] = raw[start]
            start, to = start + 1, to + 1
    return end


@step
def _hash(message: Bytes, size: int, state: Words) -> None:
    for word in range(len(STATE)):
        state[word] = STATE[word]
    end = size
    while end % BLOCK_BYTES:
        message[end] = 0
        end += 1
    for at in range(0, end, BLOCK_BYTES):
        mix_in(state, message, at, min(at + BLOCK_BYTES, size), at + BLOCK_BYTES == end)
