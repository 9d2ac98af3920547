"""A policy: which facts drop or tag an item, and what a missing fact means."""

from datetime import UTC, datetime
from enum import StrEnum
from ipaddress import ip_address
from itertools import combinations
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from schemas.row import Row


class Over(StrEnum):
    """Which parts of a conversation a rule looks at. One part that fires is enough."""

    IMAGES = "images"
    IMAGE_TEXTS = "image_texts"
    MESSAGES = "messages"
    USER_MESSAGES = "user_messages"
    ASSISTANT_MESSAGES = "assistant_messages"
    PROMPT = "prompt"
    CONVERSATION = "conversation"
    BATTLE = "battle"


class Action(StrEnum):
    """What happens when a rule fires."""

    DROP = "drop"
    REDACT = "redact"
    TAG = "tag"
    HOLD = "hold"


class Scope(StrEnum):
    """What a rule over the parts of a conversation is about."""

    CONVERSATION = "conversation"
    BATTLE = "battle"


class OnMissing(StrEnum):
    """What happens when the fact has not been measured."""

    DROP = "drop"
    IGNORE = "ignore"


class Rule(Row):
    """One reviewed sentence of a policy."""

    reason: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    """The name that decisions, reports and cards use."""
    signal: str
    """`<signal>.<column>`, or `conversation.<fact>` and `battle.<fact>` for what the tables already say."""
    over: Over
    """Which parts of the item are looked at."""
    at_least: float | None = None
    """Fires when a part's value is this or more."""
    at_most: float | None = None
    """Fires when a part's value is this or less."""
    equals: bool | str | None = None
    """Fires when a part's value equals this."""
    contains_any: list[str] | None = None
    """Fires when a list value holds one of these; an empty list means any value at all."""
    action: Action = Action.DROP
    """drop; redact (replace texts, fill boxes, and prove it); tag; or hold until somebody has looked."""
    scope: Scope = Scope.CONVERSATION
    """conversation: it falls, and its battle with it. battle: the battle alone; both conversations stay."""
    on_missing: OnMissing = OnMissing.DROP
    """drop (fail closed) or ignore when the fact has not been measured."""
    if_chosen: bool = False
    """True: no rule at all in runs that choose no provider for its signal, which has no embedded one."""

    @model_validator(mode="after")
    def _one_comparison(self) -> Self:
        given = [self.at_least, self.at_most, self.equals, self.contains_any]
        if sum(value is not None for value in given) != 1:
            raise ValueError("give exactly one of at_least, at_most, equals, contains_any")
        return self


class DuplicateRule(Row):
    """When a direct chat repeats another conversation. A voted battle is never dropped as a duplicate."""

    reason: str = "duplicate"
    """The name that decisions, reports and cards use."""
    pictures: Literal["same", "near", "semantic", "ignore"] = "near"
    """Whether the pictures must be equal, may be near-duplicates, semantic ones too, or do not matter."""
    prompt_cosine_min: float = Field(default=0.9, ge=0.0, le=1.0)
    """Prompts whose embeddings are at least this similar count as the same prompt."""
    copies_max: int = Field(default=1, ge=1)
    """Conversations kept of one prompt and picture."""
    action: Literal[Action.DROP, Action.TAG] = Action.DROP
    """drop or tag."""


class NearPromptRule(Row):
    """When a kept conversation is tagged because an earlier one asked nearly the same; pictures do not matter."""

    reason: str = "near_prompt"
    """The name of the tag."""
    jaccard_min: float = Field(default=0.7, ge=0.5, le=1.0)
    """Share of the runs of five characters that two prompts must have in common."""


class HotPromptRule(Row):
    """How many battles of one prompt are kept; which ones is drawn by a hash of their ids."""

    reason: str = "hot_prompt"
    """The name that decisions, reports and cards use."""
    pictures: Literal["same", "near", "ignore"] = "near"
    """Whether the pictures must be equal, may be near-duplicates, or do not matter (upstream's key)."""
    copies_max: int | None = Field(default=None, ge=1)
    """Battles kept of one prompt and picture."""
    copies_quantile: float | None = Field(default=None, ge=0.0, le=1.0)
    """The same as a quantile of the battles that each prompt has (upstream: 0.9999)."""
    action: Literal[Action.DROP, Action.TAG] = Action.DROP
    """drop or tag."""

    @model_validator(mode="after")
    def _one_limit(self) -> Self:
        if (self.copies_max is None) == (self.copies_quantile is None):
            raise ValueError("give exactly one of copies_max, copies_quantile")
        return self


