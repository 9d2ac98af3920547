"""A policy: which signals drop, redact, tag or hold an item, and what a missing signal means."""

import hashlib
import re
from datetime import UTC, date, datetime
from enum import StrEnum
from ipaddress import ip_address
from itertools import combinations
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from schemas.row import Row


class Over(StrEnum):
    """Parts of a conversation that a rule looks at. One part that fires is enough."""

    IMAGES = "images"
    IMAGE_TEXTS = "image_texts"
    MESSAGES = "messages"
    USER_MESSAGES = "user_messages"
    ASSISTANT_MESSAGES = "assistant_messages"
    PROMPT = "prompt"
    DOCUMENT = "document"
    """The prompt with its images."""
    CONVERSATION = "conversation"
    BATTLE = "battle"


class Action(StrEnum):
    """Consequence when a rule fires."""

    DROP = "drop"
    REDACT = "redact"
    TAG = "tag"
    HOLD = "hold"


class Scope(StrEnum):
    """Whether a rule drops the whole conversation or only its battle."""

    CONVERSATION = "conversation"
    BATTLE = "battle"


class OnMissing(StrEnum):
    """Consequence when the signal has not been measured."""

    DROP = "drop"
    IGNORE = "ignore"


COMPARISONS = ("at_least", "at_most", "equals", "contains_any", "other_than")
"""Keys of a rule; each rule has one of them."""


class Rule(Row):
    """One rule of a policy: a comparison of a signal, and an action."""

    reason: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    """The name that decisions, reports and cards use."""
    signal: str
    """`<signal>.<column>`, or `conversation.<name>` and `battle.<name>` for values that the tables already have."""
    over: Over
    """Which parts of the item are tested."""
    at_least: float | None = None
    """Fires when a part's value is this or more."""
    at_most: float | None = None
    """Fires when a part's value is this or less."""
    equals: bool | str | None = None
    """Fires when a part's value equals this."""
    contains_any: list[str] | None = None
    """Fires when a list value holds one of these; an empty list means any value at all."""
    other_than: list[str] | None = Field(default=None, min_length=1)
    """Fires when a text value, such as a language, is none of these; of a list, when one of its values is."""
    action: Action = Action.DROP
    """drop; redact (replace text, fill boxes, then measure again); tag; or hold until a review."""
    scope: Scope = Scope.CONVERSATION
    """conversation: drops the conversation and its battle. battle: drops only the battle; both conversations stay."""
    on_missing: OnMissing = OnMissing.DROP
    """drop (fail closed) or ignore when the signal has not been measured."""
    models: Literal["open", "proprietary"] | None = None
    """Only conversations with such a model: with open weights (`open_models`), or any other; null for all. Not for
    rules over battles or that redact."""
    if_chosen: bool = False
    """True: the rule applies only in runs that choose a provider for its signal, which has no embedded provider."""

    @model_validator(mode="after")
    def _one_comparison(self) -> Self:
        if sum(getattr(self, name) is not None for name in COMPARISONS) != 1:
            raise ValueError(f"give exactly one of {', '.join(COMPARISONS)}")
        return self


class DuplicateRule(Row):
    """When a direct chat repeats another conversation with equally many user messages; voted battles never do."""

    reason: str = "duplicate"
    """The name that decisions, reports and cards use."""
    images: Literal["same", "near", "semantic", "ignore"] = "near"
    """Which images count as the same: equal ones, near-duplicates, semantic near-duplicates too, or any."""
    prompt_cosine_min: float = Field(default=0.9, ge=0.0, le=1.0)
    """Minimum cosine of the embeddings of two prompts of one message on the same image. Without an image, with
    `images: ignore` or with several messages, texts must be the same but for case and closing punctuation."""
    copies_max: int = Field(default=1, ge=1)
    """Most conversations that are kept with the same prompt and image."""
    action: Literal[Action.DROP, Action.TAG] = Action.DROP
    """drop or tag."""

    def in_words(self) -> str:
        """When it fires."""
        least = f"one message on an image: cosine {self.prompt_cosine_min} or more"
        return f"the same user messages, images: {self.images} ({least}); copies kept: {self.copies_max}"


class NearPromptRule(Row):
    """When a kept conversation is tagged because an earlier one has almost the same prompt; images are ignored."""

    reason: str = "near_prompt"
    """The name of the tag."""
    jaccard_min: float = Field(default=0.7, ge=0.5, le=1.0)
    """Minimum Jaccard similarity of the five-character sequences of two prompts."""

    @property
    def action(self) -> Action:
        """Always tag."""
        return Action.TAG

    def in_words(self) -> str:
        """When it fires."""
        return f"almost the prompt of an earlier conversation: Jaccard similarity {self.jaccard_min} or more"


