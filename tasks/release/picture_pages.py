"""Pages of the column `images.list.element.bytes`: version 1 data pages of plain values, not compressed."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tasks.parquet import PAGE_BYTES
from tasks.release.thrift import I64, STRUCT, signed, varint

View = memoryview | bytes
_EMPTY, _PRESENT = 1, 4
"""Definition levels of a row without pictures, and of a picture."""
_ONE = b"\2\0\0\0\2\0\2\0\0\0\2\4"
"""Levels of one row with one picture."""


class Page(NamedTuple):
    """One page as the buffers to write, and what the footer tells of it."""

    buffers: list[View]
    size: int
    rows: int
    picture_bytes: int


def pages(shown: Sequence[int], pictures: Sequence[View]) -> list[Page]:
    """The pages of rows that show so many pictures each; a page ends with the row that makes it `PAGE_BYTES` long."""
    found = []
    first = row = 0
    for end in _ends(shown, pictures):
        some = shown[row:end]
        last = first + sum(some)
        found.append(_page(some, pictures[first:last]))
        first, row = last, end
    return found


def _ends(shown: Sequence[int], pictures: Sequence[View]) -> list[int]:
    """The row after the last one of every page."""
    ends, picture, size = [], 0, 0
    for row, count in enumerate(shown, 1):
        size += sum(4 + len(each) for each in pictures[picture : picture + count])
        picture += count
        if size >= PAGE_BYTES:
            ends.append(row)
            size = 0
    return ends if not shown or (ends and ends[-1] == len(shown)) else [*ends, len(shown)]


def _page(shown: Sequence[int], pictures: Sequence[View]) -> Page:
    picture_bytes = sum(map(len, pictures))
    levels = _ONE if len(shown) == 1 == shown[0] else _levels(shown)
    size = len(levels) + 4 * len(pictures) + picture_bytes
    head = _header(size, sum(count or 1 for count in shown))
    buffers: list[View] = []
    before = head + levels
    for picture in pictures:
        buffers += (before + len(picture).to_bytes(4, "little"), picture)
        before = b""
    return Page(buffers or [before], len(head) + size, len(shown), picture_bytes)


def offset_index(laid_out: Sequence[Page], start: int) -> bytes:
    """An OffsetIndex in Thrift's compact protocol, of pages that follow each other from `start` on."""
    row = 0
    places = []
    for page in laid_out:
        places.append(b"\x16" + signed(start) + b"\x15" + signed(page.size) + b"\x16" + signed(row) + b"\0")
        start, row = start + page.size, row + page.rows
    lengths = [signed(page.picture_bytes) for page in laid_out]
    return b"\x19" + _list(places, STRUCT) + b"\x19" + _list(lengths, I64) + b"\0"


def _list(elements: list[bytes], kind: int) -> bytes:
    count = len(elements)
    head = bytes([count << 4 | kind]) if count < 15 else bytes([0xF0 | kind]) + varint(count)
    return head + b"".join(elements)


def _header(size: int, values: int) -> bytes:
    """A PageHeader in Thrift's compact protocol: a data page, levels as run lengths, values plain."""
    sizes = b"\x15" + signed(size)
    return b"\x15\0" + sizes + sizes + b"\x2c\x15" + signed(values) + b"\x15\0\x15\6\x15\6\0\0"


def _levels(shown: Sequence[int]) -> bytes:
    """Repetition levels (1 bit), 0 where a row begins, then definition levels (3 bits)."""
    counts = np.asarray(shown)
    slots = np.maximum(counts, 1)
    repeated = np.ones(int(slots.sum()), np.uint8)
    repeated[np.cumsum(slots) - slots] = 0
    defined = np.repeat(np.where(counts == 0, _EMPTY, _PRESENT).astype(np.uint8), slots)
    return _encoded(repeated, 1) + _encoded(defined, 3)


def _encoded(levels: npt.NDArray[np.uint8], bits: int) -> bytes:
    """Levels in the hybrid of run lengths and bit packing, with the length in bytes before it."""
    if (levels == levels[0]).all():
        content = varint(len(levels) << 1) + bytes([levels[0]])
    else:
        groups = -(-len(levels) // 8)
        padded = np.zeros(groups * 8, np.uint8)
        padded[: len(levels)] = levels
        packed = np.packbits(padded[:, None] >> np.arange(bits, dtype=np.uint8) & 1, bitorder="little")
        content = varint(groups << 1 | 1) + packed.tobytes()
    return len(content).to_bytes(4, "little") + content
