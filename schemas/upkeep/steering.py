"""Changes of an arena by its operator while it runs, and words of refused visitors."""

from datetime import datetime

from pydantic import Field

from schemas.row import Row

APPEAL_CHARACTERS_MAX = 500
"""Most characters of an appeal."""


class Appeal(Row):
    """Words of a visitor who was refused; nothing says who it was."""

    number: int = Field(ge=1)
    """Number in its arena."""
    at: datetime
    """When (UTC)."""
    reason: str
    """Key of the refusal in the words of the page; empty when it is not known."""
    words: str = Field(min_length=1, max_length=APPEAL_CHARACTERS_MAX)
    """What the visitor wrote."""


class ArenaSteering(Row):
    """The file `admin.json` beside the logs of an arena."""

    paused: list[str] = []
    """Models that are in no new conversation."""
    weights: dict[str, float] = {}
    """Weights in place of those of the models file."""
    usd_a_day_max: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Cost of a UTC day at which the arena takes no more messages; null for no limit."""
    appeals: list[Appeal] = []
    """Appeals that nobody has closed, oldest first."""
    appeals_so_far: int = Field(default=0, ge=0)
    """Number of the last appeal."""
