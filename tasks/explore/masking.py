"""Masks personal data, blurs images that may show a person, and makes small copies of images."""

import io
from collections.abc import Sequence
from functools import cache, lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any

import PIL.Image
import PIL.ImageFilter
import polars as pl

from schemas.items.review import Stretch
from schemas.signals import TextPii
from tasks.explore.tolerant import TolerantTables
from tasks.storage.content_id import text_id
from tasks.storage.queries.repeated_values import Span

NOT_SEARCHED = "not searched for personal data yet"
if TYPE_CHECKING:  # slow to load, and pages without texts that nobody searched do not need it
    from tasks.providers.capabilities import PiiFinder

PII_TABLE = "signals/text_pii"
SEARCHED_CHARACTERS_MAX = 100_000
"""Longer texts are not searched while somebody waits for the page."""
_SEARCH = Lock()
NSFW_PROBABILITY_SAFE = 0.2
"""OpenNSFW's authors call images below it safe."""


def masked_parts(text: str, spans: Sequence[Span] | None, opened: bool) -> list[Stretch]:
    """The text in stretches; personal data is left out unless `opened`. `spans` is None for a text not searched yet."""
    if spans is None:
        return [Stretch(text if opened else "", NOT_SEARCHED)]
    parts, end = [], 0
    for span in sorted(spans, key=lambda each: int(each["start"])):
        start, stop = max(end, span["start"]), span["end"]
        if stop > start:
            parts += [Stretch(text[end:start]), Stretch(text[start:stop] if opened else "", span["type"])]
            end = stop
    return [part for part in [*parts, Stretch(text[end:])] if part.text or part.hidden]


def masked_text(text: str, spans: Sequence[Span] | None) -> str:
    """The text with types of personal data in place of it, for cards and searches."""
    return "".join(f"[{part.hidden}]" if part.hidden else part.text for part in masked_parts(text, spans, False))


def spans_found(tables: TolerantTables, text_ids: pl.Series) -> dict[str, list[dict[str, Any]]]:
    """Content id of a text -> the personal data found in it, for all texts that were searched.

    Empty when a part of the table cannot be read.
    """
    found = tables.latest("text_pii", ["spans"], text_ids, strict=True)
    return dict(found.select("content_id", "spans").iter_rows())


@lru_cache(4_096)
def searched_now(text: str) -> list[dict[str, Any]] | None:
    """Personal data in a text that no run has searched, by the embedded finder; None for a text that is too long.

    The first call loads the finder, which takes seconds.
    """
    from tasks.signals.registry import text_pii

    if len(text) > SEARCHED_CHARACTERS_MAX:
        return None
    with _SEARCH:
        (found,) = text_pii(_finder(), [text])
    return [span.model_dump() for span in found.spans] if isinstance(found, TextPii) else None


@cache
def _finder() -> "PiiFinder":
    from tasks.providers import Providers

    finder: PiiFinder = Providers({})["text_pii"]
    return finder


def blurred_images(tables: TolerantTables) -> dict[str, str]:
    """Image id -> why it is blurred; images that are not blurred have an empty text, and those not measured none.

    Where a part of a table cannot be read, nothing counts as measured.
    """
    nsfw = tables.latest("nsfw", ["nsfw_probability"], strict=True)
    faces = tables.latest("faces", ["confidence_max"], strict=True)
    read = tables.latest("image_text", ["text"], strict=True)
    harmful = tables.latest("image_moderation", ["flagged_categories"])
    if "signals/image_moderation" in tables.damaged:
        return {}
    texts = {text_id(text): image_id for image_id, text in read.iter_rows() if text}
    searched = spans_found(tables, pl.Series(list(texts), dtype=pl.String))
    personal = {image_id for key, image_id in texts.items() if searched.get(key, True)}
    flagged = set(harmful.filter(pl.col("flagged_categories").list.len() > 0)["content_id"])
    measured = nsfw.join(faces, on="content_id").join(read.select("content_id"), on="content_id", how="semi")
    why = {}
    for image_id, probability, confidence in measured.iter_rows():
        found = [
            "perhaps nudity" if probability >= NSFW_PROBABILITY_SAFE else "",
            "perhaps a face" if confidence > 0 else "",
            "perhaps personal data in its text" if image_id in personal else "",
            "flagged as harmful" if image_id in flagged else "",
        ]
        why[image_id] = ", ".join(filter(None, found))
    return why


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
