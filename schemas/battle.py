"""Votes between two conversations."""

from datetime import date, datetime
from enum import StrEnum

from schemas.row import Int32, Row


class Winner(StrEnum):
    """The verdict of a vote."""

    MODEL_A = "model_a"
    MODEL_B = "model_b"
    TIE = "tie"
    BOTH_BAD = "tie_bothbad"


class Battle(Row):
    """One vote."""

    battle_id: str
    """Conversation id of the left side (upstream calls it question_id)."""
    conversation_a: str
    """conversation_id of the left side."""
    conversation_b: str
    """conversation_id of the right side."""
    model_a: str
    """Model on the left."""
    model_b: str
    """Model on the right."""
    winner: Winner
    """The verdict."""
    anonymous: bool
    """Whether the names were hidden until the vote."""
    turns_a: Int32
    """User messages on the left."""
    turns_b: Int32
    """User messages on the right."""
    tstamp: datetime
    """When the vote was cast (UTC)."""
    day: date
    """UTC day of the vote."""
    judge: str | None
    """Keyed hash of the voter's address; null when the log has none."""
    vote_reason: str | None
    """Why the voter chose so, in the voter's words; null where the arena did not ask or nothing was written."""
    vote_reason_id: str | None
    """Content id of that text."""
    source: str
    """Log file of the vote, relative to the log folder."""
    line: int
    """1-based line number of the vote."""
