"""Signals: what is measured about one image, text or document. No thresholds here.

A stored row is `SignalKey` plus the columns of one value type below.
"""

from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from schemas.benches.bench import FailureLabel
from schemas.row import Float32, FloatVector, Int32, Row
from schemas.tags import Categories, Criteria, Taxonomy

PERSON, EXERCISE_NAME = "person", "exercise_name"
"""Types of a name in a text: of somebody, and of somebody made up for an exercise."""


class MeasuredOn(StrEnum):
    """Kind of item that a signal is measured on."""

    IMAGES = "images"
    MESSAGES = "messages"
    ASSISTANT_MESSAGES = "assistant_messages"
    PROMPT = "prompt"
    """All user messages of a conversation, joined by blank lines."""
    DOCUMENTS = "documents"
    """A prompt together with its images."""
    FAILURES = "failures"
    """Such a prompt that several people saw models fail (table `failures`)."""
    ITEM_IMAGES = "item_images"
    """Images of kept items of written benchmarks."""


class SignalEntry(NamedTuple):
    """Description of a signal: one line of `BUILT_IN_SIGNALS`, or the entry of another package."""

    value: type[Row]
    """Columns of the stored value."""
    on: MeasuredOn
    screens: bool = True
    """True: measured on all items, so that policy rules can use it. False: measured only on kept items."""
    version: str = ""
    """Version of a signal from another package; built-in signals have theirs in their code."""
    rule: Callable[[Any], Row] | None = None
    """Function from one item to its value, for a signal from another package. If it raises, the item has no value."""
    package: str = ""
    """Name of the package; empty for built-in signals."""


class SignalKey(Row):
    """Columns that every signal has: item, version, provider, time."""

    content_id: str
    """Content id of the image, text or document."""
    version: str
    """Version of code, model and prompt; items are measured again when it changes."""
    provider: str
    """Provider that measured it."""
    measured_at: datetime
    """When it was measured (UTC)."""


class Nsfw(Row):
    """How likely an image is pornographic."""

    nsfw_probability: Float32
    """0 to 1; OpenNSFW's authors call below 0.2 safe and above 0.8 unsafe."""


class Face(Row):
    """One human face."""

    box: list[Int32]
    """x, y, width, height in pixels of the stored image."""
    confidence: Float32
    """0 to 1."""


class Faces(Row):
    """Human faces in an image."""

    faces: list[Face]
    """All faces found, strongest first."""
    confidence_max: Float32
    """Confidence of the strongest face; 0 when none was found."""
    area_fraction_max: Float32
    """Largest face box as a fraction of the image's area; 0 when none was found."""


class ImageHash(Row):
    """Perceptual hashes of an image."""

    phash: str
    """64-bit DCT hash, 16 hex digits, bit order of the imagehash package."""
    pdq: str
    """256-bit PDQ hash, 64 hex digits, Meta's bit order."""
    pdq_quality: Int32
    """0 to 100; below 50 the PDQ hash should not be matched (ThreatExchange)."""
    grey: str
    """Grey thumbnail of 32 x 32 pixels, row by row, 2,048 hex digits; the DCT hash is computed from it."""


class ImageInside(Row):
    """Hashes of what lies inside an image's even margins, by which a picture with a frame or in a screenshot is known.

    All are null for an image without such margins, and for one that is even all over.
    """

    phash: str | None
    """64-bit DCT hash, 16 hex digits."""
    pdq: str | None
    """256-bit PDQ hash, 64 hex digits."""
    grey: str | None
    """Grey thumbnail of 32 x 32 pixels, 2,048 hex digits."""


class ImageColour(Row):
    """Colours of an image without its brightness; the hashes see brightness alone."""

    chroma: str
    """Cb and Cr (JPEG's, 128 is grey) of each cell of a 16 x 16 thumbnail, row by row, 1,024 hex digits."""


class ImageLayout(Row):
    """Colour statistics that separate drawings, documents and photographs."""

    flat_fraction: Float32
    """Share of pixels equal to the most common colour, to within 8 levels of 255 per channel."""
    colour_count: Int32
    """Distinct colours of the 64-pixel thumbnail at 4 bits a channel."""
    saturation_mean: Float32
    """Mean of (max - min) / 255 over the channels, 0 grey to 1."""
    ink_fraction: Float32
    """Share of pixels whose brightness differs by more than 96 levels from the most common brightness."""


class Objects(Row):
    """Objects in an image."""

    names: list[str]
    """Names of objects, each once, the most certain first; empty when none is certain enough."""


class TextBox(Row):
    """Position of one line, word or code of an image's text."""

    box: list[Int32]
    """x, y, width, height in pixels of the stored image."""
    start: Int32
    """First character of `text`, counted in Unicode code points."""
    end: Int32
    """One past the last character."""


class ImageText(Row):
    """Text read in an image (OCR), and what its QR and bar codes hold."""

    text: str
    """All lines, top to bottom, then the text of each code, joined by newlines; empty when there are none."""
    line_count: Int32
    """Number of lines; codes have none."""
    area_fraction: Float32
    """Share of the image's area covered by text boxes."""
    boxes: list[TextBox]
    """An axis-aligned box for every line, word or code of `text`."""


class Embedding(Row):
    """A unit vector."""

    vector: FloatVector
    """float32 (dimension,), norm 1; the version names the model."""


