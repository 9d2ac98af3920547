"""Decisions of the policy about each conversation and battle."""

from enum import StrEnum

from schemas.row import Float32, Int32, Row


class ItemKind(StrEnum):
    """Subject of a decision."""

    CONVERSATION = "conversation"
    BATTLE = "battle"


class Redaction(Row):
    """One redaction: where and why, never the text or pixels that were removed."""

    reason: str
    """The redacting rule; `repeated` for a copy of something that the rule found in another part."""
    part: str
    """message or image."""
    place: Int32
    """Index of the message or image in its conversation, from 0."""
    type: str
    """Type of personal data, or face."""
    count: Int32
    """Number of text spans replaced or boxes filled."""


class Decision(Row):
    """Whether one conversation or battle is released, with the name of every rule that fired."""

    item_kind: ItemKind
    """conversation or battle."""
    item_id: str
    """conversation_id or battle_id."""
    keep: bool
    """Whether it is released."""
    kept_by_screening: bool
    """Whether the rules of the first pass keep it, so that what describes it is measured; for a battle, as keep."""
    held: bool
    """Whether it only waits for a review; held items are not kept."""
    reasons: list[str]
    """Every rule that dropped or held it, in the policy's order; empty when kept."""
    tags: list[str]
    """Every tagging or redacting rule that fired, in the policy's order."""
    redactions: list[Redaction]
    """What was redacted; empty for battles, because redactions belong to their two conversations."""
    duplicate_of: str | None
    """The conversation that this one duplicates; null when it is not a duplicate."""
    preset_dataset: str | None
    """Dataset of the first image when it is one of the server's preset images; null for uploads."""
    vote_reason_withheld: list[str] | None = None
    """Rules that keep what the voter wrote out of a release, in the policy's order; empty when it is released with its
    battle; null for conversations and for votes without words."""
    policy: str
    """Name of the policy."""
    policy_hash: str
    """Hash of the applied policy."""


class NearPrompt(Row):
    """A kept conversation whose prompt is almost the same as an earlier one's (policy key `near_prompts`)."""

    conversation_a: str
    """The conversation."""
    conversation_b: str
    """The earliest conversation of the group of similar prompts."""
    jaccard: Float32
    """Jaccard similarity of the five-character sequences of both prompts, 0 to 1."""


class RuleParity(Row):
    """How often a rule fires in our policy and in FastChat's (policy `upstream`), on the same items."""

    item_kind: ItemKind
    """conversation or battle."""
    reason: str
    """Name of the rule; ALL_DROPS stands for every rule that drops."""
    ours: int
    """Items on which our rule fires, whatever its action and scope."""
    upstream: int
    """Items on which the rule of policy `upstream` fires."""
    both: int
    """Items on which both fire."""
    only_ours: int
    """Items on which only the policy's rule fires."""
    only_upstream: int
    """Items on which only upstream's rule fires."""


ALL_DROPS = "dropped for any reason"


class RuleChange(Row):
    """Change that another policy would make, by the reason that drops an item (`curate decide --dry-run`)."""

    item_kind: ItemKind
    """conversation or battle."""
    reason: str
    """Name of the rule; ALL_DROPS stands for every rule that drops or holds."""
    now: int
    """Items that it drops or holds now."""
    then: int
    """Items that it would drop or hold."""
    comes: int
    """Items that it drops or holds now and that would be kept."""
    goes: int
    """Items that are kept now and that it would drop or hold."""
