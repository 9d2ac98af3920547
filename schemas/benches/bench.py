"""The benchmark: drawn prompts, hidden split, filters, how representative it is, overlap with other datasets."""

from datetime import datetime
from enum import StrEnum

from schemas.row import Int32, Row


class BenchItem(Row):
    """One conversation whose prompt was drawn for the benchmark."""

    conversation_id: str
    """The conversation the prompt comes from."""
    document_id: str
    """Content id of the prompt together with its images."""
    topic: Int32
    """The topic it was drawn from."""


class BenchDraw(Row):
    """How the benchmark was drawn that the store has. A change of policy alone draws no other."""

    drawn_from: str
    """Hash of the topic fit, the seed and the settings of the draw."""
    policy_hash: str | None
    """Hash of the policy under which it was drawn, as in `decisions`; null without decisions."""
    prompts: int
    """How many prompts were drawn."""


class BenchFilter(Row):
    """How many prompts remained after one filter of the benchmark."""

    step: Int32
    """Position of the filter, from 0."""
    filter: str
    """Name of the filter; `kept` is the starting pool, `drawn` the finished benchmark."""
    prompts: int
    """Distinct prompts (with their images) that passed this filter and all earlier ones."""


class HiddenItem(Row):
    """One prompt that is reserved for the hidden split. While it is reserved, nothing about it is released."""

    document_id: str
    """Content id of the prompt together with its images, before any redaction."""
    topic: Int32
    """Its topic; -1 when it may not be drawn."""
    first_month: str
    """Month it was first asked in, YYYY-MM."""
    last_month: str
    """Last month it is reserved in, YYYY-MM."""
    drawn: bool
    """Whether it is in the hidden split of this epoch."""


class HiddenChange(Row):
    """One prompt that enters or leaves the hidden split in a new epoch."""

    document_id: str
    """Content id of the prompt together with its images, before any redaction."""
    epoch: str
    """The month that begins, YYYY-MM."""
    change: str
    """enters or retires."""
    why: str
    """The reason, as a sentence."""


class BenchMeasure(Row):
    """One measure of how well the benchmark represents its pool, compared with 100 random samples of the same size."""

    measure: str
    """topic_coverage: share of topics with at least one drawn prompt. distance_to_even_topics and
    distance_to_pool_topics: Jensen-Shannon distance (0 to 1) of its topic shares to equal shares and to the pool's.
    energy_distance_to_pool: energy distance of embeddings (Szekely and Rizzo 2013). nearest_cosine: mean cosine
    between a prompt of the pool and the nearest drawn one."""
    value: float
    """Value for the benchmark."""
    random_mean: float
    """Mean over the random samples."""
    random_low: float
    """2.5 % quantile of the random samples."""
    random_high: float
    """97.5 % quantile of the random samples."""
    prompts: int
    """Number of drawn prompts."""
    pool: int
    """Number of prompts in the pool."""


class BenchAgreement(Row):
    """How well leaderboards of as few battles as the benchmark has prompts agree with the full leaderboard."""

    reference: str
    """all_battles: the leaderboard of all kept battles; even_topics: the same with equal weight for every topic."""
    sample: str
    """bench: battles are drawn topic by topic, like the benchmark's prompts; random: drawn uniformly."""
    metric: str
    """spearman, kendall, agreement (Arena-Hard's notebook: 1, 0.5, 0), agreement_strict (its paper: 1, 0, -1),
    separability (share of pairs of models whose 95 % intervals do not overlap) or models (number on the board)."""
    mean: float
    """Mean over the samples in which the metric is defined."""
    low: float
    """2.5 % quantile."""
    high: float
    """97.5 % quantile."""
    samples: int
    """Samples, of 100, in which the metric is defined."""
    battles: int
    """Battles in each sample."""
    of_battles: int
    """Battles the samples are drawn from: kept battles whose prompt is in a topic."""
    flags: list[str]
    """few_battles: of_battles is less than ten times battles; few_votes: fewer than ten votes per model in a sample;
    few_models: fewer than five models on the reference; repeats: a topic had fewer battles than prompts, so some
    battles count more than once."""


