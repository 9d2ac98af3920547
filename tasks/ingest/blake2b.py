"""Compiled: the step of BLAKE2b that mixes a block into the state, as RFC 7693 has it in section 3.2."""

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

BLOCK_BYTES, DIGEST_BYTES, WORD = 128, 16, 8
_START = [
    0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1,
    0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179,
]  # fmt: skip
STATE = np.array(_START, np.uint64) ^ np.array([0x01010000 ^ DIGEST_BYTES, *[0] * 7], np.uint64)
"""Before the first block: no key, no tree, digests of 16 bytes, which the first words of the last state are."""
_ORDER = [
    "0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8", "905724afe1bc683d",
    "2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a", "6fe9b308c2d714a5", "a2847615fb9e3cd0",
    "0123456789abcdef", "ea489fd61c02b753",
]  # fmt: skip
"""Of the block's words, in the twelve rounds."""
_TURNS = (32, 24), (16, 63)
"""By how many bits words of the last row and of the second are turned, in both halves of mixing."""
_I64 = ir.IntType(64)
_ROW = ir.VectorType(_I64, 4)


def _at(builder: Any, first: Any, number: int, kind: Any) -> Any:
    """Pointer to what begins with a word."""
    return builder.bitcast(builder.gep(first, [ir.Constant(_I64, number)]), kind.as_pointer())


def _chosen(builder: Any, words: list[Any]) -> Any:
    """A row of four words."""
    row = ir.Constant(_ROW, ir.Undefined)
    for place, word in enumerate(words):
        row = builder.insert_element(row, word, ir.Constant(ir.IntType(32), place))
    return row


def _turned(builder: Any, row: Any, bits: int) -> Any:
    """Every word of a row turned to the right."""
    right, left = (ir.Constant(_ROW, [count] * 4) for count in (bits, 64 - bits))
    return builder.or_(builder.lshr(row, right), builder.shl(row, left))


def _shifted(builder: Any, row: Any, by: int) -> Any:
    """The words of a row moved to the left, the first ones to the end."""
    places = ir.Constant(ir.VectorType(ir.IntType(32), 4), [(place + by) % 4 for place in range(4)])
    return builder.shuffle_vector(row, row, places)


def _mix(builder: Any, rows: list[Any], words: list[Any]) -> list[Any]:
    """Mix the four columns, with two of eight words each."""
    a, b, c, d = rows
    for half, (to_d, to_b) in enumerate(_TURNS):
        a = builder.add(builder.add(a, b), _chosen(builder, words[half::2]))
        d = _turned(builder, builder.xor(d, a), to_d)
        c = builder.add(c, d)
        b = _turned(builder, builder.xor(b, c), to_b)
    return [a, b, c, d]


def _mix_rounds(builder: Any, rows: list[Any], block: list[Any]) -> list[Any]:
    """All rounds: each mixes the columns, and then the diagonals, which are columns of rows that are shifted."""
    for order in _ORDER:
        words = [block[int(word, 16)] for word in order]
        rows = _mix(builder, rows, words[:8])
        rows = [_shifted(builder, row, by) for by, row in enumerate(rows)]
        rows = _mix(builder, rows, words[8:])
        rows = [_shifted(builder, row, -by) for by, row in enumerate(rows)]
    return rows


@intrinsic
def _mix_in(_: Any, state: Any, message: Any, at: Any, seen: Any, last: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kept, raw = (
            context.make_array(kind)(context, builder, array).data
            for kind, array in zip(signature.args[:2], arguments[:2], strict=True)
        )
        at, seen, last = arguments[2:]
        first = builder.bitcast(builder.gep(raw, [at]), _I64.as_pointer())
        block = [builder.load(_at(builder, first, number, _I64), align=1, typ=_I64) for number in range(16)]
        before = [builder.load(_at(builder, kept, number, _ROW), align=8, typ=_ROW) for number in (0, 4)]
        seen = _chosen(builder, [seen, _I64(0), builder.sext(last, _I64), _I64(0)])
        start = [ir.Constant(_ROW, _START[:4]), builder.xor(ir.Constant(_ROW, _START[4:]), seen)]
        rows = _mix_rounds(builder, before + start, block)
        for number, row in enumerate(before):
            mixed = builder.xor(row, builder.xor(rows[number], rows[number + 2]))
            builder.store(mixed, _at(builder, kept, 4 * number, _ROW), align=8)
        return context.get_dummy_value()

    return types.void(state, message, types.int64, types.int64, types.boolean), build


mix_in: Any = _mix_in
"""(state, uint64 (8,); bytes; place; bytes of the message up to the end of the block; whether it is the last) -> None.

The block is the 128 bytes from the place, with zeros behind the end of the message. Nothing checks that they are there.
"""
