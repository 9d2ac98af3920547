"""Pages of the column `images.list.element.bytes`: version 1 data pages of plain values, not compressed."""

from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tasks.parquet import PAGE_BYTES
from tasks.release.thrift import I64, STRUCT, Numbers, list_head, repeated, varint

_EMPTY, _PRESENT = 1, 4
"""Definition levels of a row without pictures, and of a picture."""


class Pages(NamedTuple):
    """The pages of a row group, without the pictures."""

    sizes: Numbers
    """Bytes of each page, with its head."""
    rows: Numbers
    picture_bytes: Numbers
    between: bytes
    """What stands before each picture, one after the other, and after the last one."""
    ends: Numbers
    """Where that of each picture ends."""


def lay_out(shown: Numbers, sizes: Numbers) -> Pages:
    """The pages of rows that show so many pictures each; a page ends with the row that makes it `PAGE_BYTES` long."""
    pictures = _sums(shown)
    stored = _sums(sizes + 4)[pictures]
    ends = _page_ends(stored)
    first, values = pictures[ends], np.diff(stored[ends])
    before = _before_pages(shown, ends, values)
    lengths = sizes.astype("<u4").tobytes()
    pages = zip(before, pairwise(first.tolist()), strict=True)
    between = b"".join(head + lengths[4 * start : 4 * end] for head, (start, end) in pages)
    heads = np.array([len(head) for head in before], np.int64)
    stands = np.full(len(sizes) + 1, 4)
    stands[first[:-1]] += heads
    return Pages(values + heads, np.diff(ends), values - 4 * np.diff(first), between, np.cumsum(stands[:-1]))


def _before_pages(shown: Numbers, ends: list[int], values: Numbers) -> list[bytes]:
    """Header and levels of each page, whose values take so many bytes."""
    rows = shown.tolist()
    levels = [_levels(tuple(rows[row:end])) for row, end in pairwise(ends)]
    sizes = values + np.array([len(each) for each in levels], np.int64)
    heads = _headers(sizes, np.diff(_sums(np.maximum(shown, 1))[ends]))
    return [head + each for head, each in zip(heads, levels, strict=True)]


def _sums(values: Numbers) -> Numbers:
    """What comes before each value, and the sum of all."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(values)])


def _page_ends(stored: Numbers) -> list[int]:
    """0 and the row after the last one of every page, of rows with `stored` bytes before each."""
    ends, start = [0], 0
    for row, at in enumerate(stored.tolist()):
        if at - start >= PAGE_BYTES:
            ends.append(row)
            start = at
    return ends if ends[-1] == len(stored) - 1 else [*ends, len(stored) - 1]


def _headers(sizes: Numbers, values: Numbers) -> list[bytes]:
    """PageHeaders in Thrift's compact protocol: data pages, levels as run lengths, values plain."""
    content, ends = repeated(b"\x15\0\x15", sizes, b"\x15", sizes, b"\x2c\x15", values, b"\x15\0\x15\6\x15\6\0\0")
    return [content[start:end] for start, end in pairwise([0, *ends])]


def offset_index(pages: Pages, start: int) -> bytes:
    """An OffsetIndex in Thrift's compact protocol, of pages that follow each other from `start` on."""
    starts, rows = start + _sums(pages.sizes)[:-1], _sums(pages.rows)[:-1]
    places, _ = repeated(b"\x16", starts, b"\x15", pages.sizes, b"\x16", rows, b"\0")
    lengths, _ = repeated(pages.picture_bytes)
    count = len(pages.sizes)
    return b"\x19" + list_head(count, STRUCT) + places + b"\x19" + list_head(count, I64) + lengths + b"\0"


@lru_cache
def _levels(shown: tuple[int, ...]) -> bytes:
    """Repetition levels (1 bit), 0 where a row begins, then definition levels (3 bits); most pages have the same."""
    counts = np.array(shown)
    slots = np.maximum(counts, 1)
    repetition = np.ones(int(slots.sum()), np.uint8)
    repetition[np.cumsum(slots) - slots] = 0
    defined = np.repeat(np.where(counts == 0, _EMPTY, _PRESENT).astype(np.uint8), slots)
    return _encoded(repetition, 1) + _encoded(defined, 3)


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