class FailureType(StrEnum):
    """Why models fail a prompt (VisionArena sec. 13, WildVision App. C)."""

    VISUAL_RECOGNITION = "visual_recognition"
    """What is in the image, or what is written there, is not seen."""
    VISUAL_REASONING = "visual_reasoning"
    """What is seen is not worked out: counts, figures, comparisons, exercises."""
    SPATIAL_IMAGINATION = "spatial_imagination"
    """Places, directions and views in space are mistaken."""
    CONTEXTUAL_UNDERSTANDING = "contextual_understanding"
    """What the image means in its context is missed: jokes, culture, intent."""
    EXPERT_DOMAIN_KNOWLEDGE = "expert_domain_knowledge"
    """Knowledge of a field is missing."""
    HALLUCINATION = "hallucination"
    """The answer speaks of what is not there."""
    SAFETY = "safety"
    """The prompt or the image is not safe. Such prompts are in no release of failures."""


class FailureLabel(Row):
    """Why models fail a prompt, as a tagger says. Null: it cannot tell."""

    failure_type: FailureType | None
    """The type."""


class Failure(Row):
    """One kept prompt that several people saw fail: they voted that both answers are bad."""

    document_id: str
    """Content id of the prompt together with its images."""
    conversation_id: str
    """Left side of the earliest of these votes."""
    judges: Int32
    """People who voted so; votes without a voter count none."""
    both_bad: Int32
    """The votes of these people; `failure_marks` counts votes without a voter, too."""
    models: list[str]
    """Models of these votes, by name."""
    failure_type: FailureType | None
    """What a reviewer says; else what a chosen tagger says, or without one a rule; null when undecided."""
    reviewed: bool
    """Whether a reviewer decided the type."""
    typed_by: str | None = None
    """Who decided: reviewer, moderation (the type safety), the name of the tagger, or rule; null when undecided."""
    drawn: bool
    """Whether it is in the set of the release, drawn evenly over types. Safety never is."""


class CaseReference(Row):
    """The right answer to a prompt that models fail, as a person wrote it. Of one prompt the last one counts."""

    document_id: str
    """Content id of the prompt together with its images, as in `failures`."""
    conversation_id: str
    """The prompt's conversation, as in `failures`; a takedown of it removes the reference."""
    text: str
    """The reference."""
    written_at: datetime
    """When it was taken in (UTC)."""


class FailureMark(Row):
    """Votes on one model's answers to one prompt of the drawn failures."""

    document_id: str
    """Content id of the prompt together with its images, as in `failures`."""
    conversation_id: str
    """The prompt's conversation, as in `failures`."""
    model: str
    """The model."""
    votes: Int32
    """Kept votes on battles of its answers to this prompt."""
    both_bad: Int32
    """Those that say that both answers are bad."""


class FailureRate(Row):
    """How often a model fails prompts of one type, among all kept votes on such prompts."""

    model: str
    """The model."""
    failure_type: str
    """The type by the rule (and moderation), which tells it of every prompt; `undecided`; or `all`."""
    battles: int
    """Kept votes on these prompts with an answer of the model, whether anybody saw them fail or not."""
    both_bad: int
    """Those that say that both answers are bad."""
    error_rate: float
    """both_bad / battles."""


class Overlap(Row):
    """One row of a dataset that contains one question of the benchmark."""

    row: int
    """1-based number of the row."""
    question_id: str
    """Id of the benchmark question."""
    split: str
    """public, hidden, or captions: a caption or reference that is in no release."""
    match: str
    """exact: the same text; normalised: the same words; near: most four-word sequences of the question."""
    overlap: float
    """Share of the question's four-word sequences that are in the row, 0 to 1; 1 when the words are equal."""
    same_image: bool
    """Whether the row names the question's image; false when unknown."""
    contaminated: bool
    """Whether this counts as evidence: the question has at least 13 words, or its image is in the row too. Short
    questions such as `what is this?` are asked by everybody."""


class OverlapCount(Row):
    """How much of the benchmark was found in a dataset."""

    rows: int
    """Number of rows read."""
    questions: int
    """Number of questions in the benchmark."""
    questions_found: int
    """Number of questions that at least one row contains."""
    matches: dict[str, int]
    """Matches that count as evidence, by kind: exact, normalised, near."""
    short: int
    """Matches of short questions without their image; not evidence, and not counted in matches."""
