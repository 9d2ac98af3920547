"""Decodes an image file once; every signal is computed from the result.

An image is identified by its RGB pixels with EXIF orientation applied and transparency composited on white, so copies
with other file names, containers or EXIF orientations are the same image.
"""

import io
import re
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import PIL.Image
import PIL.ImageFile

from schemas.items.reject import Rejected, RejectReason
from tasks.images.rebuild import is_pixels_alone, png, rebuilt_jpeg
from tasks.storage.content_id import image_id

Pixels = npt.NDArray[np.uint8]
Filter = PIL.Image.Resampling

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
SIDE_MAX, PIXELS_MAX = 20_000, 25_000_000
"""Largest image that is decoded. 25 million pixels take up to 495 MB in all steps, and up to 5 s."""
FILE_BYTES_MAX = 64 * 1024 * 1024
"""Larger image files are not read; a server stores at most 3.3 MB for each."""
_READS_MAX = 100_000
"""Pillow reads a header piece by piece; a file of 64 MB can hold 20 million empty pieces, which would take minutes."""
_SCANS_MAX = 32
"""A progressive JPEG has about 10 scans; each takes time for all pixels, whatever its size."""
_SCAN = re.compile(rb"\xff\xda\0[\x08\x0a\x0c\x0e][\x01-\x04]")
_STRIP_PIXELS = 1_000_000
_WIDE_GREY = {"I;16", "I;16B", "I;16L", "I"}
_GREY_STEPS = {"L;2": 85, "L;4": 17}
"""Stored form of grey PNGs -> levels of 8 bits from one value to the next."""
_TO_UPRIGHT = {
    2: PIL.Image.Transpose.FLIP_LEFT_RIGHT,
    3: PIL.Image.Transpose.ROTATE_180,
    4: PIL.Image.Transpose.FLIP_TOP_BOTTOM,
    5: PIL.Image.Transpose.TRANSPOSE,
    6: PIL.Image.Transpose.ROTATE_270,
    7: PIL.Image.Transpose.TRANSVERSE,
    8: PIL.Image.Transpose.ROTATE_90,
}
"""EXIF orientation -> the transpose that turns the stored pixels upright; 1 is upright already."""

PIL.Image.MAX_IMAGE_PIXELS = None  # the header is checked before anything is decoded


class ImageRejected(Rejected):
    """An image that cannot be used."""


@dataclass(frozen=True)
class DecodedImage:
    """One decoded image."""

    image_id: str
    """Content id of the pixels."""
    encoded: bytes = field(repr=False)
    """PNG or JPEG without metadata; decodes to exactly `rgb`."""
    format: str
    """png or jpeg."""
    rgb: Pixels = field(repr=False)
    """uint8 (height, width, 3), orientation applied, transparency on white."""

    @property
    def height(self) -> int:
        """Pixels."""
        return int(self.rgb.shape[0])

    @property
    def width(self) -> int:
        """Pixels."""
        return int(self.rgb.shape[1])

    @cached_property
    def pil(self) -> PIL.Image.Image:
        """Pillow image of the pixels, RGB."""
        return PIL.Image.fromarray(self.rgb)

    def resized(self, size: tuple[int, int], method: Filter) -> Pixels:
        """uint8 (height, width, 3) of another `size` (width, height)."""
        return np.asarray(self.pil.resize(size, method))

    def fitted(self, side_max: int) -> Pixels:
        """uint8 (height, width, 3), shrunk if needed so that the longer side is at most `side_max` pixels."""
        scale = side_max / max(self.width, self.height)
        if scale >= 1:
            return self.rgb
        return self.resized((max(1, round(self.width * scale)), max(1, round(self.height * scale))), Filter.BILINEAR)


class _Reads(io.BytesIO):
    """A file that may be read in at most `_READS_MAX` pieces."""

    left = _READS_MAX

    def read(self, size: int | None = -1, /) -> bytes:
        """The next bytes. Raises ImageRejected after too many reads."""
        self.left -= 1
        if self.left < 0:
            raise ImageRejected(RejectReason.IMAGE_TOO_LARGE, f"more than {_READS_MAX:,} pieces are not read")
        return super().read(size)


def open_image(content: bytes) -> DecodedImage:
    """Decode an untrusted file. Raises ImageRejected unless it is one complete, still image within the limits."""
    if not content:
        raise ImageRejected(RejectReason.IMAGE_EMPTY, "0 bytes")
    require_within("bytes", len(content), FILE_BYTES_MAX)
    image = _header(content)
    rgb = _decode(image)
    encoded = rebuilt_jpeg(content) if image.format == "JPEG" and _orientation(image) == 1 else None
    del image
    if encoded is not None and np.array_equal(_decode(_header(encoded)), rgb):
        return DecodedImage(image_id(rgb), encoded, "jpeg", rgb)
    return from_pixels(rgb)


