"""Figures of the embedded models: how much is found, on which material, and who labelled it."""

from schemas.row import Row


class Material(Row):
    """Labelled material on which figures are measured."""

    about: str
    """Content of the material, in words."""
    labelled_by: str
    """People who labelled it, and whether they also wrote the rules."""
    made_with: bool
    """Whether those who made the rule, its examples or its thresholds had it in sight."""
    command: str
    """Command that makes the figures; DATA is the folder of shared data."""


class MeasuredFigure(Row):
    """One share that was measured on one material."""

    of: str
    """Capability whose embedded model is measured."""
    label: str = ""
    """Label of a model that gives several, such as homework; empty for the whole."""
    measure: str
    """Share that is meant, such as precision."""
    hits: int
    """Items that count for the share."""
    n: int
    """Items of which it is a share."""
    value: float
    """The share."""
    ci95_low: float
    """Lower end of the 95 % interval (Clopper-Pearson)."""
    ci95_high: float
    """Upper end of the 95 % interval."""
    material: str
    """Name of the material."""


class EmbeddedFigures(Row):
    """All that is known of how much the embedded models find."""

    materials: dict[str, Material]
    """Name -> material."""
    figures: list[MeasuredFigure]
    """Each capability, label, measure and material once."""
    notes: dict[str, str]
    """Capability -> what no figure says, such as that there is nothing to find."""


class StatedFigure(Row):
    """One line of a card about an embedded model, with a column for each kind of material."""

    what: str
    """Label and measure, or a note."""
    made_with: str
    """Value, interval, number and material that the rule was made with; in words where there is none."""
    unseen: str
    """The same of material that the rule was not made with."""
