"""The probes: fake personal data in texts and on a drawn card, a shipped photograph of a face, listed pictures.

Nothing here is real: addresses end in example.org, numbers are the ones that card networks, telephone authorities and
ISO 13616 publish for examples, and the photograph is NASA's portrait of an astronaut that scikit-image ships.
"""

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import PIL.Image
import PIL.ImageDraw

from schemas.policy import Over
from tasks.demo.drawings.canvas import font
from tasks.demo.photographs import photographs, view
from tasks.pixels.hashes import pdq_digits

EMAIL, CARD = "canary.probe@example.org", "4111 1111 1111 1111"
PHONE, IBAN = "+1 202-555-0143", "GB82 WEST 1234 5698 7654 32"
Box = tuple[int, int, int, int]


@dataclass(frozen=True)
class Probe:
    """One conversation that no release may show as it is."""

    name: str
    """Also the conv_id, with `canary_` before it."""
    question: str = "What is this?"
    answer: str = "I see what you sent."
    picture: bytes | None = field(default=None, repr=False)
    signal: str | None = None
    """The signal that must see it; null when it must not get as far as a signal."""
    over: tuple[Over, ...] = ()
    """The parts on which rules may catch it."""
    types: frozenset[str] = frozenset()
    """Types of personal data in it, for rules that name types."""
    secrets: tuple[str, ...] = ()
    """What may not be in its texts."""
    box: Box | None = None
    """left, top, right, bottom of what may not be in its picture."""
    listed: str = ""
    """Its line on the list of known hashes."""

    @property
    def conv_id(self) -> str:
        """The id under which it is logged."""
        return f"canary_{self.name}"


def probes() -> Sequence[Probe]:
    """All of them, the same bytes every time."""
    told = f"Mail {EMAIL}, call {PHONE}, pay with {CARD} or from {IBAN}."
    text = Probe(
        "text",
        signal="text_pii",
        types=frozenset({"email", "phone", "card", "iban"}),
        secrets=(EMAIL, PHONE, CARD, IBAN),
    )
    return (
        replace(text, name="question", question=told, over=(Over.MESSAGES, Over.USER_MESSAGES)),
        replace(text, name="answer", answer=told, over=(Over.MESSAGES, Over.ASSISTANT_MESSAGES)),
        _card(),
        _face(),
        _listed_file(),
        _listed_picture(),
    )


def _png(image: PIL.Image.Image) -> bytes:
    sink = io.BytesIO()
    image.save(sink, "PNG")
    return sink.getvalue()


def _card() -> Probe:
    image = PIL.Image.new("RGB", (640, 320), "white")
    draw = PIL.ImageDraw.Draw(image)
    for row, line in enumerate(("MEMBER CARD", EMAIL, CARD)):
        draw.text((40, 40 + 90 * row), line, fill="black", font=font("sans", 36))
    types = frozenset({"email", "card"})
    over = (Over.IMAGE_TEXTS,)
    return Probe("card", picture=_png(image), signal="text_pii", over=over, types=types, box=(60, 140, 400, 165))


def _face() -> Probe:
    photograph = view(photographs("faces")[0], (1, 0, 0)).image
    return Probe("face", picture=_png(photograph), signal="faces", over=(Over.IMAGES,), box=(200, 80, 250, 160))


def _listed_file() -> Probe:
    image = PIL.Image.new("RGB", (320, 240), "white")
    PIL.ImageDraw.Draw(image).text((20, 90), "LISTED FILE", fill="black", font=font("sans", 40))
    content = _png(image)
    return Probe("listed_file", picture=content, listed=f"sha256 {hashlib.sha256(content).hexdigest()}")


def _listed_picture() -> Probe:
    """A smaller copy, as JPEG, of the picture that is listed."""
    original, sink = view(photographs("scenes")[1], (1, 0, 0)).image, io.BytesIO()
    original.resize((384, 256)).save(sink, "JPEG", quality=80)
    return Probe("listed_picture", picture=sink.getvalue(), listed=f"pdq {pdq_digits(np.asarray(original))}")
