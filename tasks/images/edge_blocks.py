"""Finds what a JPEG holds beyond the edge of its image, where no decoder shows it.

A JPEG codes whole blocks of 8 x 8 samples. An encoder fills the last ones by repeating the last row and column. A
lossless crop leaves there what it cut off: up to 15 rows and columns of the larger picture, legible again when the size
in the header is raised.
"""

import io

import numpy as np
import numpy.typing as npt
import scipy.fft
from PIL.JpegImagePlugin import JpegImageFile

from tasks.images.coefficients import Recoded

Levels = npt.NDArray[np.int16]
"""Quantized coefficients of blocks: (blocks, 8, 8), vertical frequency before horizontal."""
Steps = npt.NDArray[np.int64]
"""Quantization table, (8, 8)."""

_BLOCK = 8
_STEPS_OFF_MAX = 0.75
"""How far a coefficient of a last block may be from a repeated edge, in steps; an encoder that rounds is 0.5 off."""
_STEP_MAX, _ROUNDING = 40, 4
"""Larger steps count as 40, so that a coarse table hides nothing; rounding inside encoders is up to 4 more levels."""
_FREQUENCIES = scipy.fft.dct(np.eye(_BLOCK), norm="ortho", axis=0)
"""(frequency, sample)."""


def holds_the_image_alone(recoded: Recoded) -> bool:
    """Whether beyond the edge of a JPEG each component repeats its last row and column."""
    image = JpegImageFile(io.BytesIO(recoded.coded))
    widest, highest = (max(layer[at] for layer in image.layer) for at in (1, 2))
    for (_, wide, high, table), below, right in zip(image.layer, recoded.lowest, recoded.rightmost, strict=True):
        steps = np.array(image.quantization[table]).reshape(_BLOCK, _BLOCK)
        if not (
            _repeats(_levels(below), steps, _free(image.height, high, highest))
            and _repeats(_levels(right).mT, steps.T, _free(image.width, wide, widest))
        ):
            return False
    return True


def _levels(coefficients: bytes) -> Levels:
    return np.frombuffer(coefficients, np.int16).reshape(-1, _BLOCK, _BLOCK)


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
