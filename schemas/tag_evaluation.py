"""How well a tagger agrees with another, or with people (VisionArena Table 5's form)."""

from schemas.row import Row


class Share(Row):
    """A share with its interval."""

    value: float | None
    """The share; null where it is not defined, as precision is when nothing was found."""
    ci95_low: float | None
    """Lower end of the 95 % interval."""
    ci95_high: float | None
    """Upper end of the 95 % interval."""


class TagAgreement(Row):
    """What a tagger says of one label, against a reference."""

    tag: str
    """The label."""
    items: int
    """Items that both decided."""
    undecided: int
    """Items where either said null, or had no answer; counted nowhere else."""
    tagged: int
    """Items that the tagger said yes to; for labels with several values, 0."""
    in_reference: int
    """Items that the reference said yes to; for labels with several values, 0."""
    accuracy: Share
    """Items on which both agree; Clopper-Pearson interval."""
    precision: Share
    """Of `tagged`, those that the reference says too; Clopper-Pearson interval; null for several values."""
    recall: Share
    """Of `in_reference`, those that the tagger says too; Clopper-Pearson interval; null for several values."""
    f1: Share
    """Harmonic mean of precision and recall; percentile bootstrap over items; null for several values."""
    kappa: Share
    """Cohen's kappa (1960), agreement beyond chance; percentile bootstrap over items."""


class TagDisagreement(Row):
    """One item on which the two differ."""

    item: str
    """Id of the document."""
    tag: str
    """The label."""
    tagger: bool | str
    """What the tagger said."""
    reference: bool | str
    """What the reference said."""
    prompt: str
    """The prompt's beginning, on one line."""


class TagCount(Row):
    """How often a label is given."""

    tag: str
    """The label, or label and value."""
    items: int
    """Kept conversations that have it."""
    share: float
    """Their share of those that could be told."""
    not_told: int
    """Kept conversations without a fact, or whose fact is null."""
