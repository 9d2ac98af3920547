"""Images as sent to a service: small enough for its limits and without metadata."""

import io
from dataclasses import dataclass, field

import PIL.Image

from tasks.images.decode import FORMATS, DecodedImage

SENT_SIDE_MAX = 1600
"""Longer side of a sent image in pixels; services shrink larger images themselves."""
STORED_BYTES_MAX = 1_500_000
"""Stored images above this are sent as JPEG."""
UPLOAD_SECONDS = 600.0
"""How long one upload or download of a batch may take."""
_QUALITY = 90


@dataclass(frozen=True)
class Upload:
    """One encoded image."""

    content: bytes = field(repr=False)
    """PNG or JPEG."""
    mime_type: str
    """image/png or image/jpeg."""
    width: int
    """Pixels as sent."""
    height: int
    """Pixels as sent."""


def for_upload(image: DecodedImage) -> Upload:
    """The stored bytes if they are small and plain; else a JPEG of at most 1600 pixels a side, on white."""
    if max(image.width, image.height) <= SENT_SIDE_MAX and len(image.encoded) <= STORED_BYTES_MAX and _is_plain(image):
        return Upload(image.encoded, f"image/{image.format}", image.width, image.height)
    small = PIL.Image.fromarray(image.fitted(SENT_SIDE_MAX))
    sink = io.BytesIO()
    small.save(sink, "JPEG", quality=_QUALITY)
    return Upload(sink.getvalue(), "image/jpeg", small.width, small.height)


def sent_size(width: int, height: int) -> tuple[int, int]:
    """Pixels as sent of an image of this size."""
    scale = min(1.0, SENT_SIDE_MAX / max(width, height))
    return max(1, round(width * scale)), max(1, round(height * scale))


def encoded_size(encoded: bytes) -> tuple[int, int]:
    """Width and height of a stored image in pixels, from its header."""
    width, height = PIL.Image.open(io.BytesIO(encoded), formats=FORMATS).size
    return width, height


def _is_plain(image: DecodedImage) -> bool:
    """Whether every decoder shows the same pixels; transparency, CMYK and 16-bit channels are shown differently."""
    header = PIL.Image.open(io.BytesIO(image.encoded), formats=FORMATS)
    return header.mode in ("L", "RGB") and not header.has_transparency_data
