"""Perceptual hashes of decoded pixels: 64-bit DCT hash and 256-bit PDQ.

`phash_bits` equals imagehash.phash bit for bit; `pdq_bits` equals Meta's reference (ThreatExchange `pdq/README.md`).
"""

from functools import cache

import cv2
import numpy as np
import numpy.typing as npt
import PIL.Image
from scipy.fftpack import dct

Bits = npt.NDArray[np.bool_]
Plane = npt.NDArray[np.float32]

_PHASH_SIDE, _PHASH_LOW = 32, 8
_PDQ_SIDE, _PDQ_LOW = 64, 16
_PDQ_QUALITY_DIVISOR = 90
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)


@cache
def _pdq_basis() -> Plane:
    """Rows 1 to 16 of the type-II DCT matrix of 64 points, float32 (16, 64)."""
    frequency, position = np.arange(1, _PDQ_LOW + 1), 2 * np.arange(_PDQ_SIDE) + 1
    scale = np.sqrt(2 / _PDQ_SIDE)
    basis: Plane = (scale * np.cos(np.pi / (2 * _PDQ_SIDE) * np.outer(frequency, position))).astype(np.float32)
    return basis


def grey_plane(picture: PIL.Image.Image) -> npt.NDArray[np.uint8]:
    """Brightness of the picture shrunk to uint8 (32, 32), as imagehash shrinks it."""
    small = picture.convert("L").resize((_PHASH_SIDE, _PHASH_SIDE), PIL.Image.Resampling.LANCZOS)
    return np.asarray(small)


def phash_bits(picture: PIL.Image.Image) -> Bits:
    """64 bits, bool (64,), row by row: which low DCT frequencies exceed their median."""
    return phash_of(grey_plane(picture))


def phash_of(grey: npt.NDArray[np.uint8]) -> Bits:
    """The same of a picture that was shrunk already, uint8 (32, 32)."""
    # Two one-dimensional transforms in imagehash's order: flat pictures are decided by the last rounding.
    low = dct(dct(grey, axis=0), axis=1)[:_PHASH_LOW, :_PHASH_LOW]
    return (low > np.median(low)).ravel()


def pdq_bits(rgb: npt.NDArray[np.uint8]) -> tuple[Bits, int]:
    """256 bits, bool (256,), in Meta's order from the most significant on, and the quality, 0 to 100.

    `rgb` is uint8 (height, width, 3). Two passes of a box filter in each direction shrink the brightness to
    64 x 64; the bits say which of 16 x 16 low DCT frequencies exceed their median.
    """
    luma = rgb.astype(np.float32) @ _LUMA
    height, width = luma.shape
    for _ in range(2):
        luma = _box(luma, -(-width // 128), -(-height // 128))
    centres = np.arange(_PDQ_SIDE) + 0.5
    rows = (centres * height / _PDQ_SIDE).astype(int)
    columns = (centres * width / _PDQ_SIDE).astype(int)
    small = luma[np.ix_(rows, columns)]
    basis = _pdq_basis()
    low = (basis @ small @ basis.T).ravel()
    return (low > np.sort(low)[127])[::-1], _pdq_quality(small)


def pdq_digits(rgb: npt.NDArray[np.uint8]) -> str:
    """The PDQ hash as 64 hexadecimal digits."""
    return hex_digits(pdq_bits(rgb)[0])


def _pdq_quality(small: Plane) -> int:
    gradients = (small[:-1] - small[1:], small[:, :-1] - small[:, 1:])
    total = sum(int(np.abs((gradient * 100 / 255).astype(int)).sum()) for gradient in gradients)
    return min(100, total // _PDQ_QUALITY_DIVISOR)


def _box(plane: Plane, width: int, height: int) -> Plane:
    """Mean over windows that shrink at the borders, as the reference does; float32 like `plane`."""
    behind = [window - (window + 2) // 2 for window in (width, height)]
    sums = cv2.boxFilter(
        plane, cv2.CV_32F, (width, height), anchor=behind, normalize=False, borderType=cv2.BORDER_CONSTANT
    )
    down = _inside(plane.shape[0], height, behind[1])[:, None]
    across = _inside(plane.shape[1], width, behind[0])
    return np.asarray(sums, np.float32) / down / across


def _inside(length: int, window: int, behind: int) -> Plane:
    """How many points of the window at each position lie on the picture, float32 (length,)."""
    start = np.arange(length) - behind
    return (np.minimum(start + window, length) - np.maximum(start, 0)).astype(np.float32)


def hex_digits(bits: Bits) -> str:
    """Bits, the most significant first, as lower-case hexadecimal digits."""
    return np.packbits(bits).tobytes().hex()
