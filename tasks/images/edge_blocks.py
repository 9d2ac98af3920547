"""Finds what a JPEG holds beyond the edge of its image, where no decoder shows it.

A JPEG codes whole blocks of 8 x 8 samples. An encoder fills the last ones by repeating the last row and column. A
lossless crop leaves there what it cut off: up to 15 rows and columns of the larger picture, legible again when the size
in the header is raised.
"""

import io
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.fft
from jpegtran.lib import Transformation, ffi, jpegtran_op, lib
from PIL.JpegImagePlugin import JpegImageFile

Levels = npt.NDArray[np.int16]
"""Quantized coefficients of blocks: (blocks, 8, 8), vertical frequency before horizontal."""
Steps = npt.NDArray[np.int64]
"""Quantization table, (8, 8)."""

_BLOCK = 8
_STEPS_OFF_MAX = 0.75
"""How far a coefficient of a last block may be from a repeated edge, in steps; an encoder that rounds is 0.5 off."""
_STEP_MAX, _ROUNDING = 40, 4
"""Larger steps count as 40, so that a coarse table hides nothing; rounding inside encoders is up to 4 more levels."""
_FILTER = "int(short *, tjregion, tjregion, int, int, tjtransform *)"
_FREQUENCIES = scipy.fft.dct(np.eye(_BLOCK), norm="ortho", axis=0)
"""(frequency, sample)."""


class EdgeBlocks(Transformation):  # type: ignore[misc]
    """The lossless transform that changes nothing. It keeps the coefficients of the last blocks on its way."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self._lowest: dict[int, Levels] = {}
        self._rightmost: dict[int, list[Levels]] = defaultdict(list)
        self._filter = ffi.callback(_FILTER, _kept_in(self._lowest, self._rightmost), error=-1)

    @jpegtran_op  # type: ignore[untyped-decorator]
    def coded(self) -> Any:
        """The JPEG as one scan. libjpeg-turbo raises for damage of which decoders only warn."""
        options = ffi.new("tjtransform *", {"options": lib.TJXOPT_CROP})
        pointers = ffi.sizeof("tjtransform") // ffi.sizeof("void *")
        ffi.cast("void **", options)[pointers - 1] = self._filter  # customFilter, the last field of TurboJPEG's struct
        return options

    def hold_the_image_alone(self, coded: bytes) -> bool:
        """Whether beyond the edge of the `coded` JPEG each component repeats its last row and column."""
        image = JpegImageFile(io.BytesIO(coded))
        widest, highest = (max(layer[at] for layer in image.layer) for at in (1, 2))
        for component, (_, wide, high, table) in enumerate(image.layer):
            steps = np.array(image.quantization[table]).reshape(_BLOCK, _BLOCK)
            below, right = self._lowest[component], np.stack(self._rightmost[component]).mT
            if not (
                _repeats(below, steps, _free(image.height, high, highest))
                and _repeats(right, steps.T, _free(image.width, wide, widest))
            ):
                return False
        return True


def _kept_in(lowest: dict[int, Levels], rightmost: dict[int, list[Levels]]) -> Callable[..., int]:
    """TurboJPEG's custom filter. It is called with every row of blocks of every component, from the top."""

    def keep(coefficients: Any, row: Any, plane: Any, component: int, *_: Any) -> int:
        held = ffi.buffer(coefficients, 2 * row.w * row.h)
        blocks = np.frombuffer(held, np.int16).reshape(-1, _BLOCK, _BLOCK)
        rightmost[component].append(blocks[-1].copy())
        if row.y + row.h == plane.h:
            lowest[component] = blocks.copy()
        return 0

    return keep


def _free(pixels: int, share: int, share_max: int) -> int:
    """How many samples of a last block are not repeated ones, 1 to 8.

    A component of fewer samples than pixels has one more: some encoders repeat pixels and take the mean of two later.
    """
    samples = -(-pixels * share // share_max)
    return min(_BLOCK, (samples - 1) % _BLOCK + 1 + (share < share_max))


def _repeats(levels: Levels, steps: Steps, free: int) -> bool:
    """Whether blocks are what an encoder makes of `free` rows, the last of which is repeated to the end of the block.

    Each column of frequencies is compared with the nearest one that such rows have (least squares, in steps).
    """
    scale = np.minimum(steps, _STEP_MAX) + _ROUNDING
    rows = np.add.reduceat(_FREQUENCIES, range(free), axis=1)
    basis = np.linalg.qr(rows / scale.T[:, :, None]).Q
    found = (levels * (steps / scale)).transpose(2, 1, 0)
    return bool(np.abs(found - basis @ (basis.mT @ found)).max() <= _STEPS_OFF_MAX)
