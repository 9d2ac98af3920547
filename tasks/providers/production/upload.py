"""Images as they are sent to a service: small enough for its limits, and nothing but pixels."""

import io
from dataclasses import dataclass, field

import PIL.Image

from tasks.images.decode import FORMATS, DecodedImage

SIDE_MAX = 1600
"""Longer side, in pixels, of what is sent; services shrink larger images themselves."""
BYTES_MAX = 1_500_000
"""Stored images above this are sent as JPEG."""
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


def for_upload(picture: DecodedImage) -> Upload:
    """The stored bytes when they are small and plain; else a JPEG of at most 1600 pixels a side, on white."""
    if max(picture.width, picture.height) <= SIDE_MAX and len(picture.encoded) <= BYTES_MAX and _is_plain(picture):
        return Upload(picture.encoded, f"image/{picture.format}", picture.width, picture.height)
    small = PIL.Image.fromarray(picture.fitted(SIDE_MAX))
    sink = io.BytesIO()
    small.save(sink, "JPEG", quality=_QUALITY)
    return Upload(sink.getvalue(), "image/jpeg", small.width, small.height)


def _is_plain(picture: DecodedImage) -> bool:
    """Whether every decoder shows the same: not so with transparency (on which ground?), CMYK or 16-bit channels."""
    header = PIL.Image.open(io.BytesIO(picture.encoded), formats=FORMATS)
    return header.mode in ("L", "RGB") and not header.has_transparency_data
