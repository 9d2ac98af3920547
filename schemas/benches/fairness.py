"""Who was given how many votes, which models came and left, and what that does to ratings."""

from datetime import date

from schemas.row import Row


class Exposure(Row):
    """Votes of one group of models (Singh et al., "The Leaderboard Illusion", arXiv 2504.20879, sec. 4)."""

    by: str
    """What the group has in common: model, provider, licence or weights."""
    group: str
    """Its name; unknown where the facts about a model do not tell. Weights are open or closed."""
    models: int
    """Models in the group."""
    appearances: int
    """Sides of votes that the group's models had; a vote has two."""
    share: float
    """Of all sides of votes, 0 to 1."""
    votes_a_model: float
    """Appearances for each of its models."""


class ModelLife(Row):
    """When a model was voted on, and how its rating depends on early votes."""

    model: str
    """The model."""
    provider: str | None
    """Who made it; null where nobody said."""
    votes: int
    """Votes on it."""
    first_day: date | None
    """UTC day of its first vote; null without times."""
    last_day: date | None
    """UTC day of its last vote; null without times."""
    left: bool | None
    """Whether its last vote is 30 days or more before the last vote of all; null without times."""
    rating: float | None
    """Rating from all votes; null for a model without a finite rating."""
    rating_late: float | None
    """Rating from the later half of all votes, on the same scale; null without times or without such votes."""
    moved: float | None
    """rating_late minus rating."""
    moved_by_chance: float | None
    """Change that 95 of 100 models stay below when nothing but chance differs between the halves (normal)."""


class ArenaMonth(Row):
    """The comparison graph and the prompts of one month (UTC)."""

    month: str
    """YYYY-MM."""
    votes: int
    """Its votes."""
    models: int
    """Models with a vote."""
    came: int
    """Models whose first vote is in it."""
    left: int
    """Models whose last vote is in it; 0 in the last month."""
    groups: int
    """Groups of models that no vote of the month connects. Ratings compare models of one group alone."""
    groups_so_far: int
    """The same for all votes up to its end."""
    prompts: int | None
    """Different prompts with their images; null where the table has none."""
    seen_before: float | None
    """Share of them that an earlier month has, too; null in the first month."""


class BestOf(Row):
    """How much the best of a provider's models owes to luck, when the best of several is the one that is shown."""

    provider: str
    """Who made them."""
    models: int
    """Its models on the board, with finite intervals."""
    best: str
    """The one with the highest rating."""
    rating: float
    """Its rating."""
    expected_maximum: float
    """Mean of the highest of as many independent normal draws, one from each model's interval."""
    bias: float
    """expected_maximum minus rating: rating points that choosing the best adds on average."""
