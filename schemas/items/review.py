"""Verdicts of people: the table `reviews`, and what a queue of items shows to a reviewer."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from pydantic import Field

from schemas.row import Row


class QueueName(StrEnum):
    """Queues of items that people are asked about."""

    HELD = "held"
    """Whether a held conversation is released."""
    TAGS = "tags"
    """Which tags apply to a prompt with its images."""
    FACES = "faces"
    """Whether an image in which a face was found has one."""
    PERSONAL_DATA = "text_pii"
    """Whether a stretch of a message that was found is personal data."""
    IMAGE_TEXTS = "image_text_pii"
    """Whether a stretch of the text of an image that was found is personal data."""
    FAILURES = "failures"
    """Why models fail a prompt that several people voted both bad."""
    FAILURE_ANSWERS = "failure_answers"
    """Whether a model's answer to such a prompt is right."""
    CAPTION_ANSWERS = "caption_answers"
    """Whether an answer to a written item that was written from captions is right."""
    SHEET = "sheet"
    """Which answer of a battle is better, without models and vote."""
    WRITTEN = "written"
    """Whether the reference of a written item is correct."""
    GENERATED = "generated"
    """Whether description and question of a generated item fit."""
    WRONG_ANSWERS = "wrong_answers"
    """What a model's wrong answer to a generated item is an error of."""
    PREFERENCES = "preferences"
    """Which of two answers to a written item is better."""


class HeldVerdict(StrEnum):
    """A reviewer's verdict on a held conversation."""

    RELEASE = "release"
    DROP = "drop"


class AnswerTruth(StrEnum):
    """A verdict on a model's answer: a person's, or to a prompt that models fail also of a judge with a reference."""

    RIGHT = "right"
    WRONG = "wrong"
    UNCLEAR = "unclear"
    """Nobody can tell from what is shown."""


MODEL_REVIEWER = "model "
"""Start of the reviewer's name of a model that proposes a verdict."""
CANNOT_TELL = "NA"
"""Verdict of an expert who cannot say which answer of a battle is better; it counts as none."""


class Finding(StrEnum):
    """A reviewer's verdict on something that a detector found."""

    CONFIRMED = "confirmed"
    """It is what the detector says."""
    FALSE_ALARM = "false_alarm"
    """It is not."""


class Review(Row):
    """A person's verdict. It holds only for the content and the reasons that were shown.

    The columns after `verdict` are null in rows that an earlier version wrote: verdicts on held conversations.
    """

    conversation_id: str
    """The conversation that was shown; a takedown of it removes the verdict."""
    content_id: str
    """Content id of what was shown."""
    reasons: list[str]
    """Why it was held, sorted; `guided` in queue `generated` where guidelines were shown; in `failure_answers` the
    content id of the reference that a judge read; in `tags` `eight_tags` since there are so many; empty
    in other queues."""
    verdict: str
    """One of the queue's verdicts; in `tags`, `written` and `generated` what holds, separated by spaces, or `none`."""
    queue: str | None = None
    """The queue, as in `QueueName`."""
    item_id: str | None = None
    """What the verdict is about: a conversation, document or image, or a stretch of a text (TEXT_ID:START-END:TYPE)."""
    reviewer: str | None = None
    """Name that the reviewer gave, or a rater's keyed hash; empty for a list that was filled in without one; in
    `wrong_answers` and `failure_answers` also the model that sorted or judged, after `model `."""
    reviewed_at: datetime | None = None
    """When it was given (UTC). Of one reviewer's verdicts on one item the last one counts."""


