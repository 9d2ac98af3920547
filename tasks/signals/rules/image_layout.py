"""Measures that distinguish drawings, documents and photographs: flat colour, number of colours, saturation, ink."""

import numpy as np
import numpy.typing as npt

from schemas.signals import ImageLayout
from tasks.images.decode import DecodedImage, Filter

VERSION = "1"
SIDE = 256
_THUMBNAIL = 64
_FLAT_LEVELS, _INK_LEVELS = 8, 96


def image_layout(image: DecodedImage) -> ImageLayout:
    """Measured on the image shrunk to at most 256 pixels a side."""
    small = image.fitted(SIDE).reshape(-1, 3).astype(np.int16)
    codes = _codes(small)
    background = np.median(small[codes == np.bincount(codes).argmax()], axis=0)
    away = np.abs(small - background)
    thumbnail = image.resized((_THUMBNAIL, _THUMBNAIL), Filter.NEAREST).reshape(-1, 3)
    return ImageLayout(
        flat_fraction=float((away.max(axis=1) <= _FLAT_LEVELS).mean()),
        colour_count=len(np.unique(_codes(thumbnail))),
        saturation_mean=float((small.max(axis=1) - small.min(axis=1)).mean()) / 255,
        ink_fraction=float((away.sum(axis=1) > 3 * _INK_LEVELS).mean()),
    )


def _codes(rgb: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """Pixels (n, 3) -> colour codes (n,), 0 to 4,095."""
    codes: npt.NDArray[np.int64] = (rgb.astype(np.int64) >> 4) @ np.array([256, 16, 1])
    return codes
