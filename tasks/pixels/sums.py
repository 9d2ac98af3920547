"""Weighted sums of pixels in the processor's vector registers, exact to the last of Pillow's 22 bits.

Sixteen rows are worked on at once, and two neighbouring pixels of each: a weight is held as two int16, `weight >> 11`
and `weight & 2047`, and one instruction multiplies levels by weights and adds neighbours. All sums are modulo 2 ** 32,
as Pillow's are. Nothing here checks a place: whoever calls sees to it that memory is there.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numba.core.cgutils
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

cgutils: Any = numba.core.cgutils  # its functions have no types
_compiled_in: Callable[[Callable[..., Any]], Any] = intrinsic  # the compiler passes the first argument
LANES = 16
"""Rows, or levels of a row, that are worked on at once."""
PAIR = 2 * LANES
"""Bytes of a pair: two neighbouring pixels of each of sixteen rows, row after row."""
COLOUR_PIXELS, GREY_PIXELS = 4, 16
"""Pixels of each row that are laid out at once, of three channels and of one."""
UNIT_BITS, LOW_BITS = 22, 11
_BYTE, _SHORT, _INT, _LONG = (ir.IntType(bits) for bits in (8, 16, 32, 64))
_COLOUR_PAIRS = (0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11, 12, 13, 14, 15)
"""Two pixels of red, green and blue, twice -> two reds, two greens, two blues, twice; four bytes are left."""
_RED_GREEN, _GREEN_BLUE = (19595, 19235), (19235, 7471)
"""Pillow's 0.299, 0.587 and 0.114 in units of 2 ** -16; green, which int16 cannot hold, is added in two halves."""
Array = tuple[Any, Any]
"""An argument of a compiled function: numba's type and the value."""


