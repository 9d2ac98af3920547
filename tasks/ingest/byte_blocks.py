"""32 bytes of JSON text at a time, in the processor's vector registers."""

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

BLOCK, WORD = 32, 8
_BYTES = ir.VectorType(ir.IntType(8), BLOCK)


def _place(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    """Pointer to the block that begins `at` in an array."""
    return builder.bitcast(
        builder.gep(context.make_array(kind)(context, builder, array).data, [at]), _BYTES.as_pointer()
    )


def _text_length(builder: Any, block: Any) -> Any:
    """How many bytes of a block stand before the first quote, backslash or control character."""
    quote, backslash, space = (ir.Constant(_BYTES, [ord(mark)] * BLOCK) for mark in '"\\ ')
    marks = builder.or_(builder.icmp_unsigned("==", block, quote), builder.icmp_unsigned("==", block, backslash))
    bits = builder.bitcast(builder.or_(marks, builder.icmp_unsigned("<", block, space)), ir.IntType(BLOCK))
    return builder.zext(builder.cttz(bits, ir.Constant(ir.IntType(1), 0)), ir.IntType(64))


@intrinsic
def _text_ahead(_: Any, raw: Any, at: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = _place(context, builder, signature.args[0], *arguments)
        return _text_length(builder, builder.load(first, align=1, typ=_BYTES))

    return types.int64(raw, types.int64), build


@intrinsic
def _copy_ahead(_: Any, raw: Any, at: Any, out: Any, to: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = _place(context, builder, signature.args[0], *arguments[:2])
        block = builder.load(first, align=1, typ=_BYTES)
        builder.store(block, _place(context, builder, signature.args[2], *arguments[2:]), align=1)
        return _text_length(builder, block)

    return types.int64(raw, types.int64, out, types.int64), build


@intrinsic
def _same_ahead(_: Any, raw: Any, at: Any, other: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, *places = arguments
        blocks = [
            builder.load(_place(context, builder, signature.args[0], array, at), align=1, typ=_BYTES) for at in places
        ]
        bits = builder.bitcast(builder.icmp_unsigned("!=", *blocks), ir.IntType(BLOCK))
        return builder.zext(builder.cttz(bits, ir.Constant(ir.IntType(1), 0)), ir.IntType(64))

    return types.int64(raw, types.int64, types.int64), build


@intrinsic
def _word_at(_: Any, raw: Any, at: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, place = arguments
        first = builder.gep(context.make_array(signature.args[0])(context, builder, array).data, [place])
        word = ir.IntType(8 * WORD)
        return builder.load(builder.bitcast(first, word.as_pointer()), align=1, typ=word)

    return types.uint64(raw, types.int64), build


text_ahead: Any = _text_ahead
"""(bytes, place) -> how many of the 32 from there are text before the first quote, backslash or control character.

The compiler passes the other argument, here and below. Nothing checks that there are 32.
"""
copy_ahead: Any = _copy_ahead
"""(bytes, place, other bytes, other place) -> the same; all 32 are copied there."""
same_ahead: Any = _same_ahead
"""(bytes, place, other place) -> how many of the 32 from both are the same before the first that differs."""
word_at: Any = _word_at
"""(bytes, place) -> the 8 bytes from there as one number, uint64, the first byte the least. Nothing checks them."""
