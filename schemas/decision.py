"""What the policy decided about each conversation and battle."""

from enum import StrEnum

from schemas.row import Float32, Int32, Row


class ItemKind(StrEnum):
    """What a decision is about."""

    CONVERSATION = "conversation"
    BATTLE = "battle"


class Redaction(Row):
    """What was taken out of one part of a conversation; never what it said."""

    reason: str
    """The rule that asked for it; `repeated` for what a rule found in another part only."""
    part: str
    """message or picture."""
    place: Int32
    """Number of the message or picture in its conversation, from 0."""
    type: str
    """Type of personal data, or face."""
    count: Int32
    """Stretches of text that were replaced, or boxes that were filled."""


class Decision(Row):
    """The verdict on one conversation or battle, with every reason that fired."""

    item_kind: ItemKind
    """conversation or battle."""
    item_id: str
    """conversation_id or battle_id."""
    keep: bool
    """Whether it is released."""
    held: bool
    """Whether nothing but a review stands between it and its release; held items are not kept."""
    reasons: list[str]
    """Every rule that dropped or held it, in the policy's order; empty when kept."""
    tags: list[str]
    """Every tagging or redacting rule that fired, in the policy's order."""
    redactions: list[Redaction]
    """What was taken out of it; empty for battles, whose sides have their own."""
    duplicate_of: str | None
    """The conversation that represents this one; null when it is not a duplicate."""
    preset_dataset: str | None
    """Dataset of the server's preset collection that the first picture comes from; null for uploads."""
    policy: str
    """Name of the policy."""
    policy_hash: str
    """Hash of the policy as it was applied."""


class NearPrompt(Row):
    """A kept conversation that asks nearly what an earlier one asked, by the policy's rule `near_prompts`."""

    conversation_a: str
    """The conversation."""
    conversation_b: str
    """The earliest one with the prompt that stands for this one."""
    jaccard: Float32
    """Share of the runs of five characters that both prompts have, 0 to 1."""


class RuleParity(Row):
    """How often a rule of the policy and the rule of upstream's with the same name fire, on the same items."""

    item_kind: ItemKind
    """conversation or battle."""
    reason: str
    """Name of the rule; ALL_DROPS stands for every rule that drops."""
    ours: int
    """Items on which the policy's rule fires, whether it drops them, tags them or is about their battle alone."""
    upstream: int
    """Items on which the rule of policy `upstream` fires."""
    both: int
    """Items on which both fire."""
    only_ours: int
    """Items on which only the policy's rule fires."""
    only_upstream: int
    """Items on which only upstream's rule fires."""


ALL_DROPS = "dropped for any reason"


class Verdict(StrEnum):
    """What a reviewer said of a held conversation."""

    RELEASE = "release"
    DROP = "drop"


class Review(Row):
    """A reviewer's verdict. It is about the content and the reasons that were looked at, and about no others."""

    conversation_id: str
    """The conversation."""
    content_id: str
    """Content id of all its messages and pictures as they were reviewed."""
    reasons: list[str]
    """Why it was held."""
    verdict: Verdict
    """release or drop."""
