"""Pages of the column `images.list.element.bytes`: version 1 data pages of plain values, not compressed."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tasks.parquet import PAGE_BYTES
from tasks.release.thrift import I64, STRUCT, signed, varint

_EMPTY, _PRESENT = 1, 4
"""Definition levels of a row without pictures, and of a picture."""
_ONE = b"\2\0\0\0\2\0\2\0\0\0\2\4"
"""Levels of one row with one picture."""


class Page(NamedTuple):
    """What the footer tells of a page."""

    size: int
    rows: int
    picture_bytes: int


class Pages(NamedTuple):
    """The pages of a row group, without the pictures."""

    pages: list[Page]
    between: list[bytes]
    """What stands before each picture, and after the last."""


def lay_out(shown: Sequence[int], sizes: Sequence[int]) -> Pages:
    """The pages of rows that show so many pictures each; a page ends with the row that makes it `PAGE_BYTES` long."""
    pages, between = [], [b""]
    first = picture = row = size = 0
    for end, count in enumerate(shown, 1):
        picture += count
        size += sum(sizes[picture - count : picture], 4 * count)
        if size < PAGE_BYTES and end < len(shown):
            continue
        head = _head(shown[row:end], size)
        between[-1] += head
        for length in sizes[first:picture]:
            between[-1] += length.to_bytes(4, "little")
            between.append(b"")
        pages.append(Page(len(head) + size, end - row, size - 4 * (picture - first)))
        first, row, size = picture, end, 0
    return Pages(pages, between)


def _head(shown: Sequence[int], size: int) -> bytes:
    """What stands before the values of a page: its header and the levels."""
    levels = _ONE if len(shown) == 1 == shown[0] else _levels(shown)
    return _header(len(levels) + size, sum(count or 1 for count in shown)) + levels


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
