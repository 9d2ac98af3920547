"""What judges and text metrics say of the comparisons that several people agreed on."""

from schemas.row import Row


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
