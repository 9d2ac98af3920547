"""What every message passes before anything is kept or sent: images alone, then the text of the whole conversation.

Images: size, lists of known images, decoding, a new file of the pixels alone, lists again, NSFW. The checks are the
pipeline's providers with the policy's thresholds. A provider that fails closes the admission; nobody is blamed for it.
"""

import hashlib
import io
import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from tasks.arena.conversations import Picture
from tasks.images.decode import DecodedImage, ImageRejected, open_image
from tasks.images.served import served, served_name
from tasks.providers.capabilities import Failed, ImageModerator, Moderator, NsfwClassifier

UPLOAD_BYTES_MAX = 20 * 1024 * 1024
_PNG_LEVEL = 3
Value = TypeVar("Value")
UNAVAILABLE = "A check that every message passes is not available now, so nothing was sent. Please try again later."
NSFW = "This image was not sent: it looks like pornography, which this arena does not take."
MODERATED = "This message was not sent: the moderation of this arena flags something in the conversation."
UNREADABLE = "This file was not sent: it is not one still image (PNG, JPEG, WebP, GIF or BMP) that can be read."
TOO_LARGE = "This image was not sent: it is too large. At most 20 MB and 25 million pixels are taken."
ENDED = "This conversation has ended. Start a new round."


class Refused(Exception):
    """A message that is not taken; the text tells the visitor why."""


class Ended(Refused):
    """A message with an image that is on a list of known images, which has ended its conversation."""


class KnownImage(Exception):
    """An upload that is on a list of known images."""

    def __init__(self, name: str, content: bytes) -> None:
        super().__init__(name)
        self.name = name
        self.content = content


class KnownImages(Protocol):
    """The operator's lists of known images (`tasks/ingest/known_images.py`)."""

    def holds_name(self, name: str) -> bool:
        """Whether a logged name is listed."""

    def holds_image(self, image: DecodedImage) -> bool:
        """Whether pixels are listed."""


@dataclass(frozen=True)
class Admission:
    """The checks of what visitors send. If a provider fails, the message is refused; no strike is recorded."""

    nsfw: NsfwClassifier
    nsfw_probability_max: float
    """Images with this probability or more are refused."""
    moderator: Moderator
    image_moderator: ImageModerator | None = None
    refused: Collection[str] = ()
    """Categories of texts that are refused, as the policy names them; empty means all."""
    refused_of_images: Collection[str] = ()
    """The same of images."""
    known: KnownImages | None = None
    holds_file: Callable[[bytes], bool] = lambda content: False
    """Whether the bytes of a file are on a list."""

    def picture(self, content: bytes, preset: str | None = None) -> Picture:
        """The image of an untrusted file. Raises Refused, or KnownImage before anything is decoded."""
        if len(content) > UPLOAD_BYTES_MAX:
            raise Refused(TOO_LARGE)
        if self.holds_file(content):
            raise KnownImage(hashlib.md5(content, usedforsecurity=False).hexdigest(), content)
        try:
            decoded = open_image(content)
            kept = served(decoded.pil)
        except ImageRejected as rejected:
            raise Refused(TOO_LARGE if "too_large" in str(rejected.reason) else UNREADABLE) from None
        except ValueError:  # so narrow that nothing would be left of its shorter side
            raise Refused(UNREADABLE) from None
        name = served_name(kept)
        if self.known is not None and (self.known.holds_name(name) or self.known.holds_image(decoded)):
            raise KnownImage(name, content)
        sink = io.BytesIO()
        kept.save(sink, "PNG", compress_level=_PNG_LEVEL)
        return Picture(name, sink.getvalue(), secrets.token_urlsafe(18), preset, self._checked(decoded))

    def _checked(self, decoded: DecodedImage) -> dict[str, object]:
        """What was measured. Raises Refused."""
        probability = _value(lambda: self.nsfw.nsfw_probabilities([decoded]))
        if not 0 <= probability <= 1:  # such as NaN, which is neither below nor above a threshold
            raise Refused(UNAVAILABLE)
        if probability >= self.nsfw_probability_max:
            raise Refused(NSFW)
        if self.image_moderator is None:
            return {"nsfw_probability": round(float(probability), 4)}
        moderator = self.image_moderator
        found = _value(lambda: moderator.moderate_images([decoded])).flagged_categories
        return {
            "nsfw_probability": round(float(probability), 4),
            "flagged_categories": _passed(found, self.refused_of_images),
        }

    def check_texts(self, texts: Sequence[str]) -> list[str] | None:
        """What the moderation flags in texts that pass; None without texts, as nothing was measured.

        Raises Refused when one of the texts has a category that the policy names, or could not be checked.
        """
        if not texts:
            return None
        found = _values(lambda: self.moderator.moderate(texts), len(texts))
        return _passed([category for each in found for category in each.flagged_categories], self.refused)


def _passed(found: Collection[str], refused: Collection[str]) -> list[str]:
    """The categories found, sorted, when none is refused. Raises Refused."""
    if set(found) & set(refused) if refused else found:
        raise Refused(MODERATED)
    return sorted(set(found))


def _value(ask: Callable[[], Sequence[Value | Failed]]) -> Value:
    return _values(ask, 1)[0]


def _values(ask: Callable[[], Sequence[Value | Failed]], count: int) -> list[Value]:
    try:
        found = list(ask())
    except Exception:  # providers raise what they like; without an answer the admission stays closed
        raise Refused(UNAVAILABLE) from None
    values = [each for each in found if not isinstance(each, Failed)]
    if len(values) != count or len(found) != count:
        raise Refused(UNAVAILABLE)
    return values
