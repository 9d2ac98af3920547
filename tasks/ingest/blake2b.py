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
_MIXED = ["048c", "159d", "26ae", "37bf", "05af", "16bc", "278d", "349e"]
"""The words of the state that are mixed, two words of the block with each four."""
_I64 = ir.IntType(64)


def _word(builder: Any, first: Any, number: int) -> Any:
    return builder.gep(first, [ir.Constant(_I64, number)])


def _turned(builder: Any, one: Any, other: Any, bits: int) -> Any:
    """What differs between two words, turned to the right."""
    word = builder.xor(one, other)
    return builder.or_(builder.lshr(word, ir.Constant(_I64, bits)), builder.shl(word, ir.Constant(_I64, 64 - bits)))


def _mix(builder: Any, state: list[Any], places: list[int], words: list[Any]) -> None:
    a, b, c, d = places
    for word, (to_d, to_b) in zip(words, ((32, 24), (16, 63)), strict=True):
        state[a] = builder.add(builder.add(state[a], state[b]), word)
        state[d] = _turned(builder, state[d], state[a], to_d)
        state[c] = builder.add(state[c], state[d])
        state[b] = _turned(builder, state[b], state[c], to_b)


def _mix_rounds(builder: Any, state: list[Any], block: list[Any]) -> None:
    for order in _ORDER:
        for number, places in enumerate(_MIXED):
            words = [block[int(word, 16)] for word in order[2 * number : 2 * number + 2]]
            _mix(builder, state, [int(place, 16) for place in places], words)


@intrinsic
def _mix_in(_: Any, state: Any, message: Any, at: Any, seen: Any, last: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kept, raw = (
            context.make_array(kind)(context, builder, array).data
            for kind, array in zip(signature.args[:2], arguments[:2], strict=True)
        )
        at, seen, last = arguments[2:]
        first = builder.bitcast(builder.gep(raw, [at]), _I64.as_pointer())
        block = [builder.load(_word(builder, first, number), align=1, typ=_I64) for number in range(16)]
        before = [builder.load(_word(builder, kept, number), typ=_I64) for number in range(8)]
        work = before + [ir.Constant(_I64, word) for word in _START]
        work[12] = builder.xor(work[12], seen)
        work[14] = builder.xor(work[14], builder.sext(builder.icmp_signed("!=", last, last.type(0)), _I64))
        _mix_rounds(builder, work, block)
        for number, word in enumerate(before):
            mixed = builder.xor(work[number], work[number + 8])
            builder.store(builder.xor(word, mixed), _word(builder, kept, number))
        return context.get_dummy_value()

    return types.void(state, message, types.int64, types.int64, types.boolean), build


mix_in: Any = _mix_in
"""(state, uint64 (8,); bytes; place; bytes of the message up to the end of the block; whether it is the last) -> None.

The block is the 128 bytes from the place, with zeros behind the end of the message. Nothing checks that they are there.
"""
