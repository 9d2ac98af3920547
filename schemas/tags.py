"""Tags: what a prompt with its pictures asks for, and how good a prompt it is for a benchmark. One row a document.

A field of `Categories` is the whole registration of a tag: what a tagger is shown, and what the tag means. Its
definition for a language model is `tasks/prompts/tags/<field>.md`.
"""

from enum import StrEnum
from typing import Annotated

from schemas.row import Row


class Sees(StrEnum):
    """What a tag is decided from: where the paper's taggers did best (VisionArena sec. 4.1)."""

    PROMPT = "prompt"
    PICTURES = "pictures"
    BOTH = "prompt and pictures"


FromPrompt = Annotated[bool | None, Sees.PROMPT]
"""A tag that is decided from the prompt alone."""
FromPictures = Annotated[bool | None, Sees.PICTURES]
"""A tag that is decided from the pictures alone; false without any."""
FromBoth = Annotated[bool | None, Sees.BOTH]
"""A tag that is decided from the prompt with its pictures."""


class Categories(Row):
    """What a prompt with its pictures asks for (VisionArena sec. 4.1). Null: could not be told."""

    captioning: FromPrompt
    """Asks to describe the picture as a whole."""
    creative_writing: FromPrompt
    """Asks for a story, poem, caption or other original text."""
    diagram: FromPictures
    """The picture is a chart, diagram or figure."""
    entity_recognition: FromPrompt
    """Asks which particular object, person, place or species is shown."""
    homework: FromPictures
    """The picture or prompt is an exercise or exam question."""
    humor: FromBoth
    """Asks for or about something funny."""
    ocr: FromBoth
    """Answering needs reading text in the picture."""


TAGS = tuple(Categories.model_fields)
"""Every tag that taggers decide."""


def sees(tag: str) -> Sees:
    """What a tag is decided from."""
    return next(mark for mark in Categories.model_fields[tag].metadata if isinstance(mark, Sees))


class Criteria(Row):
    """BenchBuilder's seven criteria of a prompt that tells models apart. Null: could not be told."""

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
    """Where a prompt stands in WildVision's taxonomy (`tasks/prompts/taxonomy.yaml`). Null: could not be told."""

    question_category: str | None
    """Kind of question, such as Analytical."""
    question_subcategory: str | None
    """Kind within `question_category`, such as Mathematical Reasoning."""
    image_domain: str | None
    """What the picture is of, such as Urban; null without a picture."""
    image_subdomain: str | None
    """What it is of within `image_domain`, such as Buildings."""
