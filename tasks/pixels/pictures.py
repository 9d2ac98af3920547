"""A picture, decoded once. Whoever needs pixels, for whatever signal, gets them from here.

Identity is the decoded RGB pixels with orientation applied and transparency composited on white, so the
same picture under two names, containers or EXIF orientations is one picture.
"""

import io
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import PIL.Image
import simplejpeg

from schemas.reject import RejectReason
from tasks.content_id import image_id
from tasks.pixels.metadata import strip_metadata
from tasks.pixels.resample import Columns, on_its_side, resized, resized_grey, resized_with_grey
from tasks.pixels.resample_plan import Box, Filter

Pixels = npt.NDArray[np.uint8]

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
PIXELS_MAX = 100_000_000
"""Largest picture that is decoded: 300 MB of pixels. Pillow's own limit only warns below twice its value."""
_PLAIN_SPACES = {"YCbCr", "RGB", "Gray"}
"""Colour spaces of JPEG that decode to RGB in one way only."""
_GLIMPSE_SIDE = 384
"""Pixels of the shorter side that a glimpse leaves at least."""
_WIDE_GREY = {"I;16", "I;16B", "I;16L", "I"}
_SMALL = (32, 32), Filter.LANCZOS
_TO_UPRIGHT = {
    2: PIL.Image.Transpose.FLIP_LEFT_RIGHT,
    3: PIL.Image.Transpose.ROTATE_180,
    4: PIL.Image.Transpose.FLIP_TOP_BOTTOM,
    5: PIL.Image.Transpose.TRANSPOSE,
    6: PIL.Image.Transpose.ROTATE_270,
    7: PIL.Image.Transpose.TRANSVERSE,
    8: PIL.Image.Transpose.ROTATE_90,
}
"""EXIF orientation -> what turns the stored pixels upright. 1 is upright."""

PIL.Image.MAX_IMAGE_PIXELS = None  # the header is checked against PIXELS_MAX before anything is decoded


class PictureRejected(Exception):
    """A picture that cannot be used, with the reject reason and a few words that hold no personal data."""

    def __init__(self, reason: RejectReason, evidence: str) -> None:
        super().__init__(f"{reason}: {evidence}")
        self.reason = reason
        self.evidence = evidence


@dataclass(frozen=True)
class Picture:
    """One decoded picture."""

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

    @cached_property
    def columns(self) -> Columns:
        """The same pixels on their side."""
        return on_its_side(self.rgb)

    @cached_property
    def small_grey(self) -> Pixels:
        """uint8 (32, 32): the brightness, shrunk as imagehash shrinks it."""
        return resized_grey(self.rgb, *_SMALL)

    def resized(self, size: tuple[int, int], kernel: Filter, crop: Box | None = None) -> Pixels:
        """uint8 (height, width, 3): as `resample.resized`; the first one makes `small_grey` in the same pass."""
        if "small_grey" in self.__dict__:
            return resized(self.rgb, size, kernel, crop)
        made, self.__dict__["small_grey"] = resized_with_grey(self.rgb, size, kernel, crop, *_SMALL)
        return made

    def fitted(self, side_max: int) -> Pixels:
        """uint8 (height, width, 3): shrunk, never enlarged, until the longer side is at most `side_max` pixels."""
        scale = side_max / max(self.width, self.height)
        if scale >= 1:
            return self.rgb
        size = (max(1, round(self.width * scale)), max(1, round(self.height * scale)))
        return self.resized(size, Filter.BILINEAR)


def open_picture(content: bytes) -> Picture:
    """Decode an untrusted file, once. Raises PictureRejected for anything that is not one whole, still picture."""
    rgb, kept, file_format = _opened(content)
    if kept is None:
        kept, file_format = _png(rgb), "PNG"
    return Picture(image_id(rgb), kept, file_format.lower(), rgb)


def small_grey_of(content: bytes) -> Pixels:
    """The `small_grey` of an untrusted file, without its content id. Raises PictureRejected as `open_picture` does."""
    return resized_grey(_opened(content)[0], *_SMALL)


def decode_stored(encoded: bytes, stored_format: str, stored_id: str) -> Picture:
    """A picture of the `images` table, decoded again because a signal was added later."""
    return Picture(stored_id, encoded, stored_format, _decode(encoded, stored_format.upper(), 1))


