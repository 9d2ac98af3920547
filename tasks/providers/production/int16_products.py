"""Products of float32 rows with weights, by int16: twice the multiplications a second that float32 has on a CPU.

Each row and each channel of weights has a step of its own, so a row does not depend on the rows beside it. One
instruction (VNNI) multiplies 32 pairs of int16 and adds them in twos to 16 sums of int32; sums of 256 products are
exact, and are added up in float32. Where a processor lacks the instruction, plain code gives the same sums, slowly.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple

import numba.core.cgutils
import numpy as np
import numpy.typing as npt
import torch
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from tasks.running.compiled import compiled

cgutils: Any = numba.core.cgutils  # its functions have no types
ROW_LEVELS, WEIGHT_LEVELS = 4095, 2047
"""Largest whole numbers of either sign: 256 of their products are below 2 ** 31."""
PAIRS = 128
"""Pairs of products that are summed exactly."""
ROWS, LANES, VECTORS = 8, 16, 3
"""Sums that are held in registers: of as many rows, by three registers of 16 channels."""
CHANNELS = LANES * VECTORS
PADDING = 32
"""Numbers between rows, which would otherwise fall on the same few lines of the cache."""
_SHORT, _INT, _LONG = (ir.IntType(bits) for bits in (16, 32, 64))
_SUMS, _PAIRS = ir.VectorType(_INT, LANES), ir.VectorType(_SHORT, 2 * LANES)
_FLOATS = ir.VectorType(ir.FloatType(), LANES)

Floats = npt.NDArray[np.float32]
Shorts = npt.NDArray[np.int16]


class Weights(NamedTuple):
    """A layer's weights, rounded."""

    panels: Shorts
    """(channels / 48, width / 2, 96): of each pair of inputs the weights of 48 channels, side by side."""
    steps: Floats
    """(channels,): of one whole number."""
    bias: Floats
    """(channels,)"""


