"""Results of models and people for a benchmark made on demand: replies of its author, audits, reviews."""

from enum import StrEnum
from typing import ClassVar

from schemas.benches.generated import CheckQuestion
from schemas.board import BoardColumns, BoardRow
from schemas.row import Int32, Row


class ItemReview(Row):
    """Findings of one person about one item."""

    item_id: str
    """The item."""
    rater: str
    """Keyed hash of the person."""
    guided: bool
    """Whether the person had read the guidelines."""
    description_fits: bool
    """Whether the description fits its aspect."""
    question_fits: bool
    """Whether question and key fit the image."""


class AuditMode(StrEnum):
    """How an audit asks."""

    BLIND = "blind"
    """The question alone, without the image."""
    DESCRIBED = "described"
    """The question with the description in place of the image."""
    ALL_A = "all_a"
    """With the image, every key at A."""
    ALL_D = "all_d"
    """With the image, every key at the last letter."""


class AuditAnswer(Row):
    """One model's answer to one item as an audit asked it."""

    item_id: str
    """The item."""
    model: str
    """The model."""
    mode: AuditMode
    """How it was asked."""
    key: str
    """Letter of the right option in this form."""
    letter: str | None
    """The letter it chose; null when it named none, or several."""
    text: str
    """What the model said."""
    version: str
    """The model's version."""


class AccuracyRow(BoardRow):
    """How many items one model gets right in one slice."""

    board: ClassVar = BoardColumns(
        "accuracy", "ci95_low", "ci95_high", "accuracy with its 95 % interval", digits=3, no_end="-",
        battles=("items",), more=("right", "items", "unreadable", "answered", "of", "coverage"),
    )  # fmt: skip

    slice: str
    """overall, level:<name>, aspect:<name> or type:<name>."""
    model: str
    """The model."""
    items: int
    """Items of the slice that all models answered: what accuracy is computed on."""
    right: int
    """Right answers among them."""
    accuracy: float | None
    """right / items; null without items."""
    ci95_low: float | None
    """Lower end of the Wilson 95 % interval."""
    ci95_high: float | None
    """Upper end of the interval."""
    rank: Int32 | None
    """1 + models with a higher accuracy in this slice."""
    unreadable: int
    """Answers among them without one clear letter; they count as wrong."""
    answered: int
    """Items of the slice that this model answered."""
    of: int
    """Items of the slice."""
    coverage: float
    """answered / of."""
    flags: list[str]
    """low_coverage (under 0.95), few_items (under 30), wrote_items (the model of the author), stand_in."""


class ExaminerRow(Row):
    """How one model does on two benchmarks of one capability by two authors, in one slice."""

    slice: str
    """overall, level:<name>, aspect:<name> or type:<name>."""
    model: str
    """The model."""
    accuracy: float
    """Accuracy on the first benchmark, on the items that all its models answered."""
    ci95_low: float | None
    """Lower end of the Wilson 95 % interval."""
    ci95_high: float | None
    """Upper end of the interval."""
    rank: Int32
    """1 + models with a higher accuracy there, among those in this slice of both."""
    against: float
    """Accuracy on the second benchmark."""
    against_low: float | None
    """Lower end of its interval."""
    against_high: float | None
    """Upper end of its interval."""
    against_rank: Int32
    """Its rank there, among the same models."""
    difference: float
    """accuracy - against."""
    own_favour: float | None
    """How much better it does on the benchmark that it wrote than models that wrote neither; null for other models."""
    flags: list[str]
    """Those of its two rows of accuracy, with :<benchmark> if they are of one alone; versions_differ."""


class ExaminersRow(Row):
    """How far two benchmarks of one capability by two authors agree on the models, in one slice."""

    slice: str
    """overall, level:<name>, aspect:<name> or type:<name>."""
    models: Int32
    """Models that answered enough of the slice in both."""
    spearman: float | None
    """Spearman's correlation of their accuracies; null for fewer than three models, or all equal."""
    kendall: float | None
    """Kendall's tau-b of them."""
    mean_difference: float
    """Mean over these models of the accuracy on the first benchmark less that on the second: which one is harder."""


