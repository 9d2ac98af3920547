"""Boxes of pictures -> one flat colour. What a box held is in no byte of the redacted picture."""

import io
from collections.abc import Iterable, Sequence

import PIL.Image

from tasks.pixels.pictures import Picture, open_picture

MARGIN = 0.25
"""Added on every side, as a share of the box's shorter side: hair and chin, and letters that reach over the line."""
MARGIN_PIXELS_MIN = 4
BLOCK = 16
"""JPEG's largest block. A block that a box's edge crossed would carry ringing of what was inside it."""
FILL = (0, 0, 0)
_JPEG = {"quality": 95, "subsampling": 0}

Box = tuple[int, int, int, int]
"""left, top, right, bottom in pixels; right and bottom are exclusive."""


def grown(box: Sequence[int], width: int, height: int) -> Box:
    """The box x, y, width, height with its margin, out to the next blocks, inside the picture."""
    x, y, wide, high = box
    margin = max(MARGIN_PIXELS_MIN, round(MARGIN * min(wide, high)))
    left, top = (max(0, (edge - margin) // BLOCK * BLOCK) for edge in (x, y))
    right, bottom = (-(-(edge + margin) // BLOCK) * BLOCK for edge in (x + wide, y + high))
    return min(left, width), min(top, height), max(0, min(right, width)), max(0, min(bottom, height))


def fill_boxes(picture: Picture, boxes: Iterable[Box]) -> Picture:
    """A picture of its own, in the same format, whose boxes are black."""
    rgb = picture.rgb.copy()
    for left, top, right, bottom in boxes:
        rgb[top:bottom, left:right] = FILL
    sink = io.BytesIO()
    if picture.format == "jpeg":
        PIL.Image.fromarray(rgb).save(sink, "JPEG", **_JPEG)
    else:
        PIL.Image.fromarray(rgb).save(sink, "PNG")
    return open_picture(sink.getvalue())
