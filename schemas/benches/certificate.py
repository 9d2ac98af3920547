"""The certificate of a release: how far its leaderboard can be trusted, in one file."""

from datetime import date

from pydantic import Field

from schemas.benches.fairness import ArenaMonth, BestOf, Exposure, ModelLife
from schemas.items.suspects import VoteCheck
from schemas.row import Row


class Apart(Row):
    """How well intervals tell models apart on the overall board."""

    interval: str
    """Method of the 95 % intervals."""
    half_width: float | None
    """Median half width of the intervals, in rating points; null when all are open."""
    neighbours: int
    """Pairs of neighbours on the board with finite intervals."""
    neighbours_apart: int
    """Those whose intervals do not overlap."""
    pairs_apart: float | None
    """Share of all pairs of such models whose intervals do not overlap, 0 to 1; null for fewer than two."""


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
