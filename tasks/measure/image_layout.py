"""What tells drawings, documents and photographs apart: flat colour, number of colours, saturation, ink."""

import numpy as np
import numpy.typing as npt

from schemas.signals import ImageLayout
from tasks.pixels.pictures import Picture, Pixels
from tasks.running.compiled import compiled

VERSION = "1"
SIDE = 256
_THUMBNAIL = 64
_LEVELS, _INK = 8, 96
_COLOURS = 16**3


def image_layout(picture: Picture) -> ImageLayout:
    """Measured on the picture shrunk to at most 256 pixels a side."""
    small = picture.fitted(SIDE).reshape(-1, 3)
    codes = _codes(small)
    paper = np.median(small[codes == np.bincount(codes).argmax()], axis=0)
    flat, ink, saturation = _counts(small, paper)
    return ImageLayout(
        flat_fraction=flat / len(small),
        colour_count=int(np.count_nonzero(np.bincount(_codes(_thumbnail(picture.rgb)), minlength=_COLOURS))),
        saturation_mean=saturation / len(small) / 255,
        ink_fraction=ink / len(small),
    )


@compiled
def _codes(rgb: Pixels) -> npt.NDArray[np.int64]:
    """Which of 4,096 colours each pixel of uint8 (n, 3) is."""
    codes = np.empty(len(rgb), np.int64)
    for at in range(len(rgb)):
        codes[at] = (rgb[at, 0] >> 4) << 8 | (rgb[at, 1] >> 4) << 4 | rgb[at, 2] >> 4
    return codes


@compiled
def _counts(rgb: Pixels, paper: npt.NDArray[np.float64]) -> tuple[int, int, int]:
    """Pixels like the paper, pixels far from it, and the sum of all saturations, 0 to 255 each."""
    flat = ink = saturation = 0
    for at in range(len(rgb)):
        red, green, blue = np.int64(rgb[at, 0]), np.int64(rgb[at, 1]), np.int64(rgb[at, 2])
        away = abs(red - paper[0]), abs(green - paper[1]), abs(blue - paper[2])
        flat += max(away) <= _LEVELS
        ink += away[0] + away[1] + away[2] > 3 * _INK
        saturation += int(max(red, green, blue) - min(red, green, blue))
    return flat, ink, saturation


def _thumbnail(rgb: Pixels) -> Pixels:
    """uint8 (4096, 3): 64 x 64 pixels of the picture, as Pillow picks the nearest ones."""
    height, width, _ = rgb.shape
    return rgb[_nearest(height)][:, _nearest(width)].reshape(-1, 3)


def _nearest(length: int) -> npt.NDArray[np.int64]:
    step = length / _THUMBNAIL
    places = np.cumsum(np.r_[step * 0.5, np.full(_THUMBNAIL - 1, step)])  # Pillow adds, and rounds as it goes
    return np.minimum(places.astype(np.int64), length - 1)