class Rename(Row):
    """A model that is released and rated under another name than the log has."""

    model: str = Field(min_length=1)
    """Name in the log."""
    to: str = Field(min_length=1)
    """Name in releases, ratings and reports."""
    since: datetime | None = None
    """First moment it holds (UTC unless it says otherwise); null for always."""
    until: datetime | None = None
    """First moment it no longer holds; null for ever."""

    @field_validator("since", "until")
    @classmethod
    def _utc(cls, moment: datetime | None) -> datetime | None:
        if moment is None or moment.tzinfo is not None:
            return moment
        return moment.replace(tzinfo=UTC)

    @model_validator(mode="after")
    def _window(self) -> Self:
        if self.since and self.until and self.until <= self.since:
            raise ValueError(f"until {self.until} is not after since {self.since}")
        return self

    def overlaps(self, other: "Rename") -> bool:
        """Whether both say something of one model at one moment."""
        apart = (self.until and other.since and self.until <= other.since) or (
            other.until and self.since and other.until <= self.since
        )
        return self.model == other.model and not apart


class NearImages(Row):
    """When two different pictures count as near-duplicates; all three must hold."""

    phash_distance_max: int = Field(default=8, ge=0, le=64)
    """Hamming distance of the 64-bit DCT hashes."""
    pdq_distance_max: int = Field(default=48, ge=0, le=256)
    """Hamming distance of the 256-bit PDQ hashes."""
    grey_correlation_min: float = Field(default=0.975, ge=-1.0, le=1.0)
    """Correlation of the 32 x 32 brightnesses."""


class SemanticImages(Row):
    """When two different pictures count as semantic near-duplicates. The relation alone drops nothing."""

    cosine_min: float = Field(default=0.9, ge=0.0, le=1.0)
    """Cosine of the embeddings; it depends on the model, and 0.9 is right for the embedded one (docs/pictures.md)."""


class DriftBand(Row):
    """When a run holds: a reason drops another share of the new conversations than it used to."""

    runs_min: int = Field(default=5, ge=2)
    """Earlier runs with new conversations, under the same policy, below which there is no band."""
    conversations_min: int = Field(default=100, ge=1)
    """New conversations below which a share says nothing."""
    z_max: float = Field(default=4.0, gt=0)
    """Half width of the band in standard deviations: of the count, and of the shares of earlier runs together."""
    difference_min: float = Field(default=0.05, ge=0, le=1)
    """Difference of shares below which nobody needs to look, unless a reason has gone silent."""


class Policy(Row):
    """The rules a release is made under."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    """Name of the policy."""
    about: str = ""
    """One sentence for people: who this policy is for."""
    publishable: bool = False
    """Whether anyone may see what it keeps; only then a release under it can be published where everybody can read."""
    licence: str | None = Field(default=None, pattern=r"^[a-z0-9][a-z0-9.-]{0,40}$")
    """Licence of what is released, as the Hub names it, such as cc-by-4.0; null while nobody has chosen one."""
    contact: str | None = Field(default=None, min_length=3, max_length=200)
    """Whom to write to for removal, as the dataset card says it; null for just its publisher."""
    rules: list[Rule]
    """All rules; every one that fires is recorded."""
    near_pictures: NearImages = NearImages()
    """Radius of near-duplicate pictures."""
    semantic_pictures: SemanticImages | None = SemanticImages()
    """Radius of semantic near-duplicates; null leaves the relation out."""
    duplicates: DuplicateRule | None = DuplicateRule()
    """The duplicate rule; null switches it off."""
    near_prompts: NearPromptRule | None = None
    """The tag of near-same prompts; null for none."""
    hot_prompts: HotPromptRule | None = None
    """The limit on battles of one prompt; null for none."""
    drift: DriftBand | None = DriftBand()
    """When a run holds before its release; null for never. It decides nothing about a conversation."""
    renames: list[Rename] = []
    """Names that models are released and rated under, applied once, by the time of the conversation or vote."""
    excluded_models: list[str] = []
    """Models whose conversations are not released, under either name when they are renamed."""
    banned_users: list[str] = []
    """Keyed user hashes whose conversations are not released. They stay in the store."""

    @model_validator(mode="after")
    def _semantic_radius(self) -> Self:
        if self.duplicates and self.duplicates.pictures == "semantic" and self.semantic_pictures is None:
            raise ValueError("duplicates with pictures: semantic need semantic_pictures: {cosine_min: …}")
        return self

    @field_validator("banned_users")
    @classmethod
    def _no_address(cls, users: list[str]) -> list[str]:
        """A policy is kept in the store."""
        if any(_is_address(user) for user in users):
            raise ValueError("an address must not stand here; give the user_id that `curate explain` shows")
        return users

    @model_validator(mode="after")
    def _one_name_at_a_time(self) -> Self:
        for first, second in combinations(self.renames, 2):
            if first.overlaps(second):
                raise ValueError(f"renames of {first.model!r} overlap; give each a time of its own by since and until")
        return self


def _is_address(text: str) -> bool:
    try:
        ip_address(text.strip())
    except ValueError:
        return False
    return True
