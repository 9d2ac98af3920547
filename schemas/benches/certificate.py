"""How far a leaderboard can be trusted: suspected voters, how votes were shared out, the certificate of a release."""

from datetime import date

from pydantic import Field

from schemas.row import Int32, Row


class Suspect(Row):
    """A voter whose votes pull one model further than taste and chance explain. It stays in the store."""

    judge: str
    """The voter's keyed hash, as in the battles."""
    model: str
    """The model that the votes pull."""
    votes: int
    """All votes of the voter."""
    for_model: int
    """Votes for the model."""
    against_model: int
    """Votes for its opponents."""
    pull: float
    """Rating points by which the voter's votes move the model, to first order."""
    p_history: float
    """Of the sequential test: the votes on the model against what all others' votes predict; 1 with under 5 votes."""
    p_pull: float
    """Of all votes by the side that moves the model up, on battles of other models, too; 1 with under 5 votes."""
    p_focus: float
    """Of as many votes on the model, given how often the arena draws it; 1 with under 5 votes."""
    p_joint: float | None = None
    """Of all votes on all models together, against any honest tastes; null in older rows."""
    p_fast: float | None
    """Of as many votes that came before both answers could be read; null without times."""
    p_identity: float | None
    """Of as many prompts that ask which model answers; null without prompts."""
    group: Int32 | None
    """Number of the group that the voter is in; null when suspected alone."""
    group_voters: Int32 | None
    """Suspected voters of that group; null without one."""
    group_shares: str | None
    """What they share: hour, prompt, reason, or the model, more often than it is drawn; null without a group."""
    p_value: float
    """Corrected for the number of voters and of groups (Holm); at most 0.05."""


class VoteCheck(Row):
    """How many votes, and how many voters, a check found."""

    check: str
    """suspects, groups, fast, asks_identity, names_model, unseen_marks, repeated, beyond_day, both_bad, same_model; or
    not_in_full: votes that a rule leaves out of the boards, or makes lighter."""
    voters: int | None
    """Voters of these votes; null where the table names none."""
    votes: int | None
    """Votes that were found; null where the table cannot tell."""
    counted: float | None
    """How much they weigh on the boards, in votes; null where the table cannot tell."""
    note: str
    """What the check needs and the table lacks; else empty."""


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


class Apart(Row):
    """How well intervals tell models apart on the overall board."""

    interval: str
    """Method of the 95 % intervals."""
    half_width: float | None
    """Median half width of the intervals, in rating points; null when all are open."""
    neighbours: int
    """Pairs of neighbours on the board with finite intervals."""
    neighbours_apart: int
    """Those of different rank."""
    pairs_apart: float | None
    """Share of all pairs of such models of which one is clearly better, as ranks count it, 0 to 1; null for fewer than
    two."""


class OffTheBoard(Row):
    """A model that fought anonymously in the logs and has no vote in the release."""

    model: str
    """The model, under its released name."""
    battles: int
    """Its anonymous battles on record."""
    first_day: date
    """UTC day of the first one."""
    last_day: date
    """UTC day of the last one."""


class DroppedVotes(Row):
    """Votes on record that the policy leaves out of the release; a vote has all reasons that fired."""

    reason: str
    """The reason, as in decisions."""
    votes: int
    """Votes that have it."""


class FilterEffect(Row):
    """The overall board against a board of fewer votes, or of the same votes under style control."""

    board: str
    """Name of the slice: exclude_ties, exclude_refusal, exclude_preset or style_control."""
    battles: int
    """Votes that it is computed from."""
    spearman: float | None
    """Rank correlation of the ratings with the overall board's; null when it cannot be computed."""
    first: str
    """The model at its top."""
    same_first: bool
    """Whether that is the model at the top of the overall board."""
    moved_models: int
    """Models with another rank than on the overall board."""
    moved_places: int
    """Most places that a model moves."""


class Coverage(Row):
    """Boards of one kind of slice."""

    kind: str
    """category, language, question, image or month."""
    boards: int
    """Slices with a vote."""
    ranked: int
    """Those that rank two models or more."""
    small: int
    """Those with fewer than 100 votes."""
    smallest: str
    """The slice with the fewest votes."""
    smallest_votes: int
    """Its votes."""


class Contest(Row):
    """How few votes change the order of two models on the overall board; ids are in the table of the release."""

    contest: str
    """first_place or neighbours, as in the table."""
    change: str | None
    """removed or reversed: what happens to the votes."""
    model: str | None
    """The model that leads."""
    rival: str | None
    """The model that is ahead afterwards."""
    needed: int | None
    """Fewest votes found; null when none were."""
    needed_fraction: float | None
    """Their share of all votes, 0 to 1."""


class Certificate(Row):
    """Statement of what the votes of a release allow to say about its models.

    `verify` computes all but `off_the_board` and `dropped` again.
    """

    layout: int = 1
    """Version of this file."""
    votes: int
    """Votes that the overall board is computed from."""
    models: int
    """Models on it."""
    voters: int | None
    """Different voters; null where the release names none."""
    apart: Apart
    """How well intervals tell models apart."""
    fragility: list[Contest]
    """How few votes change the order of the board."""
    checks: list[VoteCheck]
    """Votes that look wrong, or do not count in full."""
    filters: list[FilterEffect]
    """What each filter changes."""
    coverage: list[Coverage]
    """Which slices have boards."""
    exposure: list[Exposure]
    """Who was given how many votes."""
    largest_to_smallest: float | None
    """Appearances of the model with the most, divided by those of the model with the fewest."""
    lives: list[ModelLife]
    """Which models came and left, and how ratings move when early votes are left out."""
    off_the_board: list[OffTheBoard] = Field(default_factory=list)
    """Models that fought and are not on the board: withdrawn, renamed, excluded by the policy, or private variants."""
    dropped: list[DroppedVotes] = Field(default_factory=list)
    """Votes that are not in the release, by reason."""
    months: list[ArenaMonth]
    """The comparison graph and the prompts of each month."""
    best_of: list[BestOf]
    """How much the best of each provider's models owes to luck."""
