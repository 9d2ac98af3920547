"""Small copies of stored images, for pages: plain ones, and some from which nothing can be recognised."""

import io

import PIL.Image

THUMB_SIDE_PIXELS = 256
_BLURRED_SIDE_PIXELS = 12
_PIXELS_MAX = 25_000_000
"""Larger images are not decoded, as at ingest."""
MEDIA_TYPE = "image/webp"


def thumb(content: bytes) -> bytes | None:
    """A copy of at most 256 pixels a side, as WebP; None for something that is not an image."""
    opened = _opened(content)
    if opened is None:
        return None
    opened.thumbnail((THUMB_SIDE_PIXELS, THUMB_SIDE_PIXELS))
    return _webp(opened)


def blurred(content: bytes) -> bytes | None:
    """A copy from which nothing can be recognised: 12 pixels a side, enlarged; the browser never gets the original."""
    opened = _opened(content)
    if opened is None:
        return None
    shape = opened.size
    opened.thumbnail((_BLURRED_SIDE_PIXELS, _BLURRED_SIDE_PIXELS))
    scale = min(1.0, THUMB_SIDE_PIXELS / max(shape))
    size = (max(1, round(shape[0] * scale)), max(1, round(shape[1] * scale)))
    return _webp(opened.resize(size, PIL.Image.Resampling.BICUBIC))


def media_type(content: bytes) -> str:
    """The type of an encoded image of a store or release, PNG or JPEG, or of a small copy."""
    if content.startswith(b"RIFF"):
        return MEDIA_TYPE
    return "image/png" if content.startswith(b"\x89PNG") else "image/jpeg"


def _opened(content: bytes) -> PIL.Image.Image | None:
    try:
        image = PIL.Image.open(io.BytesIO(content), formats=("PNG", "JPEG"))
        if image.width * image.height > _PIXELS_MAX:
            return None
        image.draft("RGB", (THUMB_SIDE_PIXELS, THUMB_SIDE_PIXELS))
        return image.convert("RGB")
    except Exception:  # decoders raise what they like
        return None


def _webp(image: PIL.Image.Image) -> bytes:
    sink = io.BytesIO()
    image.save(sink, "WEBP", quality=60, method=2)
    return sink.getvalue()
