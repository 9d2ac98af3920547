"""What the policy decided about each conversation and battle."""

from enum import StrEnum

from schemas.row import Row


class ItemKind(StrEnum):
    """What a decision is about."""

    CONVERSATION = "conversation"
    BATTLE = "battle"


class Decision(Row):
    """The verdict on one conversation or battle, with every reason that fired."""

    item_kind: ItemKind
    """conversation or battle."""
    item_id: str
    """conversation_id or battle_id."""
    keep: bool
    """Whether it is released."""
    reasons: list[str]
    """Every rule that dropped it, in the policy's order; empty when kept."""
    tags: list[str]
    """Every tagging rule that fired, in the policy's order."""
    duplicate_of: str | None
    """The conversation that represents this one; null when it is not a duplicate."""
    preset_dataset: str | None
    """Dataset of the server's preset collection that the first picture comes from; null for uploads."""
    policy: str
    """Name of the policy."""
    policy_hash: str
    """Hash of the policy as it was applied."""
