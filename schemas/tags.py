"""Tags: what a prompt with its images asks for, and how suitable it is for a benchmark. One row per document.

Adding a field to `Categories` registers a tag: its type says what the tagger is shown. The definition for language
models is `tasks/prompts/tags/<field>.md`.
"""

from enum import StrEnum
from typing import Annotated

from schemas.row import Row


class Sees(StrEnum):
    """Parts of a conversation that the tagger is shown, as in the paper's best taggers (VisionArena sec. 4.1)."""

    PROMPT = "prompt"
    IMAGES = "images"
    BOTH = "prompt and images"


FromPrompt = Annotated[bool | None, Sees.PROMPT]
"""A tag that is decided from the prompt alone."""
FromImages = Annotated[bool | None, Sees.IMAGES]
"""A tag that is decided from the images alone; false without images."""
FromBoth = Annotated[bool | None, Sees.BOTH]
"""A tag that is decided from the prompt with its images."""


class Categories(Row):
    """Categories of what a prompt with its images asks for (VisionArena sec. 4.1; the last is of later arenas).

    Null: undecided.
    """

    captioning: FromPrompt
    """Asks to describe the image as a whole."""
    creative_writing: FromPrompt
    """Asks for a story, poem, song or other invented text; a caption alone is none."""
    diagram: FromImages
    """An image is a chart, map, diagram or figure."""
    entity_recognition: FromPrompt
    """Asks which particular object, person, place or species is shown."""
    homework: FromImages
    """An image shows an exercise or exam question, whatever the prompt is."""
    humor: FromBoth
    """Asks for or about something funny."""
    ocr: FromBoth
    """Answering needs reading text in an image, in any capacity."""
    instruction_following: FromPrompt
    """States requirements on the answer that can be checked in it, such as format, length, or words to use or avoid."""


TAGS = tuple(Categories.model_fields)
"""Every tag that taggers decide."""


ASKED_LATER = {"instruction_following": "eight_tags"}
"""Tag that reviewers were not always asked about -> reason that verdicts have since then; others say nothing of it."""


def sees(tag: str) -> Sees:
    """Parts that the tagger is shown for a tag."""
    return next(mark for mark in Categories.model_fields[tag].metadata if isinstance(mark, Sees))


class Criteria(Row):
    """BenchBuilder's seven criteria of a good benchmark prompt. Null: undecided."""

    specificity: bool | None
    """Asks for one specific output."""
    domain_knowledge: bool | None
    """Answering needs knowledge of a particular field."""
    complexity: bool | None
    """Has several parts, conditions or steps."""
    problem_solving: bool | None
    """Answering needs reasoning, not recall."""
    creativity: bool | None
    """Answering needs invention."""
    technical_accuracy: bool | None
    """The answer can be technically right or wrong, and must be right."""
    real_world: bool | None
    """Someone would ask it to get something done."""


class Taxonomy(Row):
    """Category of a prompt in WildVision's taxonomy (`tasks/prompts/taxonomy.yaml`). Null: undecided."""

    question_category: str | None
    """Kind of question, such as Analytical."""
    question_subcategory: str | None
    """Kind within `question_category`, such as Mathematical Reasoning."""
    image_domain: str | None
    """Domain of the image, such as Urban; null without an image."""
    image_subdomain: str | None
    """Subdomain within `image_domain`, such as Buildings."""


class Share(Row):
    """A share with its 95 % interval."""

    value: float | None
    """The share; null when undefined, such as precision when nothing was tagged."""
    ci95_low: float | None
    """Lower end of the 95 % interval."""
    ci95_high: float | None
    """Upper end of the 95 % interval."""


class TagAgreement(Row):
    """Agreement of a tagger with a reference on one label."""

    tag: str
    """The label."""
    items: int
    """Items with an answer from both."""
    undecided: int
    """Items where either is null or missing; not counted anywhere else."""
    tagged: int
    """Items that the tagger tagged; 0 for labels with several values."""
    in_reference: int
    """Items that the reference tagged; 0 for labels with several values."""
    accuracy: Share
    """Share of items on which both agree; Clopper-Pearson interval."""
    precision: Share
    """Share of `tagged` that the reference tagged too; Clopper-Pearson interval; null for several values."""
    recall: Share
    """Share of `in_reference` that the tagger tagged too; Clopper-Pearson interval; null for several values."""
    f1: Share
    """Harmonic mean of precision and recall; percentile bootstrap over items; null for several values."""
    kappa: Share
    """Cohen's kappa (1960), agreement beyond chance; percentile bootstrap over items."""


class SeenBefore(StrEnum):
    """Whether those who made the embedded rules had the labelled material in sight."""

    SEEN = "seen"
    UNSEEN = "unseen"


class TagFigures(Row):
    """Figures of a tagger on one tag and labelled material of one kind."""

    tag: str
    """The tag."""
    material: SeenBefore
    """seen: the embedded rules were made with it; unseen: they were not."""
    items: int
    """Labelled items that the tagger answered, also with null."""
    true: int
    """Of these, items whose label is true."""
    precision: Share
    """Share of what the tagger calls true whose label is true; Clopper-Pearson interval."""
    recall: Share
    """Share of `true` that the tagger calls true; null is not found; Clopper-Pearson interval."""
    not_known: float | None
    """Share of `items` of which the tagger says null: it does not know; null without items."""


class TaggingCost(Row):
    """Cost and time of asking a tagger."""

    service: str
    """The paid service; empty for a model in this process."""
    items: int
    """Items that were asked about now; answers that were stored are not asked again."""
    calls: int
    """Requests, with repeated ones; 0 without a service."""
    input_tokens: int
    """Input tokens, as the service counted them."""
    output_tokens: int
    """Output tokens, as the service counted them."""
    usd: float | None
    """Cost in US dollars by the price file; null when it has no price of the service."""
    seconds: float
    """Seconds from the first item to the last; a model in this process also reads the images in them."""
    items_per_second: float | None
    """Items a second; null when nothing was asked."""


class TagDisagreement(Row):
    """One item on which tagger and reference differ."""

    item: str
    """Id of the document."""
    tag: str
    """The label."""
    tagger: bool | str
    """The tagger's answer."""
    reference: bool | str
    """The reference's answer."""
    prompt: str
    """The prompt's beginning, on one line."""


class TagCount(Row):
    """How often a label occurs."""

    tag: str
    """The label, or label and value."""
    items: int
    """Kept conversations with the label."""
    share: float | None
    """Their share of the kept conversations with an answer; null where none has the label and some have no answer."""
    not_told: int
    """Kept conversations without an answer."""
    known: float
    """Share of the kept conversations that have an answer."""
