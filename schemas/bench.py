"""The benchmark: what is drawn, what is kept hidden, and what was left out on the way."""

from schemas.row import Int32, Row


class BenchItem(Row):
    """One conversation whose prompt was drawn for the benchmark."""

    conversation_id: str
    """The conversation the prompt comes from."""
    document_id: str
    """Content id of the prompt together with its pictures."""
    topic: Int32
    """The topic it was drawn from."""


class BenchFilter(Row):
    """How many prompts one filter of the benchmark left."""

    step: Int32
    """Place in the order of the filters, from 0."""
    filter: str
    """What had to hold; `kept` is where the filters begin, `drawn` what the benchmark has."""
    prompts: int
    """Distinct prompts, with their pictures, that were left."""


class HiddenItem(Row):
    """One prompt that is reserved for the hidden split: while it is, nothing about it is released."""

    document_id: str
    """Content id of the prompt together with its pictures, as they were asked."""
    topic: Int32
    """Its topic; -1 where it may not be drawn."""
    first_month: str
    """Month it was first asked in, YYYY-MM."""
    last_month: str
    """Last month it is reserved in, YYYY-MM."""
    drawn: bool
    """Whether it is in the hidden split of this epoch."""


class HiddenChange(Row):
    """One prompt that an epoch brings into the hidden split or takes out of it."""

    document_id: str
    """Content id of the prompt together with its pictures, as they were asked."""
    epoch: str
    """The month that begins, YYYY-MM."""
    change: str
    """enters or retires."""
    why: str
    """In plain words."""


class BenchMeasure(Row):
    """How well the benchmark stands for its pool in one respect, beside 100 random samples of the same size."""

    measure: str
    """topic_coverage: share of topics with a prompt. distance_to_even_topics and distance_to_pool_topics: of its topics
    to equal shares and to the pool's shares (Jensen-Shannon distance, 0 to 1). energy_distance_to_pool: of embeddings
    (Szekely and Rizzo 2013). nearest_cosine: of a prompt of the pool to the nearest drawn one, on average."""
    value: float
    """Of the benchmark."""
    random_mean: float
    """Mean of the random samples."""
    random_low: float
    """Their 2.5 % quantile."""
    random_high: float
    """Their 97.5 % quantile."""
    prompts: int
    """Prompts drawn."""
    pool: int
    """Prompts they were drawn from."""


class BenchAgreement(Row):
    """How far boards of as many battles as the benchmark has prompts agree with the board of all kept battles."""

    reference: str
    """all_battles: the board as it is; even_topics: every topic's battles weigh the same in all."""
    sample: str
    """bench: battles are drawn topic by topic as the benchmark's prompts are; random: from all alike."""
    metric: str
    """spearman, kendall, agreement (Arena-Hard's notebook: 1, 0.5, 0), agreement_strict (its paper: 1, 0, -1),
    separability (share of pairs of models whose 95 % intervals do not overlap) or models (on the board)."""
    mean: float
    """Mean over the samples in which it is defined."""
    low: float
    """2.5 % quantile."""
    high: float
    """97.5 % quantile."""
    samples: int
    """Samples in which it is defined, of 100."""
    battles: int
    """Battles of a sample."""
    of_battles: int
    """Battles it is drawn from: kept battles on prompts that are in a topic."""
    flags: list[str]
    """few_battles: fewer than ten times a sample's; few_votes: fewer than ten a model in a sample; few_models: fewer
    than five on the reference; repeats: a topic had fewer battles than prompts, so some count more than once."""
