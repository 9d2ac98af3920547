"""Agreement of people and judges on the same items, and correlations of boards and benchmarks."""

from enum import StrEnum

from schemas.items.conversation import Winner
from schemas.row import Int32, Row


class Form(StrEnum):
    """How finely votes are compared."""

    FOUR = "four"
    """left, right, tie, both bad."""
    THREE = "three"
    """left, right, tie; both bad is a tie."""
    BINARY = "binary"
    """left and right; ties and both bad are left out."""
    LABELS = "labels"
    """The labels as they stand in the files, because they are not votes."""


class Agreed(Row):
    """Agreement of two files of labels in one form. Ends of 95 % intervals are null where a figure is."""

    form: Form
    """How finely the labels are compared."""
    items: int
    """Items that both files label."""
    pairs: int
    """Compared labels: one a item, or with several raters all pairs of a label of one file and one of the other."""
    labels: list[str]
    """Order of the rows and columns of `confusion`."""
    confusion: list[list[int]]
    """Pairs by the first file's label (row) and the second's (column)."""
    accuracy: float | None
    """Share of pairs with the same label."""
    accuracy_ci95_low: float | None
    """Lower end of its interval."""
    accuracy_ci95_high: float | None
    """Upper end of its interval."""
    f1_macro: float | None
    """Mean F1 of the labels that occur, the first file being right."""
    f1_macro_ci95_low: float | None
    """Lower end of its interval."""
    f1_macro_ci95_high: float | None
    """Upper end of its interval."""
    f1_micro: float | None
    """F1 of all pairs together, which is the accuracy."""
    f1_micro_ci95_low: float | None
    """Lower end of its interval."""
    f1_micro_ci95_high: float | None
    """Upper end of its interval."""
    f1_weighted: float | None
    """Mean F1 of the labels, weighted by how often the first file has them."""
    f1_weighted_ci95_low: float | None
    """Lower end of its interval."""
    f1_weighted_ci95_high: float | None
    """Upper end of its interval."""
    kappa: float | None
    """Cohen's kappa; null when chance alone explains everything, as with a single label."""
    kappa_ci95_low: float | None
    """Lower end of its interval."""
    kappa_ci95_high: float | None
    """Upper end of its interval."""
    alpha: float | None
    """Krippendorff's alpha for nominal labels, over all labels of both files on an item."""
    alpha_ci95_low: float | None
    """Lower end of its interval."""
    alpha_ci95_high: float | None
    """Upper end of its interval."""
    pearson: float | None
    """Pearson correlation of numbers, or of votes numbered left 0, right 1, tie 2, both bad 3 as WildVision does; null
    for three and more labels that are neither."""
    pearson_ci95_low: float | None
    """Lower end of its interval."""
    pearson_ci95_high: float | None
    """Upper end of its interval."""


class AgreedByRaters(Row):
    """Agreement of the raters of one file in one form."""

    form: Form
    """How finely the labels are compared."""
    items: int
    """Items with two raters or more."""
    raters: int | None
    """Different raters; null when the file does not name them."""
    pairs: int
    """Pairs of raters on one item."""
    agreeing: int
    """Those of them with the same label."""
    agreement: float | None
    """agreeing / pairs."""
    agreement_ci95_low: float | None
    """Lower end of its interval."""
    agreement_ci95_high: float | None
    """Upper end of its interval."""
    alpha: float | None
    """Krippendorff's alpha for nominal labels, over all raters."""
    alpha_ci95_low: float | None
    """Lower end of its interval."""
    alpha_ci95_high: float | None
    """Upper end of its interval."""


class RaterAgreement(AgreedByRaters):
    """Agreement of the raters of one file in its finest form, and in the coarser ones."""

    file: str
    """Name of the file."""
    no_verdict: int
    """Rows without a label."""
    forms: list[AgreedByRaters]
    """The coarser forms."""


class LabelAgreement(Agreed):
    """Agreement of two files of labels in their finest common form, and in the coarser ones."""

    a: str
    """Name of the first file, to which the second is held."""
    b: str
    """Name of the second file."""
    only_a: int
    """Items that only the first file labels."""
    only_b: int
    """Items that only the second file labels."""
    no_verdict_a: int
    """Rows of the first file without a label; they are not compared."""
    no_verdict_b: int
    """Rows of the second file without a label, such as a judge's no verdict; they are not compared."""
    forms: list[Agreed]
    """The coarser forms."""
    raters: list[RaterAgreement]
    """Agreement within a file, for each file with several raters an item."""


class ScoreCorrelation(Row):
    """Correlation of two columns of scores over the models that both have."""

    a: str
    """First column."""
    b: str
    """Second column."""
    models: int
    """Models with a score in both."""
    spearman: float | None
    """Rank correlation; null with fewer than two models or equal scores."""
    kendall: float | None
    """Kendall's tau-b; null as above."""
    pearson: float | None
    """Correlation of the scores; null as above."""


class JudgeVote(Row):
    """One vote of a judge on a battle that people voted on. The sides are those of the battle."""

    battle_id: str
    """The battle."""
    conversation_a: str
    """conversation_id of the left side."""
    conversation_b: str
    """conversation_id of the right side."""
    shown: str
    """Content id of what the judge was shown: prompt, answers and images. After a change it is asked again."""
    label: Winner | None
    """The verdict; null for no verdict: the judge wrote NA, no label, or several different ones. Never a tie then."""
    judge: str
    """Name of the judging model; `embedded stand-in` for the one that ships with the install."""
    judge_version: str
    """Changes with everything that decides the vote: vendor, model, temperature, limits, prompt."""
    tokens: Int32 | None
    """Tokens of the reply as its vendor counts them; null when unknown."""
    text: str
    """Everything that the judge wrote."""


class MetricAgreement(Row):
    """How often one metric, or one judge, names the winner that most people named, in one bin of agreement."""

    metric: str
    """The metric, or `judge:` with the judge and what it was shown."""
    bin: str
    """How many of the votes name the winner, such as 4/5; all for every bin together."""
    comparisons: int
    """Comparisons in the bin that the metric has scores or verdicts for."""
    missing: int
    """Comparisons in the bin without: no answer, no reference, no verdict in both orders."""
    ties: int
    """Comparisons where it scores both answers the same, or the judge names no winner; each counts as half."""
    reproduced: float
    """Share of comparisons whose winner it names, 0 to 1."""
    ci95_low: float
    """Lower end of the 95 % interval, which resamples items."""
    ci95_high: float
    """Upper end of the 95 % interval."""


class MetricBoard(Row):
    """How the models' ranks by one metric's winners agree with their ranks by the people's."""

    metric: str
    """The metric, or `judge:` with the judge and what it was shown."""
    comparisons: int
    """Comparisons that both boards are computed from."""
    models: int
    """Models on both boards."""
    spearman: float | None
    """Rank correlation of the Bradley-Terry ratings; null without variance."""
    kendall: float | None
    """Kendall's tau-b."""
