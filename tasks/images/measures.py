"""Measures of a decoded image that need no model: perceptual hashes, colours, layout, QR and bar codes."""

import atexit
import os
import sys
from typing import NamedTuple

import imagehash
import numpy as np
import numpy.typing as npt
import pdqhash
import PIL.Image
import zxingcpp
from zxingcpp import BarcodeFormat, BarcodeFormats, barcode_formats_list

from schemas.signals import ImageColour, ImageHash, ImageInside, ImageLayout
from tasks.images.decode import DecodedImage, Filter, Pixels

PDQ_SIDE_MIN = 512
"""PDQ is computed on the image reduced by a whole factor that leaves at least this longer side, in pixels.

Its authors recommend 512 pixels. For 14 photographs the hash then differs from that of the full size in at most 6 of
256 bits; shrunk to exactly 512 pixels it differs in up to 18. Known images are matched within 31 bits.
"""
THUMBNAIL_SIDE = 32


def image_hashes(image: DecodedImage) -> ImageHash:
    """The three hashes of one image: 64-bit DCT hash, 256-bit PDQ, and a 32 x 32 grey thumbnail."""
    return _hashes(image.pil)


def _hashes(image: PIL.Image.Image) -> ImageHash:
    thumbnail = image.convert("L").resize((THUMBNAIL_SIDE, THUMBNAIL_SIDE), Filter.LANCZOS)
    phash = imagehash.phash(thumbnail)  # it shrinks to 32 x 32 in the same way: the hash of the whole image
    pdq, quality = _pdq(image)
    return ImageHash(phash=str(phash), pdq=pdq, pdq_quality=quality, grey=thumbnail.tobytes().hex())


IMAGE_INSIDE_VERSION = "1"
INSIDE_SIDE = 1024
"""Margins are looked for on the image reduced by a whole factor to at most this longer side, in pixels."""
EVEN_LEVELS = 24
"""Levels that a pixel of an even margin may differ from its corner: more than JPEG of quality 60 adds to one."""
_INSIDE_SIDE_MIN = 16
_MARGINS_MAX = 2
"""Margins that are taken off one after the other: a frame, and the page around it."""
_Box = tuple[int, int, int, int]
"""left, top, right, bottom in pixels; right and bottom exclusive, as Pillow has them."""


def image_inside(image: DecodedImage) -> ImageInside:
    """Hashes of the image without its even margins."""
    box = inside_margins(image.pil)
    if box is None:
        return ImageInside(phash=None, pdq=None, grey=None)
    hashes = _hashes(image.pil.crop(box))
    return ImageInside(phash=hashes.phash, pdq=hashes.pdq, grey=hashes.grey)


def inside_margins(image: PIL.Image.Image) -> _Box | None:
    """The box inside the even margins of an RGB image; None where it has none, or nothing of 16 pixels lies inside."""
    factor = -(-max(image.size) // INSIDE_SIDE)
    pixels = np.asarray(image.reduce(factor) if factor > 1 else image).astype(np.int16)
    whole = (0, 0, pixels.shape[1], pixels.shape[0])
    box = whole
    for _ in range(_MARGINS_MAX):
        left, top, right, bottom = box
        inner = _inside_margin(pixels[top:bottom, left:right])
        if inner is None:
            return None
        box = (left + inner[0], top + inner[1], left + inner[2], top + inner[3])
    if box == whole or min(box[2] - box[0], box[3] - box[1]) < _INSIDE_SIDE_MIN:
        return None
    left, top, right, bottom = (edge * factor for edge in box)
    return left, top, min(right, image.width), min(bottom, image.height)


def _inside_margin(pixels: npt.NDArray[np.int16]) -> _Box | None:
    """The box of int16 (height, width, 3) outside of which all is as the corner; None where everything is."""
    differs = (np.abs(pixels - pixels[0, 0]) > EVEN_LEVELS).any(axis=2)
    rows, columns = np.flatnonzero(differs.any(axis=1)), np.flatnonzero(differs.any(axis=0))
    if not len(rows):
        return None
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


IMAGE_COLOUR_VERSION = "1"
COLOUR_SIDE = 16


def image_colour(image: DecodedImage) -> ImageColour:
    """The chroma of each cell of a 16 x 16 thumbnail, which the hashes and the grey thumbnail do not see."""
    small = image.pil.convert("RGB").resize((COLOUR_SIDE, COLOUR_SIDE), Filter.BOX)
    chroma = np.asarray(small.convert("YCbCr"))[..., 1:]
    return ImageColour(chroma=chroma.tobytes().hex())


def pdq_digits(rgb: Pixels) -> str:
    """The PDQ hash of uint8 (height, width, 3), 64 hexadecimal digits in Meta's order."""
    return _pdq(PIL.Image.fromarray(rgb))[0]


def _pdq(image: PIL.Image.Image) -> tuple[str, int]:
    """The hash and its quality, 0 to 100."""
    reduced = image.reduce(max(1, max(image.size) // PDQ_SIDE_MIN))
    bits, quality = pdqhash.compute(np.asarray(reduced))
    return np.packbits(bits).tobytes().hex(), int(quality)


IMAGE_LAYOUT_VERSION = "1"
LAYOUT_SIDE = 256
_COUNTED_SIDE = 64
_FLAT_LEVELS, _INK_LEVELS = 8, 96


def image_layout(image: DecodedImage) -> ImageLayout:
    """Measures that tell drawings, documents and photographs apart; the image is shrunk to 256 pixels a side."""
    small = image.fitted(LAYOUT_SIDE).reshape(-1, 3).astype(np.int16)
    codes = _codes(small)
    background = np.median(small[codes == np.bincount(codes).argmax()], axis=0)
    away = np.abs(small - background)
    thumbnail = image.resized((_COUNTED_SIDE, _COUNTED_SIDE), Filter.NEAREST).reshape(-1, 3)
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


_OF_GOODS = [*barcode_formats_list(BarcodeFormats(BarcodeFormat.AllRetail))]
_READABLE = barcode_formats_list(BarcodeFormats(BarcodeFormat.AllReadable))
CODE_FORMATS = BarcodeFormats([each for each in _READABLE if each not in _OF_GOODS])
"""All but EAN, UPC, ISBN and DataBar, which name goods; their digits would pass for a card's."""


@atexit.register
def _without_report() -> None:
    """End the output of a process before its libraries' own: zxing-cpp then lists what Python has not freed yet."""
    sys.stderr.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)


class DecodedCode(NamedTuple):
    """One code."""

    text: str
    """Content of the code; bytes that are no text are written as numbers."""
    box: list[int]
    """x, y, width and height in pixels: the square around it; of a bar code only some rows are found."""


def codes_in(image: DecodedImage) -> list[DecodedCode]:
    """The codes of an image, turned or light on dark, too."""
    barcodes = zxingcpp.read_barcodes(image.pil.convert("L"), formats=CODE_FORMATS)
    return [DecodedCode(barcode.text, _square(barcode.position, image)) for barcode in barcodes if barcode.text]


def _square(position: zxingcpp.Position, image: DecodedImage) -> list[int]:
    corners = [position.top_left, position.top_right, position.bottom_right, position.bottom_left]
    across, down = [corner.x for corner in corners], [corner.y for corner in corners]
    side = max(max(across) - min(across), max(down) - min(down)) + 1
    left, top = (max(0, (min(coordinates) + max(coordinates) - side) // 2) for coordinates in (across, down))
    return [left, top, min(side, image.width - left), min(side, image.height - top)]