class HotPromptRule(Row):
    """How many battles with the same prompt are kept; a hash of their ids decides which."""

    reason: str = "hot_prompt"
    """The name that decisions, reports and cards use."""
    images: Literal["same", "near", "ignore"] = "near"
    """Which images count as the same: equal ones, near-duplicates, or any (as upstream does)."""
    copies_max: int | None = Field(default=None, ge=1)
    """Most battles that are kept with the same prompt and image."""
    copies_quantile: float | None = Field(default=None, ge=0.0, le=1.0)
    """The same limit, as a quantile of the number of battles per prompt (upstream: 0.9999)."""
    action: Literal[Action.DROP, Action.TAG] = Action.DROP
    """drop or tag."""

    @model_validator(mode="after")
    def _one_limit(self) -> Self:
        if (self.copies_max is None) == (self.copies_quantile is None):
            raise ValueError("give exactly one of copies_max, copies_quantile")
        return self

    def in_words(self) -> str:
        """When it fires."""
        kept = self.copies_max or f"quantile {self.copies_quantile} of the battles that each prompt has"
        return f"more battles of the same prompt, images: {self.images}; kept: {kept}"


class KnownBenchmarkRule(Row):
    """When a conversation is tagged or dropped because it holds what is in a known benchmark.

    The setting `known_benchmarks` names them; without it the rule never fires.
    """

    reason: str = "known_benchmark"
    """The name that decisions, reports and cards use."""
    holds: Literal["either", "picture", "question", "both"] = "either"
    """Which conversations: those that show one of its pictures, ask one of its questions, either, or both at once."""
    action: Literal[Action.DROP, Action.TAG] = Action.TAG
    """drop or tag."""

    def in_words(self) -> str:
        """When it fires."""
        contents = {
            "either": "a picture or a question", "picture": "a picture", "question": "a question",
            "both": "a picture and a question",
        }  # fmt: skip
        return f"{contents[self.holds]} of a known benchmark"


RuleOverSet = DuplicateRule | KnownBenchmarkRule | NearPromptRule | HotPromptRule
"""A rule over the whole set: it compares an item with the others."""


class Rename(Row):
    """A model that is released and rated under a name that differs from the log."""

    model: str = Field(min_length=1)
    """Name in the log."""
    to: str = Field(min_length=1)
    """Name in releases, ratings and reports."""
    since: datetime | None = None
    """From when it applies, inclusive (UTC unless a zone is given); null for always."""
    until: datetime | None = None
    """Until when it applies, exclusive; null for no end."""

    @field_validator("since", "until")
    @classmethod
    def _utc(cls, moment: datetime | None) -> datetime | None:
        if moment is None or moment.tzinfo is not None:
            return moment
        return moment.replace(tzinfo=UTC)

    @model_validator(mode="after")
    def _window(self) -> Self:
        if self.since and self.until and self.until <= self.since:
            raise ValueError(f"until {self.until} is not after since {self.since}; give the earlier one as since")
        return self

    def overlaps(self, other: "Rename") -> bool:
        """Whether both apply to the same model at the same time."""
        apart = (self.until and other.since and self.until <= other.since) or (
            other.until and self.since and other.until <= self.since
        )
        return self.model == other.model and not apart


class GeneratedRule(Row):
    """Rule that says which items of benchmarks made on demand are kept (`curate bench generate`)."""

    alignment_min: float = Field(default=0.8, ge=0.0, le=1.0)
    """Smallest share of an image's check questions that must be answered as described; below it another image is
    drawn. The paper names no value, and its code has 0.0, which rejects nothing."""
    redraws_max: int = Field(default=2, ge=0, le=20)
    """Most further images of one description; then it is dropped."""
    blind_models_min: int | None = Field(default=3, ge=1)
    """An item is dropped when at least so many models were asked it without its image and all of them answered right;
    null for never."""
    people: bool = True
    """Whether an item is dropped when most of its raters find that its description or its question does not fit."""


class NearImages(Row):
    """When two different images count as near-duplicates; all conditions must hold."""

    phash_distance_max: int = Field(default=8, ge=0, le=64)
    """Maximum Hamming distance of the 64-bit DCT hashes."""
    pdq_distance_max: int = Field(default=48, ge=0, le=256)
    """Maximum Hamming distance of the 256-bit PDQ hashes."""
    grey_correlation_min: float = Field(default=0.975, ge=-1.0, le=1.0)
    """Minimum correlation of the 32 x 32 grey thumbnails."""
    colour_distance_max: float = Field(default=24.0, ge=0.0, le=363.0)
    """Maximum difference in chroma, 0 to 363, of a cell of the 16 x 16 thumbnails, after a paler copy was allowed for.
    Images whose colours were not measured are compared without."""