class Draws(Row):
    """Whose items people are asked about, and how many of them are drawn."""

    store: str = Field(min_length=1)
    """The store that the items come from, and that the verdicts go to."""
    sample: int = Field(default=100, ge=1)
    """Of tags and alarms: prompts, and findings of each type, drawn by hash."""
    seed: int = 0
    """Seed of the draws."""
    per_pair: int = Field(default=5, ge=1)
    """Of battles: how many of every pair of models."""
    language: str | None = None
    """Of battles: their language, by its English name or ISO code."""
    slice: str | None = None
    """Of battles: one slice, as boards name it."""
    bench: str | None = None
    """Of preferences, items and generated items: the benchmark."""
    tuples: int = Field(default=1000, ge=1)
    """Of preferences: pairs of answers, drawn uniformly."""
    hidden: bool = True
    """Of preferences: whether hidden items are asked about, too."""
    guided: bool = True
    """Of generated items: whether the guidelines of aspects are shown."""
    providers: dict[str, str] = {}
    """Provider of a capability, where it is not the default: battles are those with its measurements."""


class Stretch(NamedTuple):
    """A stretch of a text that a queue or the explorer shows."""

    text: str
    hidden: str = ""
    """Type of personal data when it is masked until somebody asks for it."""


class ShownText(NamedTuple):
    """A text that a queue shows beside or instead of a conversation."""

    heading: str
    stretches: tuple[Stretch, ...]


class Choice(NamedTuple):
    """A verdict that a queue allows."""

    key: str
    """Key that gives it."""
    verdict: str
    """Its name in the table."""
    label: str
    """Its name on the page."""


class Waiting(NamedTuple):
    """An item of a queue. Without images and texts of its own, the whole conversation is shown."""

    item_id: str
    """What the verdict is about."""
    content_id: str
    """Content id of what is shown."""
    conversation_id: str
    """The conversation that is shown or that it belongs to."""
    question: str
    """What the reviewer is asked, in one line."""
    reasons: tuple[str, ...] = ()
    """Why it waits, sorted."""
    why: str = ""
    """What a rule or a detector found, in words for a reviewer; empty where that would bias the verdict."""
    image_ids: tuple[str, ...] = ()
    """Images that are shown instead of the conversation."""
    texts: tuple[ShownText, ...] = ()
    """Texts that are shown instead of the conversation, or beside it."""
    beside: bool = False
    """Whether the texts are shown beside the whole conversation."""
    battle_id: str = ""
    """The battle that is shown, with both sides, instead of the conversation."""
    blinded: bool = False
    """Whether models, votes, reasons and facts are left out."""
    swapped: bool = False
    """Of a blinded battle: whether its right side is shown on the left."""


class Task(NamedTuple):
    """An item as an annotator is shown it."""

    queue: str
    key: str
    shown: str
    """Hash of what is shown, which comes back with the verdict."""
    question: str
    texts: list[tuple[str, str]]
    """(heading, text); personal data is replaced by its type."""
    images: list[bytes]
    """Encoded images; those that are blurred are left out."""
    hidden_images: int
    """How many are left out."""
    choices: Sequence[Choice]
    many: bool
    """Whether several choices may hold at once."""
    left: int
    """Items of the queue that this annotator may still get."""


class DetectorPrecision(Row):
    """How many of a detector's findings people confirmed, among those that they reviewed."""

    detector: str
    """faces, text_pii, or image_text_pii."""
    provider: str
    """Provider of the detector."""
    type: str
    """Type of personal data, or face."""
    reviewed: int
    """Findings of the provider that somebody reviewed; one that reviewers disagree about is not counted."""
    confirmed: int
    """Those that are what the detector says."""
    precision: float
    """confirmed / reviewed."""
    ci95_low: float
    """Lower end of the 95 % interval after Clopper and Pearson (1934)."""
    ci95_high: float
    """Upper end."""
    disagreed: int
    """Findings about which reviewers disagree."""


class ReviewerAgreement(Row):
    """How far two reviewers agree on the items of a queue that both reviewed."""

    queue: str
    """The queue, in queue `tags` with the tag."""
    a: str
    """One reviewer."""
    b: str
    """The other one."""
    items: int
    """Items that both reviewed."""
    agreement: float
    """Share of items with the same verdict."""
    kappa: float | None
    """Cohen's kappa, agreement beyond chance; null where both gave one verdict throughout."""
    kappa_ci95_low: float | None
    """Lower end of its 95 % interval, a bootstrap over items."""
    kappa_ci95_high: float | None
    """Upper end."""
