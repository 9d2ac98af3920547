"""QR codes, bar codes and the like in an image, decoded by zxing-cpp."""

from typing import NamedTuple

import zxingcpp
from zxingcpp import BarcodeFormat, BarcodeFormats, barcode_formats_list

from tasks.images.decode import DecodedImage

_OF_GOODS = [*barcode_formats_list(BarcodeFormats(BarcodeFormat.AllRetail))]
_READABLE = barcode_formats_list(BarcodeFormats(BarcodeFormat.AllReadable))
FORMATS = BarcodeFormats([each for each in _READABLE if each not in _OF_GOODS])
"""All but EAN, UPC, ISBN and DataBar, which name goods; their digits would pass for a card's."""


class DecodedCode(NamedTuple):
    """One code."""

    text: str
    """Content of the code; bytes that are no text are written as numbers."""
    box: list[int]
    """x, y, width and height in pixels: the square around it; of a bar code only some rows are found."""


def codes_in(image: DecodedImage) -> list[DecodedCode]:
    """The codes of an image, turned or light on dark, too."""
    found = zxingcpp.read_barcodes(image.pil.convert("L"), formats=FORMATS)
    return [DecodedCode(each.text, _square(each.position, image)) for each in found if each.text]


def _square(position: zxingcpp.Position, image: DecodedImage) -> list[int]:
    corners = [position.top_left, position.top_right, position.bottom_right, position.bottom_left]
    across, down = [each.x for each in corners], [each.y for each in corners]
    side = max(max(across) - min(across), max(down) - min(down)) + 1
    left, top = (max(0, (min(each) + max(each) - side) // 2) for each in (across, down))
    return [left, top, min(side, image.width - left), min(side, image.height - top)]
