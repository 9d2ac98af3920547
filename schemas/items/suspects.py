"""Voters whose votes pull one model, and votes that count for less."""

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
