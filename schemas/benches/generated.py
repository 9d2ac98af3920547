"""Benchmarks made on demand: capabilities, aspects, descriptions, drawn images, their check, questions and items."""

from enum import StrEnum

from pydantic import Field

from schemas.row import Int32, Row


class Capability(Row):
    """Ability that a benchmark is to test: one YAML file."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,40}$")
    """Name in commands and tables."""
    definition: str = Field(min_length=10)
    """What a model with this capability can do."""
    goal: str = Field(min_length=10)
    """What the benchmark is to find out."""
    requirement: str = Field(min_length=10)
    """What its images and questions must be like."""


class Level(Row):
    """Limits of a description of one difficulty, and of a question about it."""

    objects_min: int = Field(ge=1)
    """Fewest kinds of thing."""
    objects_max: int = Field(ge=1)
    """Most kinds of thing."""
    number_max: int = Field(ge=1)
    """Most things of one kind."""
    setting: str = Field(min_length=3)
    """What may be said about the surroundings, in words for the author."""
    plain: bool
    """Whether the background must be plain."""
    relations: bool
    """Whether it says how things stand to each other."""
    light: bool
    """Whether it says something about the light."""
    perspective: str = Field(min_length=3)
    """What may be said about perspective and texture, in words for the author."""
    words_max: int = Field(ge=10)
    """Most words of a description."""
    checks: int = Field(ge=1, le=40)
    """Questions that an image of this level is checked with."""
    question: str = Field(min_length=3)
    """What a question of this level asks for, in words for the author."""
    asked_min: int = Field(ge=0)
    """Fewest elements of the description that a question and its right option name."""
    asked_max: int = Field(ge=1)
    """Most of them."""


class ElementType(StrEnum):
    """Subject of a check question (TIFA's types)."""

    OBJECT = "object"
    HUMAN = "human"
    ANIMAL = "animal"
    FOOD = "food"
    ACTIVITY = "activity"
    ATTRIBUTE = "attribute"
    COUNTING = "counting"
    COLOR = "color"
    MATERIAL = "material"
    SPATIAL = "spatial"
    LOCATION = "location"
    SHAPE = "shape"
    OTHER = "other"


class GeneratedBench(Row):
    """One benchmark that a model makes, and how. A name stands for one way of making it."""

    bench: str
    """Its name."""
    capability: str
    """The capability it tests, as JSON: name, definition, goal, requirement."""
    general: Int32
    """General aspects."""
    fine: Int32
    """Fine aspects of each general one."""
    per_aspect: Int32
    """Descriptions of each fine aspect and level."""
    levels: list[str]
    """Difficulties, easiest first."""
    graph: bool
    """Whether words that many descriptions share are kept out of later ones."""
    seed: int
    """Seed of what the author leaves open."""
    providers: list[str]
    """author, pictures and viewer as capability=name, as chosen in the run that began it."""


class GeneratedAspect(Row):
    """One fine aspect of a capability."""

    bench: str
    """The benchmark."""
    aspect: Int32
    """Its number, from 0."""
    general: str
    """The general aspect it belongs to."""
    name: str
    """The fine aspect."""
    introduction: str
    """What it is about."""
    guideline: str
    """What a description of it must state, keep even and avoid."""
    version: str
    """The author that wrote it."""


class CheckQuestion(Row):
    """One simple question about one element of a description."""

    question: str
    """The question."""
    element: str
    """What it asks about, in the description's words."""
    type: ElementType
    """One of thirteen types."""
    choices: list[str]
    """Answers to choose from; empty for a free one."""
    answer: str
    """The right answer by the description."""
    parent: Int32 | None
    """Index of the question that must be right for this one to make sense: without a cup, none is red."""


class GeneratedDescription(Row):
    """Description of one image to draw, in words."""

    description_id: str
    """Hash of bench, aspect, level and number."""
    bench: str
    """The benchmark."""
    aspect: Int32
    """Number of its aspect."""
    level: str
    """Its difficulty."""
    number: Int32
    """Its number in aspect and level, from 0."""
    description: str
    """The description; left and right are the observer's."""
    topic_word: str
    """The word for what it is about."""
    key_words: list[str]
    """Four to six words for what it holds."""
    kept_out: list[str]
    """Words that it was not to use, because earlier descriptions share them."""
    checks: list[CheckQuestion]
    """The questions that its image is checked with."""
    version: str
    """The author that wrote it."""


class DrawingState(StrEnum):
    """State of an order to an image model."""

    DRAWN = "drawn"
    """There is an image."""
    REFUSED = "refused"
    """The model or its vendor declined; it is not asked again for this image."""
    UNUSABLE = "unusable"
    """What came back is no image that can be opened, or one that is withheld."""


class Drawing(Row):
    """One image as an image model returned it, until it is taken in; then its bytes are removed here."""

    description_id: str
    """What it was to show."""
    attempt: Int32
    """0 for the first image of a description."""
    name: str
    """Its name in `image_files`: 32 hex digits."""
    told: str
    """What the image model was told, word for word."""
    state: DrawingState
    """drawn or refused."""
    content: bytes
    """The image as it came; empty unless drawn."""
    version: str
    """The image model."""


class GeneratedImage(Row):
    """One order to an image model and what came of it."""

    description_id: str
    """What it was to show."""
    attempt: Int32
    """0 for the first image of a description."""
    name: str
    """Its name in `image_files`, without the ending."""
    told: str
    """What the image model was told; the description is kept apart."""
    state: DrawingState
    """drawn, refused or unusable."""
    reason: str
    """Why it cannot be used; else empty."""
    image_id: str | None
    """Content id of the image; null without one."""
    version: str
    """The image model."""


class CheckAnswer(Row):
    """One check question, answered from the image."""

    question: str
    """The question."""
    element: str
    """What it asks about."""
    type: ElementType
    """Its type."""
    expected: str
    """The right answer by the description."""
    said: str
    """The viewer's answer."""
    right: bool
    """Whether both are the same, and the question it depends on was answered right, too."""


class Alignment(Row):
    """How far an image shows what its description says. A measurement: the threshold is policy."""

    description_id: str
    """The description."""
    image_id: str
    """Content id of the image."""
    attempt: Int32
    """Which image of the description."""
    score: float
    """Right answers / questions, 0 to 1."""
    answers: list[CheckAnswer]
    """Every question."""
    version: str
    """The viewer."""


class GeneratedQuestion(Row):
    """One question that the author wrote from a description, accepted or not."""

    description_id: str
    """The description."""
    image_id: str
    """Content id of the image it will be asked about."""
    attempt: Int32
    """0 for the first question of a description."""
    kind: str
    """What it asks for, in one word, such as colour or relation."""
    question: str
    """The question."""
    options: list[str]
    """Four options, or True and False; the right one first."""
    problem: str
    """Why it was rejected; empty when it is accepted."""
    version: str
    """The author."""


class Outcome(StrEnum):
    """Outcome of a description."""

    ITEM = "item"
    DROPPED = "dropped"


class GeneratedOutcome(Row):
    """The end of one description: an item, or dropped with a reason. It is never drawn again."""

    description_id: str
    """The description."""
    bench: str
    """The benchmark."""
    outcome: Outcome
    """item or dropped."""
    reason: str
    """Why it was dropped: alignment, refused, unusable, question; empty for an item."""
    images: Int32
    """Images that were drawn for it."""
    score: float | None
    """Alignment of the last image; null without one."""


class GeneratedItem(Row):
    """One question about one image, with its key. Its text is in `conversations`, too."""

    item_id: str
    """The conversation it became."""
    image_id: str
    """Content id of its image."""
    bench: str
    """The benchmark."""
    description_id: str
    """The description it comes from."""
    number: Int32
    """Its number in the benchmark, from 0."""
    aspect: str
    """The fine aspect."""
    general: str
    """The general aspect."""
    level: str
    """Its difficulty."""
    kind: str
    """What it asks for."""
    question: str
    """The question."""
    options: list[str]
    """Its options in order; the first is A."""
    key: str
    """Letter of the right option."""
    prompt: str
    """What models are asked: question, options and how to answer."""
    name: str
    """Name of its image in `image_files`, without the ending."""
