"""Agreement of a tagger with another tagger or with human labels (as in VisionArena Table 5)."""

from schemas.row import Row


class Share(Row):
    """A share with its 95 % interval."""

    value: float | None
    """The share; null when undefined, such as precision when nothing was tagged."""
    ci95_low: float | None
    """Lower end of the 95 % interval."""
    ci95_high: float | None
    """Upper end of the 95 % interval."""


class TagAgreement(Row):
    """Agreement of a tagger with a reference on one label."""

    tag: str
    """The label."""
    items: int
    """Items with an answer from both."""
    undecided: int
    """Items where either is null or missing; not counted anywhere else."""
    tagged: int
    """Items that the tagger tagged; 0 for labels with several values."""
    in_reference: int
    """Items that the reference tagged; 0 for labels with several values."""
    accuracy: Share
    """Share of items on which both agree; Clopper-Pearson interval."""
    precision: Share
    """Share of `tagged` that the reference tagged too; Clopper-Pearson interval; null for several values."""
    recall: Share
    """Share of `in_reference` that the tagger tagged too; Clopper-Pearson interval; null for several values."""
    f1: Share
    """Harmonic mean of precision and recall; percentile bootstrap over items; null for several values."""
    kappa: Share
    """Cohen's kappa (1960), agreement beyond chance; percentile bootstrap over items."""


class TagDisagreement(Row):
    """One item on which tagger and reference differ."""

    item: str
    """Id of the document."""
    tag: str
    """The label."""
    tagger: bool | str
    """The tagger's answer."""
    reference: bool | str
    """The reference's answer."""
    prompt: str
    """The prompt's beginning, on one line."""


class TagCount(Row):
    """How often a label occurs."""

    tag: str
    """The label, or label and value."""
    items: int
    """Kept conversations with the label."""
    share: float
    """Their share of the kept conversations with an answer."""
    not_told: int
    """Kept conversations without an answer."""
