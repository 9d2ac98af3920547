"""Weighted sums of pixels in the processor's vector registers, exact to the last of Pillow's 22 bits.

A weight is held as two int16, `weight >> 11` and `weight & 2047`: one instruction multiplies sixteen levels by sixteen
of those and adds neighbours. All sums are modulo 2 ** 32, as Pillow's are.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numba.core.cgutils
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

cgutils: Any = numba.core.cgutils  # its functions have no types
TAPS = 16
"""Weights come in multiples of this."""
LANES = 8
"""New pixels of a row that are made at once."""
ROW_LANES = 16
"""Levels of a new row that are made at once."""
UNIT_BITS, LOW_BITS = 22, 11
_BYTE, _SHORT, _INT, _LONG = (ir.IntType(bits) for bits in (8, 16, 32, 64))
_EVEN, _ODD = (0, 2, 8, 10, 4, 6, 12, 14), (1, 3, 9, 11, 5, 7, 13, 15)
_FIRST_HALVES, _SECOND_HALVES = (0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15)
Array = tuple[Any, Any]
"""An argument of a compiled function: numba's type and the value."""


class _Code:
    """Writes the instructions of one function."""

    def __init__(self, context: Any, builder: Any) -> None:
        self.context, self.builder = context, builder
        self.has_avx2 = "+avx2" in context.codegen().magic_tuple()[2]

    def _array(self, array: Array) -> Any:
        return self.context.make_array(array[0])(self.context, self.builder, array[1])

    def length(self, array: Array, axis: int) -> Any:
        """Of an array along an axis."""
        return self.builder.extract_value(self._array(array).shape, axis)

    def load(self, array: Array, at: Any, count: int, kind: Any) -> Any:
        """<count x kind>, from place `at` of the memory of an array on."""
        vector = ir.VectorType(kind, count) if count > 1 else kind
        place = self.builder.bitcast(self.builder.gep(self._array(array).data, [at]), vector.as_pointer())
        return self.builder.load(place, align=1, typ=vector)

    def store(self, levels: Any, array: Array, at: Any) -> None:
        """<n x i8> into a uint8 array."""
        place = self.builder.gep(self._array(array).data, [at])
        self.builder.store(levels, self.builder.bitcast(place, levels.type.as_pointer()), align=1)

    def shuffled(self, one: Any, other: Any, places: Sequence[int]) -> Any:
        """The elements of two vectors, one behind the other, that stand at `places`."""
        mask = ir.Constant(ir.VectorType(_INT, len(places)), list(places))
        return self.builder.shuffle_vector(one, other, mask)

    def repeated(self, pair: Any) -> Any:
        """<32 x i16>: two weights, sixteen times over."""
        unset = ir.Constant(ir.VectorType(_INT, ROW_LANES), ir.Undefined)
        first = self.builder.insert_element(unset, pair, _INT(0))
        return self.builder.bitcast(self.shuffled(first, unset, [0] * ROW_LANES), ir.VectorType(_SHORT, 2 * ROW_LANES))

    def pair_sums(self, levels: Any, weights: Any) -> Any:
        """<n / 2 x i32> of <n x i16>: products, each with its neighbour's added."""
        count = levels.type.count
        if count == TAPS and self.has_avx2:  # the pattern below becomes this instruction only where a factor repeats
            kind = ir.FunctionType(ir.VectorType(_INT, count // 2), [levels.type] * 2)
            instruction = cgutils.get_or_insert_function(self.builder.module, kind, "llvm.x86.avx2.pmadd.wd")
            return self.builder.call(instruction, [levels, weights])
        wide = ir.VectorType(_INT, count // 2)
        products = []
        for side in (0, 1):
            factors = (self.shuffled(each, each, range(side, count, 2)) for each in (levels, weights))
            products.append(self.builder.mul(*(self.builder.sext(factor, wide) for factor in factors)))
        return self.builder.add(*products)

    def summed(self, count: Any, terms: Callable[[Any], list[Any]]) -> list[Any]:
        """The sums of what `terms` makes of 0 to `count` - 1; `count` is at least 1."""
        totals = [cgutils.alloca_once_value(self.builder, first) for first in terms(_LONG(0))]
        with cgutils.for_range_slice(self.builder, _LONG(1), count, _LONG(1)) as (step, _):
            for total, term in zip(totals, terms(step), strict=True):
                self.builder.store(self.builder.add(self.builder.load(total), term), total)
        return [self.builder.load(total) for total in totals]

    def whole(self, high: Any, low: Any) -> Any:
        """Sums by whole weights from sums by their two parts."""
        return self.builder.add(self.builder.shl(high, ir.Constant(high.type, [LOW_BITS] * high.type.count)), low)

    def levels(self, totals: Any) -> Any:
        """<n x i8>: rounded to whole levels, 0 to 255."""
        half, unit, none, most = (
            ir.Constant(totals.type, [value] * totals.type.count) for value in (1 << UNIT_BITS - 1, UNIT_BITS, 0, 255)
        )
        level = self.builder.ashr(self.builder.add(totals, half), unit)
        level = self.builder.select(self.builder.icmp_signed("<", level, none), none, level)
        level = self.builder.select(self.builder.icmp_signed(">", level, most), most, level)
        return self.builder.trunc(level, ir.VectorType(_BYTE, totals.type.count))

    def lane_sums(self, totals: list[Any]) -> Any:
        """<8 x i32>: the sum of the elements of each of eight <8 x i32>."""
        for one, other in ((_EVEN, _ODD), (_EVEN, _ODD), (_FIRST_HALVES, _SECOND_HALVES)):
            totals = [
                self.builder.add(self.shuffled(*both, one), self.shuffled(*both, other))
                for both in zip(totals[::2], totals[1::2], strict=True)
            ]
        return totals[0]


def _lanes(code: _Code, arrays: Sequence[Array], place: Any, channels: int, few: bool) -> list[Any]:
    """<8 x i8> of each channel: the new pixels from `place` on; `few` promises sixteen weights a pixel."""
    planes, starts, weights = arrays
    add, mul = code.builder.add, code.builder.mul
    width, taps = code.length(planes, 1), _LONG(TAPS) if few else code.length(weights, 2)
    totals: list[list[Any]] = [[] for _ in range(channels)]
    for lane in range(LANES):
        new = add(place, _LONG(lane))
        start, part = code.load(starts, new, 1, _LONG), mul(new, mul(taps, _LONG(2)))

        def terms(step: Any, start: Any = start, part: Any = part) -> list[Any]:
            past = mul(step, _LONG(TAPS))
            high = add(part, past)
            parts = [code.load(weights, at, TAPS, _SHORT) for at in (high, add(high, taps))]
            places = [add(add(start, past), mul(width, _LONG(channel))) for channel in range(channels)]
            levels = [code.load(planes, at, TAPS, _SHORT) for at in places]
            return [code.pair_sums(each, part) for each in levels for part in parts]

        sums = terms(_LONG(0)) if few else code.summed(code.builder.udiv(taps, _LONG(TAPS)), terms)
        for channel in range(channels):
            totals[channel].append(code.whole(*sums[2 * channel : 2 * channel + 2]))
    return [code.levels(code.lane_sums(each)) for each in totals]


def _lanes_function(channels: int, few: bool) -> Any:
    @intrinsic
    def lanes(_: Any, planes: Any, starts: Any, weights: Any, place: Any, made: Any, to: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            code = _Code(context, builder)
            planes, starts, weights, place, made, to = zip(signature.args, arguments, strict=True)
            levels = _lanes(code, (planes, starts, weights), place[1], channels, few)
            if channels == 3:
                both = code.shuffled(levels[0], levels[1], range(2 * LANES))
                third = code.shuffled(levels[2], levels[2], range(2 * LANES))
                mixed = [at // 3 + LANES * (at % 3) for at in range(3 * LANES)]
                levels = [code.shuffled(both, third, mixed)]
            code.store(levels[0], made, to[1])
            return context.get_dummy_value()

        return types.void(planes, starts, weights, types.int64, made, types.int64), build

    return lanes


@intrinsic
def _row_lanes(_: Any, rows: Any, first: Any, count: Any, weights: Any, place: Any, at: Any, made: Any, to: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code = _Code(context, builder)
        rows, first, count, weights, place, at, made, to = zip(signature.args, arguments, strict=True)
        width, pairs = code.length(rows, 1), code.length(weights, 2)
        start = builder.add(builder.mul(first[1], width), at[1])
        part = builder.mul(place[1], builder.mul(pairs, _LONG(2)))
        last = builder.sub(count[1], _LONG(1))

        def terms(step: Any) -> list[Any]:
            one = builder.mul(step, _LONG(2))
            next_one = builder.add(one, _LONG(1))
            other = builder.select(builder.icmp_signed("<", next_one, last), next_one, last)  # beyond, its weight is 0
            both = [code.load(rows, builder.add(start, builder.mul(r, width)), ROW_LANES, _BYTE) for r in (one, other)]
            mixed = code.shuffled(
                both[0], both[1], [lane // 2 + ROW_LANES * (lane % 2) for lane in range(2 * ROW_LANES)]
            )
            levels = builder.zext(mixed, ir.VectorType(_SHORT, 2 * ROW_LANES))
            high = builder.add(part, step)
            parts = [code.load(weights, each, 1, _INT) for each in (high, builder.add(high, pairs))]
            return [code.pair_sums(levels, code.repeated(pair)) for pair in parts]

        sums = code.summed(builder.udiv(builder.add(count[1], _LONG(1)), _LONG(2)), terms)
        code.store(code.levels(code.whole(*sums)), made, to[1])
        return context.get_dummy_value()

    whole = types.int64
    return types.void(rows, whole, whole, weights, whole, whole, made, whole), build


grey_lanes: Any = _lanes_function(1, few=False)
"""(planes uint16 (n, width), starts, weights int16 (size, 2, taps), place, made uint8, to): eight new pixels from
`place` on of the first plane, into `made` from `to` on. Nothing checks a place. The compiler passes the other argument.
"""
colour_lanes: Any = _lanes_function(3, few=False)
"""The same of three planes, whose levels are written in turn."""
colour_lanes_few: Any = _lanes_function(3, few=True)
"""The same where there are sixteen weights a pixel."""
row_lanes: Any = _row_lanes
"""(rows uint8 (n, width), first, count, weights int32 (size, 2, pairs), place, at, made uint8, to): sixteen levels from
`at` on of the sum of `count` rows from `first` on, with the weights of `place`: two int16 in each int32."""