class SemanticImages(Row):
    """When two different images count as semantic near-duplicates. This alone drops nothing."""

    cosine_min: float = Field(default=0.9, ge=0.0, le=1.0)
    """Minimum cosine of the embeddings. It depends on the model; 0.9 fits the embedded one (docs/concepts.md)."""


class DriftBand(Row):
    """When a run is held: the share of new conversations that a reason drops differs from earlier runs."""

    runs_min: int = Field(default=5, ge=2)
    """Minimum number of earlier runs with new conversations under the same policy; with fewer, no run is held."""
    conversations_min: int = Field(default=100, ge=1)
    """Minimum number of new conversations; with fewer, the run is not held."""
    z_max: float = Field(default=4.0, gt=0)
    """Half width of the band in standard deviations, which combine counting noise and the spread of earlier runs."""
    difference_min: float = Field(default=0.05, ge=0, le=1)
    """Smaller differences of shares never hold a run, unless a reason has stopped dropping anything."""


class Extension(Row):
    """Keys of a policy file that starts from another policy and says only what differs."""

    extends: str
    """A shipped policy, or a YAML file beside this one, whose rules and keys this file changes."""
    remove: list[str] = []
    """Reasons of that policy's rules that this one does not have."""


class Linkage(Row):
    """How much the rows of a release tell together about one person. It drops nothing."""

    times: Literal["exact", "hour", "day", "month"] = "exact"
    """Times of rows: as logged, or the beginning of their hour, day or month (UTC)."""
    users: bool = True
    """Whether rows have the keyed hash of their user or voter. Without it, no column links the rows of a person, and
    boards leave out no outlier judges."""


class VoteRules(Row):
    """Rules that say which votes count on boards, and how much. Others stay in the release."""

    exclude_suspects: bool = False
    """Whether votes of suspects (docs/integrity.md) count nothing; by default the slice without_suspects shows that."""
    pair_votes_max: int | None = Field(default=None, ge=1)
    """Votes of one voter on one pair of models that count in full, the earliest; the others count as one vote together.
    Null for no limit, as for a judge's votes, which are no repetition."""
    day_votes_max: int | None = Field(default=None, ge=1)
    """Votes of one voter in one UTC day that count, the earliest; later ones count nothing, and neither at the arena.
    Null for no limit."""

    @property
    def about_voters(self) -> list[str]:
        """The rules that are in force, all of which need voters."""
        return [name for name, value in self.model_dump().items() if value]


class ModelFacts(Row):
    """Facts about a model, for the tables of who was given what. Null where nobody said."""

    version: str | None = None
    """The name under which it was asked, with its date or revision, such as gpt-4o-2024-05-13; in the card of a release
    beside its name (VisionArena Table 9)."""
    provider: str | None = None
    """Who made it."""
    licence: str | None = None
    """Licence of its weights, or proprietary."""
    open: bool | None = None
    """Whether its weights are open."""
    since: date | None = None
    """Day when it was published; null for a model that never was."""