def glimpse(content: bytes) -> Pixels | None:
    """Nearly the `small_grey` of a file, uint8 (32, 32); None of what is no whole, plain JPEG.

    Only the brightness is decoded, and of large pictures only as much as is needed.
    """
    try:
        header = _header(content)
        if header.format != "JPEG" or simplejpeg.decode_jpeg_header(content)[2] not in _PLAIN_SPACES:
            return None
        side = _GLIMPSE_SIDE
        grey = simplejpeg.decode_jpeg(content, "GRAY", min_height=side, min_width=side, min_factor=2)[:, :, 0]
    except (PictureRejected, ValueError):
        return None
    return resized_grey(_upright(grey, _orientation(header)), *_SMALL)


def _opened(content: bytes) -> tuple[Pixels, bytes | None, str]:
    """Pixels, the file without metadata where that is lossless, and its format."""
    if not content:
        raise PictureRejected(RejectReason.IMAGE_EMPTY, "0 bytes")
    header = _header(content)
    file_format = str(header.format)
    orientation = _orientation(header)
    kept = strip_metadata(content, file_format) if orientation == 1 else None
    return _decode(content if kept is None else kept, file_format, orientation), kept, file_format


def _header(content: bytes) -> PIL.Image.Image:
    try:
        header = PIL.Image.open(io.BytesIO(content), formats=FORMATS)
        frames = getattr(header, "n_frames", 1)
    except Exception as error:  # decoders raise whatever they like on hostile bytes
        raise PictureRejected(RejectReason.IMAGE_NOT_A_PICTURE, type(error).__name__) from None
    width, height = header.size
    if width * height > PIXELS_MAX:
        evidence = f"{width} x {height} pixels, at most {PIXELS_MAX:,} are decoded"
        raise PictureRejected(RejectReason.IMAGE_TOO_LARGE, evidence)
    if header.format == "MPO":  # a phone's JPEG with previews behind it: the first picture is the picture
        header.format = "JPEG"
    elif frames != 1:
        raise PictureRejected(RejectReason.IMAGE_ANIMATED, f"{frames} frames")
    return header


def _orientation(header: PIL.Image.Image) -> int:
    try:
        value = header.getexif().get(0x0112, 1)
    except Exception:  # broken EXIF says nothing about orientation, and is not kept
        return 1
    return value if value in _TO_UPRIGHT else 1


def _decode(content: bytes, file_format: str, orientation: int) -> Pixels:
    rgb = _fast_jpeg(content) if file_format == "JPEG" else None
    if rgb is None:
        rgb = _rgb(_loaded(content))
    rgb = _upright(rgb, orientation)
    rgb.flags.writeable = False
    return rgb


def _upright(pixels: Pixels, orientation: int) -> Pixels:
    if orientation == 1:
        return pixels
    return np.asarray(PIL.Image.fromarray(pixels).transpose(_TO_UPRIGHT[orientation]))


def _fast_jpeg(content: bytes) -> Pixels | None:
    """What Pillow would decode, in two thirds of the time: both hold libjpeg-turbo, at the same settings.

    None for whatever the decoder so much as warns about (damage, a missing end) and for CMYK: Pillow judges those.
    """
    try:
        space = simplejpeg.decode_jpeg_header(content)[2]
        return simplejpeg.decode_jpeg(content) if space in _PLAIN_SPACES else None
    except ValueError:
        return None


def _loaded(content: bytes) -> PIL.Image.Image:
    try:
        image: PIL.Image.Image = PIL.Image.open(io.BytesIO(content), formats=FORMATS)
        image.load()
    except Exception as error:
        raise PictureRejected(RejectReason.IMAGE_TRUNCATED, type(error).__name__) from None
    return image


def _rgb(image: PIL.Image.Image) -> Pixels:
    if image.mode in _WIDE_GREY:
        grey = np.asarray(image)
        shift = 8 if int(grey.max(initial=0)) > 255 else 0
        image = PIL.Image.fromarray(np.clip(grey >> shift, 0, 255).astype(np.uint8))
    if image.mode == "F":
        raise PictureRejected(RejectReason.IMAGE_UNSUPPORTED, "floating-point pixels")
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        image = PIL.Image.new("RGBA", layer.size, "white")
        image.alpha_composite(layer)
    return np.asarray(image if image.mode == "RGB" else image.convert("RGB"))


def _png(rgb: Pixels) -> bytes:
    sink = io.BytesIO()
    PIL.Image.fromarray(rgb).save(sink, "PNG")
    return sink.getvalue()