class _Code:
    """Writes the instructions of one function."""

    def __init__(self, context: Any, builder: Any) -> None:
        self.context, self.builder = context, builder

    def place(self, array: Array, at: Any, kind: Any) -> Any:
        """Where element `at` of the memory of an array lies, as a `kind`."""
        data = self.context.make_array(array[0])(self.context, self.builder, array[1]).data
        return self.builder.bitcast(self.builder.gep(data, [at]), kind.as_pointer())

    def load(self, array: Array, at: Any, kind: Any) -> Any:
        """A `kind`, from element `at` of the memory of an array on."""
        return self.builder.load(self.place(array, at, kind), align=1, typ=kind)

    def store(self, levels: Any, array: Array, at: Any) -> None:
        """A vector, from element `at` of the memory of an array on."""
        self.builder.store(levels, self.place(array, at, levels.type), align=1)

    def shuffled(self, one: Any, other: Any, places: Sequence[int]) -> Any:
        """The elements of two vectors, one behind the other, that stand at `places`."""
        mask = ir.Constant(ir.VectorType(_INT, len(places)), list(places))
        return self.builder.shuffle_vector(one, other, mask)

    def spread(self, whole: Any, count: int) -> Any:
        """<count x i32>: the same int32 everywhere."""
        unset = ir.Constant(ir.VectorType(_INT, count), ir.Undefined)
        return self.shuffled(self.builder.insert_element(unset, whole, _INT(0)), unset, [0] * count)

    def pair_sums(self, levels: Any, pair: Any) -> Any:
        """<16 x i32> of <32 x i16>: neighbours times the two int16 in the int32 `pair`, added."""
        weights = self.builder.bitcast(self.spread(pair, LANES), levels.type)
        if "+avx2" in self.context.codegen().magic_tuple()[2]:
            return self._by_halves("llvm.x86.avx2.pmadd.wd", levels, weights)
        products = []  # the compiler makes that instruction of this pattern too, but not where levels were bytes before
        for side in (0, 1):
            factors = (self.shuffled(each, each, range(side, 2 * LANES, 2)) for each in (levels, weights))
            wide = (self.builder.sext(each, ir.VectorType(_INT, LANES)) for each in factors)
            products.append(self.builder.mul(*wide))
        return self.builder.add(*products)

    def _by_halves(self, name: str, levels: Any, weights: Any) -> Any:
        """`pair_sums` by an instruction that takes <16 x i16>."""
        kind = ir.FunctionType(ir.VectorType(_INT, LANES // 2), [ir.VectorType(_SHORT, LANES)] * 2)
        instruction = cgutils.get_or_insert_function(self.builder.module, kind, name)
        halves = []
        for at in (0, LANES):
            factors = [self.shuffled(each, each, range(at, at + LANES)) for each in (levels, weights)]
            halves.append(self.builder.call(instruction, factors))
        return self.shuffled(halves[0], halves[1], range(LANES))

    def levels(self, totals: Any, unit_bits: int) -> Any:
        """<n x i8>: sums in units of 2 ** -unit_bits, rounded to whole levels, 0 to 255."""
        half, unit, none, most = (
            ir.Constant(totals.type, [value] * totals.type.count) for value in (1 << unit_bits - 1, unit_bits, 0, 255)
        )
        level = self.builder.ashr(self.builder.add(totals, half), unit)
        level = self.builder.select(self.builder.icmp_signed("<", level, none), none, level)
        level = self.builder.select(self.builder.icmp_signed(">", level, most), most, level)
        return self.builder.trunc(level, ir.VectorType(_BYTE, totals.type.count))


def _turned(code: _Code, rows: Array, at: Any, stride: Any, order: Sequence[int]) -> list[Any]:
    """Eight pairs <32 x i8>, of two neighbouring bytes each, of sixteen rows of sixteen bytes taken in `order`."""
    builder, half, words = code.builder, LANES // 2, ir.VectorType(_SHORT, LANES)
    row = ir.VectorType(_BYTE, LANES)
    starts = [builder.add(at, builder.mul(stride, _LONG(number))) for number in range(LANES)]
    lines = [code.load(rows, start, row) for start in starts]
    both = [*order, *(LANES + each for each in order)]
    pairs = zip(lines[:half], lines[half:], strict=True)
    turned = [builder.bitcast(code.shuffled(*pair, both), words) for pair in pairs]
    for _ in range(3):  # to zip the first half with the second, three times, transposes 8 x 8
        zipped = []
        for one, other in zip(turned[: half // 2], turned[half // 2 :], strict=True):
            for first in (0, half // 2):
                lane = [first + place // 2 + LANES * (place % 2) for place in range(half)]
                zipped.append(code.shuffled(one, other, [*lane, *(half + each for each in lane)]))
        turned = zipped
    return [builder.bitcast(each, ir.VectorType(_BYTE, PAIR)) for each in turned]


@_compiled_in
def turned_colours(_: Any, rows: Any, at: Any, stride: Any, planes: Any, to: Any, step: Any) -> Any:
    """Sixteen rows of four pixels, and four bytes that are not used -> two pairs of each plane, `step` apart."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code = _Code(context, builder)
        rows, at, stride, planes, to, step = zip(signature.args, arguments, strict=True)
        for number, pair in enumerate(_turned(code, rows, at[1], stride[1], _COLOUR_PAIRS)[:6]):
            plane = builder.add(to[1], builder.mul(step[1], _LONG(number % 3)))
            code.store(pair, planes, builder.add(plane, _LONG(PAIR * (number // 3))))
        return context.get_dummy_value()

    whole = types.int64
    return types.void(rows, whole, whole, planes, whole, whole), build


@_compiled_in
def turned_levels(_: Any, rows: Any, at: Any, stride: Any, made: Any, to: Any, step: Any) -> Any:
    """Sixteen rows of sixteen levels -> eight pairs, `step` apart."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code = _Code(context, builder)
        rows, at, stride, made, to, step = zip(signature.args, arguments, strict=True)
        for number, pair in enumerate(_turned(code, rows, at[1], stride[1], range(LANES))):
            code.store(pair, made, builder.add(to[1], builder.mul(step[1], _LONG(number))))
        return context.get_dummy_value()

    whole = types.int64
    return types.void(rows, whole, whole, made, whole, whole), build


@_compiled_in
def pair_brightness(_: Any, planes: Any, at: Any, step: Any) -> Any:
    """The brightness of a pair of red, green and blue, `step` apart, goes into the plane behind them."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code = _Code(context, builder)
        planes, at, step = zip(signature.args, arguments, strict=True)
        places = [builder.add(at[1], builder.mul(step[1], _LONG(number))) for number in range(4)]
        colours = [code.load(planes, place, ir.VectorType(_BYTE, PAIR)) for place in places[:3]]
        red, green, blue = (builder.zext(each, ir.VectorType(_SHORT, PAIR)) for each in colours)
        halves = []
        for low in (0, 4):  # the order that one instruction zips and one packs, in each eighth
            order = [8 * (n // 8) + low + n % 8 // 2 + PAIR * (n % 2) for n in range(PAIR)]
            terms = [
                code.pair_sums(code.shuffled(*two, order), _INT(weights[0] + (weights[1] << 16)))
                for two, weights in (((red, green), _RED_GREEN), ((green, blue), _GREEN_BLUE))
            ]
            halves.append(code.levels(builder.add(*terms), 16))
        order = [4 * (n // 8) + n % 4 + LANES * (n % 8 // 4) for n in range(PAIR)]
        code.store(code.shuffled(halves[0], halves[1], order), planes, places[3])
        return context.get_dummy_value()

    return types.void(planes, types.int64, types.int64), build


@_compiled_in
def weighted(_: Any, pairs: Any, at: Any, step: Any, count: Any, weights: Any, place: Any, made: Any, to: Any) -> Any:
    """Sixteen levels: the sum of `count` (1 or more) pairs, `step` apart, with the weights of `place`.

    Weights are int32 (size, 2, most pairs), two int16 in each: the upper and the lower part of two neighbours.
    """

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code = _Code(context, builder)
        pairs, at, step, count, weights, place, made, to = zip(signature.args, arguments, strict=True)
        most = builder.extract_value(context.make_array(weights[0])(context, builder, weights[1]).shape, 2)
        high = builder.mul(place[1], builder.mul(most, _LONG(2)))

        def terms(number: Any) -> list[Any]:
            start = builder.add(at[1], builder.mul(number, step[1]))
            levels = builder.zext(code.load(pairs, start, ir.VectorType(_BYTE, PAIR)), ir.VectorType(_SHORT, PAIR))
            parts = builder.add(high, number), builder.add(builder.add(high, number), most)
            return [code.pair_sums(levels, code.load(weights, each, _INT)) for each in parts]

        totals = [cgutils.alloca_once_value(builder, first) for first in terms(_LONG(0))]
        with cgutils.for_range_slice(builder, _LONG(1), count[1], _LONG(1)) as (number, _):
            for total, term in zip(totals, terms(number), strict=True):
                builder.store(builder.add(builder.load(total), term), total)
        upper, lower = (builder.load(total) for total in totals)
        low_bits = ir.Constant(upper.type, [LOW_BITS] * LANES)
        code.store(code.levels(builder.add(builder.shl(upper, low_bits), lower), UNIT_BITS), made, to[1])
        return context.get_dummy_value()

    whole = types.int64
    return types.void(pairs, whole, whole, whole, weights, whole, made, whole), build
