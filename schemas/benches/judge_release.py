"""Tables of a release about judges and items: whose board it is, verdicts side by side, boards of item benchmarks."""

from schemas.benches.agreement import MetricAgreement
from schemas.benches.generated_results import AccuracyRow, AlignmentRow, AuditRow
from schemas.benches.judging import AnswerState, JudgeBias, JudgeRating, Label, WrittenRating
from schemas.row import Row

SLICE_PROMPTS_MIN = 10
"""Slices of the benchmark with fewer judged prompts have no board in a release."""


class JudgeAgreement(JudgeBias):
    """Whose verdicts the judge's board of a release is computed from, and how it agrees with the people's board."""

    judge_version: str
    """Version of the judge: vendor, model, settings and protocol."""
    protocol: str
    """visionarena or wildvision."""
    baseline: str
    """Model that every other one was compared with."""
    draw: str
    """The draw of the benchmark that was judged: the one that is released."""
    prompts: int
    """Prompts of the released benchmark with a verdict."""
    models: int
    """Models on the judge's board that are on the people's board of the release, too."""
    spearman: float | None
    """Rank correlation of both boards over these models; null for fewer than two, or without variance."""
    kendall: float | None
    """Kendall's tau-b, likewise."""
    pair_agreement: float | None
    """Mean over pairs that the people's board separates: 1 same order, 0.5 not separated, 0 reversed (Arena-Hard)."""
    separability: float | None
    """Share of pairs of models whose 95 % intervals do not overlap on the judge's board."""
    separability_people: float | None
    """The same on the people's board."""


class JudgeCard(Row):
    """One verdict on two answers side by side. Texts are in `answers` and `verdicts`, where they may leave."""

    question_id: str
    """The prompt, as in the configuration bench."""
    model_a: str
    """Model whose answer was shown first."""
    model_b: str
    """Model whose answer was shown second."""
    answer_a: str
    """Id of the first answer."""
    answer_b: str
    """Id of the second answer."""
    label: Label | None
    """A>>B, A>B, A=B, B>A or B>>A; null when the judge wrote no label: no verdict, and never a tie."""
    verdict_id: str
    """Id of the verdict."""


class ReleasedAnswer(Row):
    """An answer that left the store on request, screened and redacted as the policy does it with conversations."""

    answer_id: str
    """Id of the answer, as in the cards."""
    question_id: str
    """The prompt, as in the configuration bench."""
    model: str
    """The model."""
    state: AnswerState
    """complete, refused, truncated or empty."""
    content: str
    """The answer."""


class ReleasedVerdict(Row):
    """Texts that the judge wrote; left the store on request, screened and redacted as answers are."""

    verdict_id: str
    """Id of the verdict, as in the cards."""
    content: str
    """Everything that the judge wrote."""


class ScreenedText(Row):
    """An answer or a verdict as the policy lets it leave the store."""

    item_id: str
    """Id of the answer or verdict."""
    question_id: str
    """The prompt."""
    reasons: list[str]
    """Every rule that keeps it in the store; empty when it may leave."""
    text: str
    """The text with what the policy redacts replaced; empty where a rule drops it."""
    policy_hash: str
    """Hash of the policy that decided."""


JUDGE_FILES: dict[str, type[Row]] = {
    "board": JudgeRating,
    "agreement": JudgeAgreement,
    "cards": JudgeCard,
    "answers": ReleasedAnswer,
    "verdicts": ReleasedVerdict,
}
"""Table in `leaderboard/judge` of a release -> its row."""


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