class Policy(Row):
    """The rules that a release is made with."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    """Name of the policy."""
    about: str = ""
    """One sentence: who this policy is for."""
    publishable: bool = False
    """Whether everybody may see what it keeps; other releases cannot be published to a public repository."""
    licence: str | None = Field(default=None, pattern=r"^[a-z0-9][a-z0-9.-]{0,40}$")
    """Licence of the release, by its name on the Hub, such as cc-by-4.0; null while none is chosen."""
    contact: str | None = Field(default=None, min_length=3, max_length=200)
    """Contact for reports and removal requests, shown in the dataset card; null for the publisher."""
    publisher: str | None = Field(default=None, min_length=2, max_length=200)
    """Who publishes the release, as citations name them; null while nobody is named."""
    homepage: str | None = Field(default=None, max_length=200)
    """Address of the release's page, such as that of its repository on the Hub; null for none."""
    rules: list[Rule]
    """All rules; every one that fires is recorded."""
    near_images: NearImages = NearImages()
    """Thresholds of near-duplicate images."""
    semantic_images: SemanticImages | None = SemanticImages()
    """Threshold of semantic near-duplicates; null switches them off."""
    duplicates: DuplicateRule | None = DuplicateRule()
    """The duplicate rule; null switches it off."""
    known_benchmarks: KnownBenchmarkRule | None = KnownBenchmarkRule()
    """What becomes of chats with a picture or a question of a known benchmark; null switches it off."""
    near_prompts: NearPromptRule | None = None
    """The tag of almost equal prompts; null for none."""
    hot_prompts: HotPromptRule | None = None
    """The limit on battles with the same prompt; null for none."""
    generated: GeneratedRule | None = None
    """Which items of benchmarks made on demand are kept; null for the defaults of the rule."""
    drift: DriftBand | None = DriftBand()
    """When a run is held before its release; null for never. It does not change any decision."""
    linkage: Linkage = Linkage()
    """How coarse the times of released rows are, and whether rows of a person can be joined."""
    votes: VoteRules = VoteRules()
    """Rules that say which votes count on boards, and how much."""
    release_thinking: bool = False
    """Whether releases have what models thought aloud, which rules over messages and answers then look at, too."""
    renames: list[Rename] = []
    """Models to rename in releases and ratings; applied once, by the time of the conversation or vote."""
    excluded_models: list[str] = []
    """Models whose conversations are not released; matches the name before and after renaming."""
    open_models: list[str] = []
    """Models with open weights, for rules about `models`; matches the name before and after renaming. All others count
    as proprietary. A file may name an arena's models file instead: its models with `open: true`."""
    models: dict[str, ModelFacts] = {}
    """Facts about models under their released names. They decide nothing: the certificate counts battles by them. A
    file may name another YAML file with this mapping, or an arena's models file, instead."""
    banned_users: list[str] = []
    """Keyed user hashes whose conversations are not released. They stay in the store."""

    @property
    def rules_over_set(self) -> list[RuleOverSet]:
        """The rules that compare items with each other, as far as the policy has them."""
        rules = (self.duplicates, self.known_benchmarks, self.near_prompts, self.hot_prompts)
        return [rule for rule in rules if rule is not None]

    @model_validator(mode="after")
    def _keys_go_together(self) -> Self:
        if self.duplicates and self.duplicates.images == "semantic" and self.semantic_images is None:
            raise ValueError("duplicates with images: semantic need semantic_images: {cosine_min: …}")
        redacts = any("messages" in rule.over for rule in self.rules if rule.action is Action.REDACT)
        if self.release_thinking and redacts:
            raise ValueError("release_thinking: thinking is not redacted; leave it out, or let rules drop messages")
        return self

    @field_validator("homepage")
    @classmethod
    def _check_homepage(cls, homepage: str | None) -> str | None:
        if homepage is not None and not re.fullmatch(r"https?://[^\s<>\"\\]+", homepage):
            raise ValueError("must be an address such as https://huggingface.co/datasets/ORG/NAME")
        return homepage

    @field_validator("banned_users")
    @classmethod
    def _no_address(cls, users: list[str]) -> list[str]:
        """Policies are stored, so they must not contain addresses."""
        if any(_is_address(user) for user in users):
            raise ValueError("addresses are not allowed here; give the user_id that `curate explain` shows")
        return users

    @model_validator(mode="after")
    def _voters_are_known(self) -> Self:
        """Boards are computed from released rows alone."""
        if self.votes.about_voters and not self.linkage.users:
            raise ValueError(f"votes: {self.votes.about_voters[0]} needs voters; leave it out, or linkage: users true")
        if self.votes.day_votes_max and self.linkage.times == "month":
            raise ValueError("votes: day_votes_max needs days; leave it out, or give linkage: times day, hour or exact")
        return self

    @model_validator(mode="after")
    def _one_name_at_a_time(self) -> Self:
        for first, second in combinations(self.renames, 2):
            if first.overlaps(second):
                raise ValueError(f"renames of {first.model!r} overlap; give each a time of its own by since and until")
        return self


def policy_hash(policy: Policy, as_given: bool = False) -> str:
    """12 hex digits that change whenever the policy would decide differently.

    `as_given`: without the fields that were not given, as a version hashed that did not have them yet.
    """
    added_later = ("generated", "linkage", "open_models", "votes", "release_thinking", "known_benchmarks")
    unset = (key for key in added_later if getattr(policy, key) == Policy.model_fields[key].default)
    left_out: dict[str, Any] = dict.fromkeys(
        ("about", "drift", "licence", "contact", "publisher", "homepage", "models", *unset), True
    )
    if not any(rule.models for rule in policy.rules):  # as before rules could tell models
        left_out["rules"] = {"__all__": {"models"}}
    return hashlib.sha256(policy.model_dump_json(exclude=left_out, exclude_unset=as_given).encode()).hexdigest()[:12]


def released_policy(policy: Policy) -> Policy:
    """The policy as a release shows it: without its banned users, whom also its hash must not tell."""
    return policy.model_copy(update={"banned_users": []})


def _is_address(text: str) -> bool:
    try:
        ip_address(text.strip())
    except ValueError:
        return False
    return True
