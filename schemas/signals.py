"""Signals: what is measured about one image, text or document. No thresholds here.

A stored row is `SignalKey` plus the columns of one value type below.
"""

from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from schemas.row import Float32, FloatVector, Int32, Row


class MeasuredOn(StrEnum):
    """What a signal is measured on."""

    IMAGES = "images"
    MESSAGES = "messages"
    ASSISTANT_MESSAGES = "assistant_messages"
    PROMPT = "prompt"
    """All user messages of a conversation, joined by blank lines."""
    DOCUMENTS = "documents"
    """A prompt together with its images."""


class SignalEntry(NamedTuple):
    """One line of the registry of signals (`schemas/tables.py`)."""

    value: type[Row]
    """Columns of the stored value."""
    on: MeasuredOn
    screens: bool = True
    """Whether it is measured on everything, so that a policy may ask about it; else only on what a policy keeps."""
    version: str = ""
    """Version of the rule of a signal from another package; signals of this one have theirs beside their code."""
    rule: Callable[[Any], Row] | None = None
    """The value of one item, for a signal from another package. It may raise; the item then has no value."""
    package: str = ""
    """The package that it comes from; empty for signals of this one."""


class SignalKey(Row):
    """What a stored value is about and where it comes from."""

    content_id: str
    """Content id of the picture, text or document."""
    version: str
    """Version of code, model and prompt together; another version is measured again."""
    provider: str
    """Provider that measured it."""
    measured_at: datetime
    """When it was measured (UTC)."""


class Nsfw(Row):
    """How likely a picture is pornographic."""

    nsfw_probability: Float32
    """0 to 1; OpenNSFW's authors call below 0.2 safe and above 0.8 unsafe."""


class Face(Row):
    """One human face."""

    box: list[Int32]
    """x, y, width, height in pixels of the stored picture."""
    confidence: Float32
    """0 to 1."""


class Faces(Row):
    """Human faces in a picture."""

    faces: list[Face]
    """All faces found, strongest first."""
    confidence_max: Float32
    """Confidence of the strongest face; 0 when none was found."""
    area_fraction_max: Float32
    """Largest face box as a fraction of the picture's area; 0 when none was found."""


class ImageHash(Row):
    """Perceptual hashes of a picture."""

    phash: str
    """64-bit DCT hash, 16 hex digits, bit order of the imagehash package."""
    pdq: str
    """256-bit PDQ hash, 64 hex digits, Meta's bit order."""
    pdq_quality: Int32
    """0 to 100; below 50 the PDQ hash should not be matched (ThreatExchange)."""
    grey: str
    """Brightness of the picture shrunk to 32 x 32, row by row, 2,048 hex digits: what the DCT hash is made of."""


class ImageLayout(Row):
    """What tells drawings, documents and photographs apart."""

    flat_fraction: Float32
    """Share of pixels equal to the most common colour, to within 8 levels of 255 per channel."""
    colour_count: Int32
    """Distinct colours of the 64-pixel thumbnail at 4 bits a channel."""
    saturation_mean: Float32
    """Mean of (max - min) / 255 over the channels, 0 grey to 1."""
    ink_fraction: Float32
    """Share of pixels whose brightness differs by more than 96 levels from the most common one."""


class TextBox(Row):
    """Where one stretch of a picture's text stands."""

    box: list[Int32]
    """x, y, width, height in pixels of the stored picture."""
    start: Int32
    """First character of `text`, counted in Unicode code points."""
    end: Int32
    """One past the last character."""


class ImageText(Row):
    """Text that can be read in a picture."""

    text: str
    """All lines, top to bottom, joined by newlines; empty when there are none."""
    line_count: Int32
    """Number of lines."""
    area_fraction: Float32
    """Share of the picture's area covered by text boxes."""
    boxes: list[TextBox]
    """A box for every line or word of `text`, upright around it however it is turned."""


class Embedding(Row):
    """A unit vector."""

    vector: FloatVector
    """float32 (dimension,), length 1; the version names the model."""


class PiiSpan(Row):
    """One piece of personal data in a text."""

    type: str
    """email, phone, card, iban, ip, national_id, passport, person, address, url_credentials, api_key."""
    start: Int32
    """First character, counted in Unicode code points."""
    end: Int32
    """One past the last character."""
    confidence: Float32
    """0 to 1; 1 when a checksum or a full pattern confirms it."""


class TextPii(Row):
    """Personal data in a text."""

    spans: list[PiiSpan]
    """Every finding in the whole text, in order, without overlaps."""
    types: list[str]
    """Distinct types, sorted."""


class CategoryScore(Row):
    """How much a text or picture belongs to one kind of harm."""

    category: str
    """OpenAI's name, such as harassment, hate/threatening, self-harm or sexual/minors."""
    score: Float32
    """0 to 1; of a text, the highest of all its stretches."""


class Moderation(Row):
    """How likely a text or picture is harmful, and in which way."""

    flagged_probability: Float32
    """0 to 1: the highest category score, or the probability of offensive words; of a text, in its worst stretch."""
    flagged_categories: list[str]
    """Categories the provider itself flags, sorted; empty from the embedded provider, which names none."""
    category_scores: list[CategoryScore]
    """Every category by name; empty from the embedded provider, and for a text without a visible character."""


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
    """Texts of the serving software that stand where a message should be."""

    kinds: list[str]
    """moderation_notice, network_error, rate_limit, conversation_limit, inactivity, api_error, error_code, cursor."""


class ModelNames(Row):
    """Model or vendor names that reveal who answers."""

    names: list[str]
    """Names found by our rule, sorted: distinctive names anywhere, ordinary words only in self-introductions."""


class UpstreamWords(Row):
    """What FastChat's cleaner finds as plain substrings of a lower-cased text."""

    identity: list[str]
    """Words that give a model away, whatever they mean where they stand."""
    errors: list[str]
    """Texts of the serving software."""
    unfinished: list[str]
    """Marks of an answer that was still being written."""


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
    """Bold runs written with two stars."""
    bold_underscores: Int32
    """Bold runs written with two underscores."""


class NamedEntities(Row):
    """How specific a message is."""

    entities: Int32
    """Distinct names outside code, headings and labels, by capitals; near 0 in scripts without upper case."""


class Code(Row):
    """Whether a message contains or asks for program code."""

    is_code: bool
    """FastChat's code rule and more of its kind."""


class Refusal(Row):
    """Whether an answer declines to answer."""

    refusal: bool
    """True when the answer declines."""
