"""Thrift's compact protocol, in which Parquet writes its page headers and footers: values to bytes and back.

A struct is a dict of field number -> (type, value), a list is (type of its elements, values); so what is not understood
passes through unchanged (https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md).
"""

import struct
from typing import Any

import numpy as np
import numpy.typing as npt

TRUE, FALSE, I8, I16, I32, I64, DOUBLE, BINARY, LIST, STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 12
Numbers = npt.NDArray[np.int64]
Struct = dict[int, tuple[int, Any]]
_ONE_BYTE = [bytes([value]) for value in range(128)]


class Reader:
    """Reads structs from `content`, from `at` on, which moves along."""

    def __init__(self, content: bytes | memoryview, at: int = 0) -> None:
        self._content = content
        self.at = at

    def struct(self) -> Struct:
        """The struct that begins here. Raises ValueError for a type that Parquet does not use."""
        found: Struct = {}
        number = 0
        while head := self._byte():
            kind, delta = head & 15, head >> 4
            number = number + delta if delta else self._signed()
            found[number] = (kind, kind == TRUE if kind in (TRUE, FALSE) else self._value(kind))
        return found

    def _value(self, kind: int) -> Any:
        if kind in (I16, I32, I64):
            return self._signed()
        if kind == BINARY:
            return bytes(self._take(self._varint()))
        if kind == STRUCT:
            return self.struct()
        if kind == LIST:
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._varint()
            return head & 15, [self._value(head & 15) for _ in range(count)]
        if kind == DOUBLE:
            return struct.unpack("<d", self._take(8))[0]
        if kind in (TRUE, FALSE, I8):  # an element of a list, or a number of one byte
            return self._byte()
        raise ValueError(f"thrift type {kind} at byte {self.at}")

    def _signed(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) >= 128:
            value |= (byte & 127) << shift
            shift += 7
        return value | byte << shift

    def _byte(self) -> int:
        self.at += 1
        return self._content[self.at - 1]

    def _take(self, count: int) -> bytes | memoryview:
        self.at += count
        return self._content[self.at - count : self.at]


def written(value: Struct) -> bytes:
    """A struct as bytes."""
    parts: list[bytes] = []
    before = 0
    for number, (kind, content) in sorted(value.items()):
        if kind in (TRUE, FALSE):
            kind = TRUE if content else FALSE
        step = number - before
        parts.append(bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + signed(number))
        if kind not in (TRUE, FALSE):
            parts.append(_value(kind, content))
        before = number
    return b"".join(parts) + b"\0"


def _value(kind: int, content: Any) -> bytes:
    if kind in (I16, I32, I64):
        return signed(content)
    if kind == BINARY:
        return varint(len(content)) + bytes(content)
    if kind == STRUCT:
        return written(content)
    if kind == LIST:
        of, values = content
        return list_head(len(values), of) + b"".join(_value(of, each) for each in values)
    if kind == DOUBLE:
        return struct.pack("<d", content)
    return bytes([content])


def list_head(count: int, kind: int) -> bytes:
    """What stands before the elements of a list."""
    return bytes([count << 4 | kind]) if count < 15 else bytes([0xF0 | kind]) + varint(count)


def repeated(*fields: bytes | Numbers) -> tuple[bytes, list[int]]:
    """Many structs, or numbers, of one form at once, and where each ends.

    A field is the same bytes in all of them, or a number in each, from 0 to below 2**62, that becomes a zigzag varint.
    """
    count = next(len(field) for field in fields if not isinstance(field, bytes))
    digits, used = zip(*(_digits(field, count) for field in fields), strict=True)
    there = np.concatenate(used, axis=1)
    return np.concatenate(digits, axis=1)[there].tobytes(), np.cumsum(there.sum(axis=1)).tolist()


def _digits(field: bytes | Numbers, count: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
    """The bytes of a field of each struct, and which of them are written."""
    if isinstance(field, bytes):
        same = np.broadcast_to(np.frombuffer(field, np.uint8), (count, len(field)))
        return same, np.ones(same.shape, np.bool_)
    rest = field[:, None] << 1 >> np.arange(0, int(field.max(initial=0)).bit_length() + 1, 7)
    used = rest > 0
    used[:, 0] = True
    more = np.concatenate([used[:, 1:], np.zeros((count, 1), np.bool_)], axis=1)
    return (rest & 127 | more << 7).astype(np.uint8), used


def signed(value: int) -> bytes:
    """A zigzag varint."""
    return varint(value << 1 if value >= 0 else ((-value) << 1) - 1)


def varint(value: int) -> bytes:
    """7 bits a byte, lowest first."""
    if value < 128:
        return _ONE_BYTE[value]
    found = bytearray()
    while value >= 128:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)