class AuditRow(Row):
    """One figure of an audit."""

    measure: str
    """blind_accuracy, described_accuracy, described_spread, all_a_deviation and so on."""
    model: str
    """The model; empty for a figure over all models."""
    level: str
    """The level; overall for all."""
    value: float | None
    """The figure; null when it cannot be computed."""
    items: int
    """Items it rests on."""
    note: str
    """What it means, in a few words."""
    flags: list[str]
    """wrote_items for the model of the author."""


class DiversityRow(Row):
    """Likeness of the first general and fine aspects of a benchmark."""

    general: int
    """General aspects, n."""
    fine: int
    """Fine aspects of each, m."""
    aspects: int
    """Aspects in all."""
    mean_cosine: float | None
    """Mean cosine of all pairs of names with introductions: lower is more diverse; null for one aspect."""


class AlignmentRow(Row):
    """Distribution of the alignment scores of checked images."""

    slice: str
    """overall, level:<name>, or type:<type of element>, whose scores are of its check questions alone."""
    images: int
    """Checked images; those that were drawn again count each time."""
    mean: float | None
    """Mean score, 0 to 1; null without images."""
    under_half: float | None
    """Share of images with a score under 0.5."""
    from_half: float | None
    """Share from 0.5 to under 0.8."""
    from_80: float | None
    """Share from 0.8 to under 1."""
    whole: float | None
    """Share with every question right."""


class ErrorRow(Row):
    """Wrong answers of one model by what they are errors of, in one slice."""

    slice: str
    """overall, or level:<name>."""
    model: str
    """The model."""
    wrong: int
    """Wrong answers of the slice."""
    by: str
    """Who sorted them: people, the name of a model, or description: asked again with the description instead."""
    comprehension: int
    """Errors of seeing: the image or the question was misread."""
    reasoning: int
    """Errors of concluding from what was rightly seen."""
    unsorted: int
    """Wrong answers that were not sorted, or as neither."""


class ReviewRow(Row):
    """How often a majority of raters finds that things fit."""

    asked: str
    """description_fits or question_fits."""
    guided: bool
    """Whether the raters had the aspect's guideline."""
    level: str
    """The level; all for every one."""
    items: int
    """Items with a rater."""
    fits: int
    """Those that more than half of their raters find fitting."""
    rate: float | None
    """fits / items, the alignment rate."""
    ci95_low: float | None
    """Lower end of Wilson's 95 % interval."""
    ci95_high: float | None
    """Upper end of the interval."""
    raters_least: int
    """Fewest raters of an item; the paper has five."""


class WrittenAspect(Row):
    """One fine aspect."""

    general: str
    """The general aspect it belongs to."""
    name: str
    """The fine aspect, in a few words."""
    introduction: str
    """One or two sentences: what it is about."""
    guideline: str
    """What a description of it must state, keep even and avoid."""


class WrittenAspects(Row):
    """Fine aspects of a capability."""

    aspects: list[WrittenAspect]
    """In order of their general aspects."""


class WrittenDescription(Row):
    """Description of one image to draw, as its author wrote it."""

    description: str
    """The description; left and right are the observer's."""
    topic_word: str
    """The word for what it is about."""
    key_words: list[str]
    """Four to six words for what it holds."""


class WrittenChecks(Row):
    """Questions that an image is checked with."""

    checks: list[CheckQuestion]
    """Each after the one it depends on."""


class WrittenQuestion(Row):
    """One item's question."""

    kind: str
    """What it asks for, in one word, such as colour or relation."""
    question: str
    """The question, without its options."""
    right: str
    """The right option."""
    wrong: list[str]
    """Three wrong options, or one for a question that is true or false."""


class Solved(Row):
    """An answer to a question whose key was not shown."""

    answer: str
    """The chosen option, word for word."""


class Looked(Row):
    """A viewer's answer."""

    answer: str
    """The answer in as few words as possible."""
