"""What tells drawings, documents and photographs apart: flat colour, number of colours, saturation, ink."""

import numpy as np

from schemas.signals import ImageLayout
from tasks.pictures import Picture

VERSION = "1"
SIDE = 256
_THUMBNAIL = 64
_LEVELS, _INK = 8, 96


def image_layout(picture: Picture) -> ImageLayout:
    """Measured on the picture shrunk to at most 256 pixels a side."""
    small = np.asarray(picture.fitted(SIDE), np.int16).reshape(-1, 3)
    codes = (small >> 4) @ np.array([256, 16, 1])
    paper = np.median(small[codes == np.bincount(codes).argmax()], axis=0)
    difference = np.abs(small - paper)
    thumbnail = np.asarray(picture.pil.resize((_THUMBNAIL, _THUMBNAIL), 0), np.int16).reshape(-1, 3)
    return ImageLayout(
        flat_fraction=float((difference.max(axis=1) <= _LEVELS).mean()),
        colour_count=int(np.unique((thumbnail >> 4) @ np.array([256, 16, 1])).size),
        saturation_mean=float((small.max(axis=1) - small.min(axis=1)).mean() / 255),
        ink_fraction=float((np.abs(difference.mean(axis=1)) > _INK).mean()),
    )