def weights_of(weight: torch.Tensor, bias: torch.Tensor | None) -> Weights:
    """float32 (channels, width), whose width is even, and (channels,)."""
    channels, width = weight.shape
    steps = weight.abs().amax(dim=1).clamp_min(1e-30) / WEIGHT_LEVELS
    whole = torch.zeros(-(-channels // CHANNELS) * CHANNELS, width, dtype=torch.int16)
    whole[:channels] = (weight / steps[:, None]).round().to(torch.int16)
    panels = whole.view(-1, CHANNELS, width // 2, 2).transpose(1, 2).contiguous()
    added = torch.zeros(channels) if bias is None else bias.detach().float()
    return Weights(panels.view(len(panels), width // 2, -1).numpy(), steps.numpy(), added.numpy())


def products(rows: torch.Tensor, weights: Weights) -> torch.Tensor:
    """float32 (n, width) -> (n, channels): rows x weights + bias, on as many threads as torch uses."""
    made = torch.empty(len(rows), len(weights.steps))
    threads = min(torch.get_num_threads(), -(-len(rows) // ROWS))
    share = -(-len(rows) // (threads * ROWS)) * ROWS if threads else 1
    parts = [slice(start, start + share) for start in range(0, len(rows), share)]
    others = [_pool(threads).submit(_part, rows[part], weights, made[part]) for part in parts[1:]]
    for part in parts[:1]:
        _part(rows[part], weights, made[part])
    for other in others:
        other.result()
    return made


def _part(rows: torch.Tensor, weights: Weights, made: torch.Tensor) -> None:
    whole = np.empty((-(-len(rows) // ROWS) * ROWS, rows.shape[1] + PADDING), np.int16)
    whole[len(rows) :] = 0
    steps = np.empty(len(rows), np.float32)
    _ROUNDED(rows.numpy(), whole, steps)
    _MULTIPLIED(whole, steps, *weights, made.numpy())


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads)


def _rounded(rows: Floats, whole: Shorts, steps: Floats) -> None:
    """Writes rows (n, width) as whole numbers of `steps` (n,)."""
    bits, tops = rows.view(np.int32), steps.view(np.int32)
    for row in range(rows.shape[0]):
        most = np.int32(0)
        for column in range(rows.shape[1]):  # without their signs floats are in the order of their bits
            most = max(most, bits[row, column] & np.int32(0x7FFFFFFF))
        tops[row] = most
        top = max(steps[row], np.float32(1e-30))
        steps[row], times = top / np.float32(ROW_LEVELS), np.float32(ROW_LEVELS) / top
        for column in range(rows.shape[1]):
            whole[row, column] = np.int32(np.rint(rows[row, column] * times))


def _multiplied(
    whole: Shorts, row_steps: Floats, panels: Shorts, channel_steps: Floats, bias: Floats, made: Floats
) -> None:
    """Writes the sums (n, channels), times the steps of row and channel, plus bias."""
    pairs = panels.shape[1]
    sums = np.empty((ROWS, CHANNELS), np.float32)
    for panel in range(panels.shape[0]):
        first = panel * CHANNELS
        channels = min(CHANNELS, made.shape[1] - first)
        for start in range(0, made.shape[0], ROWS):
            sums[:] = 0
            for pair in range(0, pairs, PAIRS):
                _add_products(whole[start:, 2 * pair :], panels[panel, pair:], min(PAIRS, pairs - pair), sums)
            for row in range(min(ROWS, made.shape[0] - start)):
                step = row_steps[start + row]
                for channel in range(channels):
                    scale = step * channel_steps[first + channel]
                    made[start + row, first + channel] = sums[row, channel] * scale + bias[first + channel]


def _adding(_: Any, rows: Any, panel: Any, count: Any, sums: Any) -> Any:
    """Adds to `sums` (8, 48) the products of `count` pairs, at least 1, of eight rows with those of a panel."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        of_rows, of_panel, of_sums = (
            context.make_array(signature.args[place])(context, builder, arguments[place]) for place in (0, 1, 3)
        )
        stride = builder.udiv(builder.extract_value(of_rows.strides, 0), _LONG(4))
        ours, theirs = (
            builder.bitcast(of.data, kind.as_pointer()) for of, kind in ((of_rows, _INT), (of_panel, _PAIRS))
        )

        def terms(pair: Any) -> list[Any]:
            """One <32 x i16> of each row: a pair sixteen times; and the three of the panel."""
            places = [builder.add(builder.mul(_LONG(row), stride), pair) for row in range(ROWS)]
            one = [_repeated(builder, builder.load(builder.gep(ours, [place]), align=2)) for place in places]
            first = builder.mul(pair, _LONG(VECTORS))
            places = [builder.add(first, _LONG(vector)) for vector in range(VECTORS)]
            return one + [builder.load(builder.gep(theirs, [place]), align=2) for place in places]

        add = _adder(context, builder)
        for place, total in enumerate(_loop(builder, arguments[2], terms, add)):
            at = builder.gep(builder.bitcast(of_sums.data, _FLOATS.as_pointer()), [_LONG(place)])
            builder.store(builder.fadd(builder.load(at, align=4), builder.sitofp(total, _FLOATS)), at, align=4)
        return context.get_dummy_value()

    return types.none(rows, panel, count, sums), build


def _loop(builder: Any, count: Any, terms: Any, add: Any) -> list[Any]:
    """<16 x i32> of each row and vector, in registers throughout."""
    before, loop, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
    builder.branch(loop)
    builder.position_at_end(loop)
    pair, totals = builder.phi(_LONG), [builder.phi(_SUMS) for _ in range(ROWS * VECTORS)]
    given = terms(pair)
    added = [add(total, given[place // VECTORS], given[ROWS + place % VECTORS]) for place, total in enumerate(totals)]
    following = builder.add(pair, _LONG(1))
    for phi, first, later in zip(
        [pair, *totals], [_LONG(0)] + [ir.Constant(_SUMS, [0] * LANES)] * len(totals), [following, *added], strict=True
    ):
        phi.add_incoming(first, before)
        phi.add_incoming(later, loop)
    builder.cbranch(builder.icmp_signed("<", following, count), loop, after)
    builder.position_at_end(after)
    return added


def _repeated(builder: Any, pair: Any) -> Any:
    """<32 x i16>: two numbers, sixteen times over."""
    unset = ir.Constant(_SUMS, ir.Undefined)
    first = builder.insert_element(unset, pair, _INT(0))
    return builder.bitcast(builder.shuffle_vector(first, unset, ir.Constant(_SUMS, [0] * LANES)), _PAIRS)


def _adder(context: Any, builder: Any) -> Any:
    """What adds to <16 x i32> the products of two <32 x i16>, neighbours together."""
    if "+avx512vnni" in context.codegen().magic_tuple()[2]:
        kind = ir.FunctionType(_SUMS, [_SUMS, _PAIRS, _PAIRS])
        instruction = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx512.vpdpwssd.512")
        return lambda *given: builder.call(instruction, given)

    def add(total: Any, *both: Any) -> Any:
        for side in (0, 1):
            mask = ir.Constant(_SUMS, list(range(side, 2 * LANES, 2)))
            factors = [builder.sext(builder.shuffle_vector(each, each, mask), _SUMS) for each in both]
            total = builder.add(total, builder.mul(*factors))
        return total

    return add


_add_products: Any = intrinsic(_adding)
_ROUNDED, _MULTIPLIED = compiled(_rounded), compiled(_multiplied)