def from_pixels(rgb: Pixels) -> DecodedImage:
    """An image of uint8 (height, width, 3), stored as PNG."""
    return DecodedImage(image_id(rgb), png(rgb), "png", rgb)


def decode_stored(encoded: bytes, stored_format: str, stored_id: str) -> DecodedImage:
    """Decode an image of the `images` table again, for a signal that was added later."""
    return DecodedImage(stored_id, encoded, stored_format, _decode(_header(encoded)))


def released_file(encoded: bytes, stored_format: str) -> tuple[bytes, str]:
    """A stored file and its format; a PNG in place of a JPEG in which an older version kept more than its pixels."""
    if stored_format == "png" or is_pixels_alone(encoded):
        return encoded, stored_format
    return png(_decode(_header(encoded))), "png"


def require_within(what: str, value: int, most: int) -> None:
    """Raises ImageRejected when an image exceeds a limit."""
    if value > most:
        raise ImageRejected(RejectReason.IMAGE_TOO_LARGE, f"{value:,} {what}, at most {most:,} are read")


def _header(content: bytes) -> PIL.Image.Image:
    try:
        header = PIL.Image.open(_Reads(content), formats=FORMATS)
        require_within("pixels on the longer side", max(header.size), SIDE_MAX)
        require_within("pixels", header.width * header.height, PIXELS_MAX)
        frames = getattr(header, "n_frames", 1)
    except ImageRejected:
        raise
    except Exception as error:  # decoders raise errors of any type on hostile bytes
        raise ImageRejected(RejectReason.NOT_AN_IMAGE, type(error).__name__) from None
    if header.format == "PNG":
        _decode_transparent_colour(header)
    if header.format == "MPO":  # a phone's JPEG with previews after the image: the first frame is the image
        header.format = "JPEG"
    elif frames != 1:
        raise ImageRejected(RejectReason.IMAGE_ANIMATED, f"{frames} frames")
    if header.format == "JPEG":
        require_within("scans", len(_SCAN.findall(content)), _SCANS_MAX)
    return header


def _decode_transparent_colour(header: PIL.ImageFile.ImageFile) -> None:
    """Give the transparent colour of a PNG the levels of its decoded pixels; Pillow leaves it as the file states it."""
    colour = header.info.get("transparency")
    stored_form = str(header.tile[0].args) if header.tile else ""
    if isinstance(colour, int):
        header.info["transparency"] = colour * _GREY_STEPS.get(stored_form, 1)
    elif isinstance(colour, tuple) and stored_form == "RGB;16B":
        header.info["transparency"] = tuple(value >> 8 for value in colour)


def _orientation(header: PIL.Image.Image) -> int:
    try:
        value = header.getexif().get(0x0112, 1)
    except Exception:  # the EXIF data is broken; it is not kept anyway
        return 1
    return value if value in _TO_UPRIGHT else 1


def _decode(image: PIL.Image.Image) -> Pixels:
    try:
        image.load()
    except ImageRejected:
        raise
    except Exception as error:
        raise ImageRejected(RejectReason.IMAGE_TRUNCATED, type(error).__name__) from None
    rgb = _rgb(image)
    if (orientation := _orientation(image)) != 1:
        rgb = np.asarray(PIL.Image.fromarray(rgb).transpose(_TO_UPRIGHT[orientation]))
    rgb.flags.writeable = False
    return rgb


def _rgb(image: PIL.Image.Image) -> Pixels:
    """uint8 (height, width, 3), made of a strip at a time so that memory holds no second copy of a large image."""
    if image.mode == "F":
        raise ImageRejected(RejectReason.IMAGE_UNSUPPORTED, "floating-point pixels")
    shift = 8 if image.mode in _WIDE_GREY and int(np.asarray(image).max(initial=0)) > 255 else 0
    rgb = np.empty((image.height, image.width, 3), np.uint8)
    rows = max(1, _STRIP_PIXELS // image.width)
    for top in range(0, image.height, rows):
        strip = image.crop((0, top, image.width, min(top + rows, image.height)))
        rgb[top : top + rows] = np.asarray(_on_white(strip, shift))
    return rgb


def _on_white(image: PIL.Image.Image, shift: int) -> PIL.Image.Image:
    """RGB; `shift` is how many bits wide grey values have beyond 8."""
    if image.mode in _WIDE_GREY:
        levels = np.asarray(image)
        is_clear = levels == image.info.get("transparency", -1)
        image = PIL.Image.fromarray(np.where(is_clear, 255, np.clip(levels >> shift, 0, 255)).astype(np.uint8))
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        image = PIL.Image.new("RGBA", layer.size, "white")
        image.alpha_composite(layer)
    return image.convert("RGB")