class PiiSpan(Row):
    """One piece of personal data in a text."""

    type: str
    """email, phone, card, iban, ip, national_id, passport, person, address, url_credentials, api_key;
    exercise_name for a name that an exercise or a list of options makes up. ip is a hardware address too, address a
    place given by its coordinates, api_key every key, token, password or private key, iban every account of a bank and
    every wallet, national_id also a licence, a number plate or a date of birth."""
    start: Int32
    """First character, counted in Unicode code points."""
    end: Int32
    """One past the last character."""
    confidence: Float32
    """0 to 1; 1 when confirmed by a checksum or a full pattern."""


class TextPii(Row):
    """Personal data in a text."""

    spans: list[PiiSpan]
    """All findings in the text, in order, without overlaps."""
    types: list[str]
    """Distinct types, sorted."""


class CategoryScore(Row):
    """Score of a text or image in one category of harm."""

    category: str
    """OpenAI's name, such as harassment, hate/threatening, self-harm or sexual/minors."""
    score: Float32
    """0 to 1; for a long text, the maximum over its parts."""


class Moderation(Row):
    """How likely a text or image is harmful, and in which category."""

    flagged_probability: Float32
    """0 to 1: highest category score, or probability of offensive words; for a long text, the maximum of its parts."""
    flagged_categories: list[str]
    """Categories that the provider flags, sorted; empty for the embedded provider, which has no categories."""
    category_scores: list[CategoryScore]
    """All categories by name; empty for the embedded provider and for a text without visible characters."""


class Language(Row):
    """The language of a text."""

    language: str
    """ISO 639 code, or unknown."""
    confidence: Float32
    """0 to 1; 0 for unknown."""


class Tokens(Row):
    """Length of a text as language models count it."""

    tokens: Int32
    """Tokens of the cl100k_base vocabulary (gpt-3.5-turbo, gpt-4)."""


class ServiceText(Row):
    """Messages of the serving software in place of a user or model message."""

    kinds: list[str]
    """moderation_notice, network_error, rate_limit, conversation_limit, inactivity, api_error, error_code, cursor,
    printed_object."""


class ModelNames(Row):
    """Model or vendor names that reveal which model answers."""

    names: list[str]
    """Names found, sorted: distinctive names anywhere, ordinary words only in self-introductions."""


class UpstreamWords(Row):
    """Substrings that FastChat's cleaner finds in the lower-cased text."""

    identity: list[str]
    """Words that reveal a model, without regard to context."""
    errors: list[str]
    """Error texts of the serving software."""
    unfinished: list[str]
    """Marks of an unfinished answer."""


class Markdown(Row):
    """Markdown elements outside fenced code."""

    h1: Int32
    """Level-1 headers."""
    h2: Int32
    """Level-2 headers."""
    h3: Int32
    """Level-3 headers."""
    h4: Int32
    """Level-4 headers."""
    h5: Int32
    """Level-5 headers."""
    h6: Int32
    """Level-6 headers."""
    ordered: Int32
    """Ordered list items."""
    unordered: Int32
    """Unordered list items."""
    bold_stars: Int32
    """Bold passages written with two stars."""
    bold_underscores: Int32
    """Bold passages written with two underscores."""


class NamedEntities(Row):
    """How specific a message is."""

    entities: Int32 | None
    """Distinct named entities outside of code; null in a language without a model."""


class Code(Row):
    """Whether a message, or the text in an image, contains or asks for program code."""

    is_code: bool
    """True when FastChat's code rule or one of our additional patterns matches."""


class Refusal(Row):
    """Whether an answer declines to answer."""

    refusal: bool
    """True when the answer declines."""


_IMAGES, _MESSAGES, _ANSWERS, _PROMPT, _DOCUMENTS, _FAILURES, _ITEM_IMAGES = MeasuredOn

BUILT_IN_SIGNALS: dict[str, SignalEntry] = {
    "nsfw": SignalEntry(Nsfw, _IMAGES),
    "faces": SignalEntry(Faces, _IMAGES),
    "image_hash": SignalEntry(ImageHash, _IMAGES),
    "image_colour": SignalEntry(ImageColour, _IMAGES),
    "image_inside": SignalEntry(ImageInside, _IMAGES),
    "image_layout": SignalEntry(ImageLayout, _IMAGES),
    "image_text": SignalEntry(ImageText, _IMAGES),
    "image_embedding": SignalEntry(Embedding, _IMAGES),
    "image_moderation": SignalEntry(Moderation, _IMAGES),
    "text_pii": SignalEntry(TextPii, _MESSAGES),
    "moderation": SignalEntry(Moderation, _MESSAGES),
    "service_text": SignalEntry(ServiceText, _MESSAGES),
    "model_names": SignalEntry(ModelNames, _ANSWERS),
    "upstream_words": SignalEntry(UpstreamWords, _MESSAGES),
    "language": SignalEntry(Language, _PROMPT),
    "text_embedding": SignalEntry(Embedding, _PROMPT),
    "objects": SignalEntry(Objects, _ITEM_IMAGES, screens=False),
    "tokens": SignalEntry(Tokens, _MESSAGES, screens=False),
    "markdown": SignalEntry(Markdown, _ANSWERS, screens=False),
    "named_entities": SignalEntry(NamedEntities, _ANSWERS, screens=False),
    "code": SignalEntry(Code, _MESSAGES, screens=False),
    "refusal": SignalEntry(Refusal, _ANSWERS, screens=False),
    "categories": SignalEntry(Categories, _DOCUMENTS, screens=False),
    "criteria": SignalEntry(Criteria, _DOCUMENTS, screens=False),
    "taxonomy": SignalEntry(Taxonomy, _DOCUMENTS, screens=False),
    "failure_types": SignalEntry(FailureLabel, _FAILURES, screens=False),
}
"""Signals of this repository: value type, what it is measured on and when (`tasks/signals/registry.py` says how)."""
