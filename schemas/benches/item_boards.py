"""Boards of benchmarks that people write or that are made on demand, as a store rates them for its release."""

from schemas.benches.agreement import MetricAgreement
from schemas.benches.generated_results import AccuracyRow, AlignmentRow, AuditRow
from schemas.benches.judging import WrittenRating
from schemas.row import Row


class WrittenMetric(MetricAgreement):
    """How often a metric or a judge names the winner that most people chose, on a written benchmark."""

    bench: str
    """The benchmark."""


class GeneratedAccuracy(AccuracyRow):
    """How many items of a benchmark made on demand a model gets right in one slice."""

    bench: str
    """The benchmark."""


class GeneratedAlignment(AlignmentRow):
    """Distribution of the alignment scores of a benchmark's images."""

    bench: str
    """The benchmark."""


class GeneratedAudit(AuditRow):
    """One figure of the audit of a benchmark."""

    bench: str
    """The benchmark."""


ITEM_BOARDS: dict[str, type[Row]] = {
    "written_board": WrittenRating,
    "written_metrics": WrittenMetric,
    "generated_accuracy": GeneratedAccuracy,
    "generated_alignment": GeneratedAlignment,
    "generated_audit": GeneratedAudit,
}
"""Table of a store -> its row. `leaderboard/written/board` and so on are the same tables in a release."""
