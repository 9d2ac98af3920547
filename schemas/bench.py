"""The benchmark: drawn prompts, the hidden split, what each filter removed, and how representative the draw is."""

from schemas.row import Int32, Row


class BenchItem(Row):
    """One conversation whose prompt was drawn for the benchmark."""

    conversation_id: str
    """The conversation the prompt comes from."""
    document_id: str
    """Content id of the prompt together with its images."""
    topic: Int32
    """The topic it was drawn from."""


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
