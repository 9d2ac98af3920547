"""Benchmarks that people write: items, captions and references of them, what people found, and what is released."""

from datetime import datetime
from enum import StrEnum

from schemas.row import Int32, Row

SAMPLED = "sampled"
"""Name of the benchmark that `curate sample` draws from the arena's prompts; no written one may have it."""
PEOPLE = "people"
"""Provider of captions and references that a person wrote."""
PUBLISHED = "published"
"""Rater of findings, and version of texts, that came with the items."""
AUTHOR = "written"
"""Model of the conversations that items become; no model answered them."""
VALIDATION_SHARE = 0.2
"""Share of items whose captions and references may be released, unless `--validation-share` says otherwise."""


class Split(StrEnum):
    """Part of an item that may leave the store. Instruction and images always may."""

    VALIDATION = "validation"
    """Its captions and its reference may be released."""
    HIDDEN = "hidden"
    """Its captions and its reference never leave the store."""


class WrittenBy(StrEnum):
    """Who wrote a caption or a reference."""

    PEOPLE = "people"
    """A person, or it came with the items."""
    MODEL = "model"
    """A model; nobody has changed it since."""


class Fault(StrEnum):
    """Where a person sees the fault of an incorrect item."""

    CAPTION = "caption"
    """A caption says too little to follow the instruction."""
    REFERENCE = "reference"
    """The captions suffice, and the reference is wrong."""


class WrittenItem(Row):
    """One item that people wrote: an instruction about one or more images. Its text is in `conversations`."""

    item_id: str
    """The conversation it became."""
    bench: str
    """The benchmark it belongs to."""
    family: str
    """Its instruction family, as in the families file."""
    images: Int32
    """Number of its images in the file it came from, also of those that could not be used."""
    image_names: list[str] | None = None
    """Hash of the file name of each image, by which a submission names the item; null in older rows."""
    licences: list[str]
    """Licence of each image, in order; empty where none is stated."""
    authors: list[str]
    """Author of each image, in order, as its licence asks to name; empty where none is stated."""
    origin: str
    """Where the item was taken from, as its file says; empty where it says nothing."""
    split: Split
    """Whether its captions and its reference may be released."""


class Caption(Row):
    """Text that a reader without the image needs to follow the instruction: one image of one item."""

    item_id: str
    """The conversation of the item."""
    document_id: str
    """Content id of the instruction with its images for which it was written; it holds for no other form of them."""
    place: Int32
    """Which of the item's images, from 0."""
    text: str
    """The caption."""
    written_by: WrittenBy
    """A person or a model; those of people come first."""
    provider: str
    """The model that wrote it; `people` for a person."""
    version: str
    """Changes with everything that decides a model's caption: model, settings, prompt, what it was given."""
    written_at: datetime
    """When it was stored (UTC); the latest of one author counts."""


class Reference(Row):
    """The answer to an instruction, written from captions and instruction and never from the images."""

    item_id: str
    """The conversation of the item."""
    document_id: str
    """Content id of the instruction with its images for which it was written."""
    text: str
    """The reference."""
    captions_id: str
    """Hash of the captions it was written from; once they change, it is stale and counts as missing."""
    written_by: WrittenBy
    """A person or a model; those of people come first."""
    provider: str
    """The model that wrote it; `people` for a person."""
    version: str
    """Changes with everything that decides a model's reference: model, settings, prompt."""
    written_at: datetime
    """When it was stored (UTC); the latest of one author counts."""


class ItemCheck(Row):
    """Findings of one person about one written item."""

    item_id: str
    """The conversation of the item."""
    reference_id: str
    """Content id of the reference that was judged; the finding holds for no other one."""
    rater: str
    """Keyed hash of the person; `published` for findings that came with the items."""
    correct: bool
    """Whether the reference is correct."""
    fault: Fault | None
    """Where the fault lies; null when it is correct, and when nobody said."""
    harmful: bool
    """Whether the reference is offensive or bad advice."""
