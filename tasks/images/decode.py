"""Decodes an image file once; every signal is computed from the result.

An image is identified by its RGB pixels with EXIF orientation applied and transparency composited on white, so copies
with other file names, containers or EXIF orientations are the same image.
"""

import io
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import PIL.Image

from schemas.reject import RejectReason
from tasks.images.metadata import strip_metadata
from tasks.storage.content_id import image_id

Pixels = npt.NDArray[np.uint8]
Filter = PIL.Image.Resampling

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
PIXELS_MAX = 100_000_000
"""Largest image that is decoded: 300 MB of pixels. Pillow's own limit only warns below twice its value."""
_WIDE_GREY = {"I;16", "I;16B", "I;16L", "I"}
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

PIL.Image.MAX_IMAGE_PIXELS = None  # the header is checked against PIXELS_MAX before anything is decoded


class ImageRejected(Exception):
    """An image that cannot be used, with the reject reason and a short explanation without personal data."""

    def __init__(self, reason: RejectReason, evidence: str) -> None:
        super().__init__(f"{reason}: {evidence}")
        self.reason = reason
        self.evidence = evidence


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
        """The same pixels as a Pillow image, RGB."""
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


def open_image(content: bytes) -> DecodedImage:
    """Decode an untrusted file. Raises ImageRejected unless it is one complete, still image."""
    if not content:
        raise ImageRejected(RejectReason.IMAGE_EMPTY, "0 bytes")
    header = _header(content)
    file_format, orientation = str(header.format), _orientation(header)
    encoded = strip_metadata(content, file_format) if orientation == 1 else None
    rgb = _decode(content if encoded is None else encoded, orientation)
    if encoded is None:
        sink = io.BytesIO()
        PIL.Image.fromarray(rgb).save(sink, "PNG")
        encoded, file_format = sink.getvalue(), "PNG"
    return DecodedImage(image_id(rgb), encoded, file_format.lower(), rgb)


def decode_stored(encoded: bytes, stored_format: str, stored_id: str) -> DecodedImage:
    """Decode an image of the `images` table again, for a signal that was added later."""
    return DecodedImage(stored_id, encoded, stored_format, _decode(encoded, 1))


def _header(content: bytes) -> PIL.Image.Image:
    try:
        header = PIL.Image.open(io.BytesIO(content), formats=FORMATS)
        frames = getattr(header, "n_frames", 1)
    except Exception as error:  # decoders raise errors of any type on hostile bytes
        raise ImageRejected(RejectReason.IMAGE_NOT_A_PICTURE, type(error).__name__) from None
    width, height = header.size
    if width * height > PIXELS_MAX:
        evidence = f"{width} x {height} pixels, at most {PIXELS_MAX:,} are decoded"
        raise ImageRejected(RejectReason.IMAGE_TOO_LARGE, evidence)
    if header.format == "MPO":  # a phone's JPEG with previews after the image: the first frame is the image
        header.format = "JPEG"
    elif frames != 1:
        raise ImageRejected(RejectReason.IMAGE_ANIMATED, f"{frames} frames")
    return header


def _orientation(header: PIL.Image.Image) -> int:
    try:
        value = header.getexif().get(0x0112, 1)
    except Exception:  # the EXIF data is broken; it is not kept anyway
        return 1
    return value if value in _TO_UPRIGHT else 1


def _decode(content: bytes, orientation: int) -> Pixels:
    try:
        image: PIL.Image.Image = PIL.Image.open(io.BytesIO(content), formats=FORMATS)
        image.load()
    except Exception as error:
        raise ImageRejected(RejectReason.IMAGE_TRUNCATED, type(error).__name__) from None
    rgb = _rgb(image)
    if orientation != 1:
        rgb = np.asarray(PIL.Image.fromarray(rgb).transpose(_TO_UPRIGHT[orientation]))
    rgb.flags.writeable = False
    return rgb


def _rgb(image: PIL.Image.Image) -> Pixels:
    if image.mode in _WIDE_GREY:
        grey = np.asarray(image)
        shift = 8 if int(grey.max(initial=0)) > 255 else 0
        image = PIL.Image.fromarray(np.clip(grey >> shift, 0, 255).astype(np.uint8))
    if image.mode == "F":
        raise ImageRejected(RejectReason.IMAGE_UNSUPPORTED, "floating-point pixels")
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        image = PIL.Image.new("RGBA", layer.size, "white")
        image.alpha_composite(layer)
    return np.asarray(image if image.mode == "RGB" else image.convert("RGB"))
