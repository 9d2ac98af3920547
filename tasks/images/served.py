"""An upload as FastChat's server stores it: RGBA, longest edge at most 1024, PNG of at most 3.3 MB; and its name."""

import hashlib
import io
import math

import PIL.Image

_EDGE_MAX = 1024
_PNG_BYTES_MAX = 5 / 1.5 * 1024 * 1024


def as_served(image: PIL.Image.Image) -> PIL.Image.Image:
    """The image as the server keeps it, RGBA."""
    image = image.convert("RGBA")
    if (size := _server_size(*image.size)) != image.size:
        image = image.resize(size)
    if image.width * image.height * len(image.getbands()) > _PNG_BYTES_MAX:  # a PNG is smaller than its pixels
        image = _below_bytes_max(image)
    return image


def served_name(image: PIL.Image.Image) -> str:
    """The name in logs: 32 hex digits, MD5 of the RGBA pixels."""
    return hashlib.md5(image.tobytes(), usedforsecurity=False).hexdigest()


def _server_size(width: int, height: int) -> tuple[int, int]:
    """Size after FastChat's resize, which rounds down: 3000 x 2000 becomes 1023 x 682, and 61 x 7 becomes 60 x 7."""
    aspect = max(width, height) / min(width, height)
    shortest = int(min(_EDGE_MAX / aspect, _EDGE_MAX, min(width, height)))
    longest = int(shortest * aspect)
    if longest == max(width, height):
        return width, height
    return (longest, shortest) if width >= height else (shortest, longest)


def _below_bytes_max(image: PIL.Image.Image) -> PIL.Image.Image:
    """An image whose PNG is still too large, shrunk by the square root of the excess."""
    sink = io.BytesIO()
    image.save(sink, "PNG")
    if sink.tell() <= _PNG_BYTES_MAX:
        return image
    factor = math.sqrt(_PNG_BYTES_MAX / sink.tell())
    return image.resize((math.floor(image.width * factor), math.floor(image.height * factor)))
