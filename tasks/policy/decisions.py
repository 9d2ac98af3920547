"""Applies a policy to stored signals: one decision for every conversation and battle.

Redacted conversations are decided on their redacted texts and images: redact rules that still fire there drop them.
Rules about signals that describe an item decide in a second pass over what all other rules keep, because only that is
described; until it is, they drop it as not measured.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl

from schemas.items.decision import Decision, ItemKind, NearPrompt
from schemas.policy import Action, Over, Policy, Rule, RuleOverSet, Scope, policy_hash
from tasks.dedup.near_images import representatives
from tasks.dedup.near_prompts import near_prompts
from tasks.dedup.repeats import duplicates_of, hot_battles, preset_datasets
from tasks.policy.proof import repeated_words, unproven
from tasks.policy.review import held_reviews, reviewed
from tasks.policy.rules import (
    FIRED,
    STOPS,
    Step,
    battle_columns,
    conversation_columns,
    describes,
    fired,
    hit_columns,
    of_models,
    parts,
    reasons_of,
)
from tasks.storage.content_id import text_id
from tasks.storage.queries.released import renamed
from tasks.storage.queries.signals import Versions, signal_values
from tasks.storage.tables import Store, frame_schema

ItemFindings = Callable[[Store, pl.Series], pl.DataFrame]
"""(store, conversation ids) -> ITEM_COLUMNS of each, in order; no columns when the store has no written items."""


class StoredSignals:
    """Tables that decisions use, read once; several policies can be applied to one instance."""

    def __init__(self, store: Store, versions: Versions, findings: ItemFindings) -> None:
        """`findings` gives what is known of written items."""
        self.store = store
        self.versions = versions
        self._findings = findings
        self.battles = store.read("battles")

    @cached_property
    def conversations(self) -> pl.DataFrame:
        """Table `conversations` with the column `preset_dataset` and what is known of written items."""
        store = self.store
        conversations, presets = store.read("conversations"), store.read("presets")
        served = store.read("image_files", ["image_id", "name"])
        served = served.with_columns(logged_name=pl.col("name").str.slice(0, 32))
        as_served = presets.drop("image_id").join(served, on="logged_name").select(presets.columns)
        sightings = store.read("sightings", ["conv_id", "images"])
        near = store.read("near_images")
        preset = preset_datasets(conversations, sightings, presets.vstack(as_served), near)
        return conversations.with_columns(preset, *self._findings(store, conversations["conversation_id"]))

    @cached_property
    def parts(self) -> Mapping[Over, pl.DataFrame]:
        """The parts of every conversation."""
        return self.parts_of(self.conversations)

    def parts_to_screen(self, policy: Policy) -> Mapping[Over, pl.DataFrame]:
        """The parts of every conversation; thinking counts as an answer under a policy that releases it."""
        if not policy.release_thinking:
            return self.parts
        told = self.conversations.select("served", item_id="conversation_id").explode("served")
        thoughts = told.select("item_id", content_id=pl.col("served").struct.field("thinking_id")).drop_nulls()
        said = (Over.MESSAGES, Over.ASSISTANT_MESSAGES)
        return {**self.parts, **{over: pl.concat([self.parts[over], thoughts]) for over in said}}

    def parts_of(self, conversations: pl.DataFrame) -> Mapping[Over, pl.DataFrame]:
        """The parts of some conversations, redacted ones too."""
        read = self.signal("image_text", ["text"])
        text_ids = {image_id: text_id(text) if text else "" for image_id, text in read.iter_rows()}
        return parts(conversations, text_ids)

    def signal(self, name: str, columns: list[str] | None = None) -> pl.DataFrame:
        """Values of one signal by content id; empty when this run does not measure it."""
        return signal_values(self.store, name, self.versions.get(name, ""), columns)

    def stands(self, rule: Rule) -> bool:
        """Whether the rule applies: rules with `if_chosen` need a chosen provider."""
        return not rule.if_chosen or rule.signal.partition(".")[0] in self.versions

    def redacted(self, policy: Policy) -> pl.DataFrame:
        """Conversations as redacted by this policy."""
        return self.store.read("redacted_conversations").filter(policy_hash=policy_hash(policy))

    def image_of(self, items: pl.DataFrame, semantic: bool = False) -> Mapping[str, str]:
        """Image id -> its representative, for items with `image_ids`, `tstamp` and `conversation_id`; earliest first.

        With `semantic`, semantic near-duplicates count as duplicates too.
        """
        used = items.sort("tstamp", "conversation_id")["image_ids"].explode().drop_nulls()
        also = self.store.read("semantic_images") if semantic else None
        return representatives(used.unique(maintain_order=True), self.store.read("near_images"), also)


_STOPS = pl.col("action").is_in(STOPS)
_NO_REDACTIONS = pl.lit([], dtype=frame_schema(Decision)["redactions"])


class Verdicts(NamedTuple):
    """Result of applying a policy."""

    decisions: pl.DataFrame
    """The `decisions` table."""
    of_battles_alone: pl.DataFrame
    """item_id (of conversations) and reason of fired rules with scope battle."""
    near_prompts: pl.DataFrame
    """The `near_prompts` table."""


def verdicts(known: StoredSignals, policy: Policy) -> Verdicts:
    """Apply a policy to every conversation and battle. Each step asks only about what the earlier ones leave."""
    held, redacted = held_reviews(known.store), known.redacted(policy)

    # rules about what is measured on everything; what they redact must be proven
    screening, alone = conversation_hits(known, policy)
    screening = reviewed(screening, known.conversations, held)
    screening = pl.concat([screening, unproven(screening, redacted, known.parts_of(redacted), known.signal, policy)])

    # repeats among the rest
    repeats = _repeats(known, _left(known.conversations, screening), policy)
    duplicates = _over_set(policy.duplicates, repeats)
    screened = _left(known.conversations, screening, duplicates)

    # rules about what is measured only on the rest of that
    described, described_alone = described_hits(known, policy, screened)
    described = reviewed(described, known.conversations, held)
    near = _near_prompts(_left(screened, described), policy)
    near_hits = _over_set(policy.near_prompts, near["conversation_a"])

    hits = pl.concat([screening, duplicates, described, near_hits])
    conversations = _of_conversations(known, hits, repeats, policy).with_columns(
        kept_by_screening=pl.col("item_id").is_in(screened["conversation_id"].implode())
    )
    of_battles_alone = pl.concat([alone, described_alone])
    sides = pl.concat([screening.filter(_STOPS), described.filter(_STOPS), of_battles_alone])
    both = pl.concat([conversations, _of_battles(known, sides, policy)], how="diagonal")
    withheld = _withheld_words(known, redacted, policy)
    return Verdicts(_decisions(both, withheld, policy), of_battles_alone.select("item_id", "reason"), near)


def _decisions(items: pl.DataFrame, withheld: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """The `decisions` table of conversations and battles with their reasons."""
    stamped = items.with_columns(
        keep=pl.col("reasons").list.len() == 0, policy=pl.lit(policy.name), policy_hash=pl.lit(policy_hash(policy))
    )
    stamped = stamped.with_columns(pl.col("kept_by_screening").fill_null(pl.col("keep")))
    stamped = stamped.join(withheld, on=["item_kind", "item_id"], how="left")
    return stamped.select(frame_schema(Decision).names())


def _left(items: pl.DataFrame, *hits: pl.DataFrame, key: str = "conversation_id") -> pl.DataFrame:
    """The items that none of the fired rules drops or holds."""
    return items.filter(~pl.col(key).is_in(pl.concat(hits).filter(_STOPS)["item_id"].implode()))


def conversation_hits(known: StoredSignals, policy: Policy) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rules of the first pass that fire: those with scope conversation, and those with scope battle."""
    rules = [r for r in policy.rules if r.over is not Over.BATTLE and known.stands(r) and not describes(r)]
    stated = {Over.CONVERSATION: conversation_columns(known.conversations, policy)}
    hits = fired(rules, known.parts_to_screen(policy), known.signal, stated)
    return _by_scope(of_models(hits, rules, known.conversations, policy), rules)


def described_hits(known: StoredSignals, policy: Policy, kept: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rules of the second pass that fire on the conversations that the first one keeps, in the form to be released."""
    rules = [rule for rule in policy.rules if known.stands(rule) and describes(rule)]
    redacted = known.redacted(policy).join(kept, on="conversation_id", how="semi")
    untouched = kept.join(redacted, on="conversation_id", how="anti")
    read = ["conversation_id", "turns", "image_ids", "prompt_id", "document_id"]
    released = pl.concat([untouched.select(read), redacted.select(read)])
    parts = known.parts_of(released) if rules else {}
    hits = fired(rules, parts, known.signal, {}, Step.DESCRIPTION)
    return _by_scope(of_models(hits, rules, known.conversations, policy), rules)


def _by_scope(hits: pl.DataFrame, rules: Sequence[Rule]) -> tuple[pl.DataFrame, pl.DataFrame]:
    alone = pl.col("place").is_in([place for place, rule in enumerate(rules) if rule.scope is Scope.BATTLE])
    return hits.filter(~alone), hits.filter(alone)


def _over_set(rule: RuleOverSet | None, items: Iterable[str]) -> pl.DataFrame:
    """A rule over the whole set as fired on these items; nothing when the policy has no such rule."""
    if rule is None:
        return pl.DataFrame(schema=FIRED)
    rows = [(item, Step.SET, 0, rule.reason, rule.action.value) for item in sorted(items)]
    return pl.DataFrame(rows, schema=FIRED, orient="row")


def _repeats(known: StoredSignals, survivors: pl.DataFrame, policy: Policy) -> Mapping[str, str]:
    """Conversation -> the one that it repeats."""
    if policy.duplicates is None:
        return {}
    stored = known.signal("text_embedding", ["vector"])
    vectors = {prompt: np.array(vector, np.float32) for prompt, vector in stored.iter_rows()}
    image_of = known.image_of(survivors, policy.duplicates.images == "semantic")
    return duplicates_of(survivors, vectors, image_of, policy.duplicates)


def _near_prompts(kept: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """The `near_prompts` table of the conversations that both passes keep."""
    if policy.near_prompts is None:
        return pl.DataFrame(schema=frame_schema(NearPrompt))
    return near_prompts(kept, policy.near_prompts.jaccard_min)


def _of_conversations(
    known: StoredSignals, hits: pl.DataFrame, repeats: Mapping[str, str], policy: Policy
) -> pl.DataFrame:
    """The decision on each conversation."""
    own = known.redacted(policy).select("redactions", item_id="conversation_id")
    reasons = reasons_of(hits, known.conversations["conversation_id"])
    return reasons.join(own, on="item_id", how="left", maintain_order="left").with_columns(
        pl.col("redactions").fill_null(_NO_REDACTIONS),
        item_kind=pl.lit(ItemKind.CONVERSATION.value),
        duplicate_of=pl.col("item_id").replace_strict(repeats, default=None, return_dtype=pl.String),
        preset_dataset=known.conversations["preset_dataset"],
    )


def _of_battles(known: StoredSignals, hits: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """A battle is dropped when a rule stops either conversation, or by a battle rule. Duplicates do not drop battles.

    A conversation that was removed by a takedown counts as not measured.
    """
    battles = renamed(known.battles, policy.renames)
    rules = [rule for rule in policy.rules if rule.over is Over.BATTLE]
    stated = {Over.BATTLE: battle_columns(battles)}
    own = fired(rules, {}, lambda name: pl.DataFrame(), stated, Step.BATTLE)
    sides = pl.concat(battles.select("battle_id", item_id=side) for side in ("conversation_a", "conversation_b"))
    gone = sides.join(known.conversations, left_on="item_id", right_on="conversation_id", how="anti").with_columns(
        **hit_columns(Step.SCREENING, 0, "unmeasured_conversation", Action.DROP)
    )
    inherited = pl.concat([sides.join(hits, on="item_id"), gone.select("battle_id", *FIRED.names())])
    all_hits = pl.concat([inherited.drop("item_id").rename({"battle_id": "item_id"}), own])
    hot = _hot(known, _left(battles, all_hits, key="battle_id"), policy)
    all_hits = pl.concat([all_hits, _over_set(policy.hot_prompts, hot)])
    return reasons_of(all_hits, battles["battle_id"]).with_columns(
        item_kind=pl.lit(ItemKind.BATTLE.value),
        redactions=_NO_REDACTIONS,
        duplicate_of=pl.lit(None, pl.String),
        preset_dataset=pl.lit(None, pl.String),
    )


def _withheld_words(known: StoredSignals, redacted: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """item_kind, item_id and `vote_reason_withheld` of the battles whose voters wrote something.

    Withheld by every rule over users' messages that drops, holds or redacts, and where they repeat what is redacted in
    the battle: words of a vote are not redacted. A rule about a signal that describes
    withholds them until it is measured.
    """
    written = known.battles.drop_nulls("vote_reason_id").select(item_id="battle_id", content_id="vote_reason_id")
    over = {Over.MESSAGES: written, Over.USER_MESSAGES: written}
    rules = [r for r in policy.rules if r.over in over and r.action is not Action.TAG and known.stands(r)]
    hits = fired(rules, over, known.signal, {})
    hits = pl.concat([hits, repeated_words(known.battles, known.conversations, redacted, known.signal, policy)])
    reasons = reasons_of(hits.with_columns(action=pl.lit(Action.DROP.value)), written["item_id"])
    battle = pl.lit(ItemKind.BATTLE.value).alias("item_kind")
    return reasons.select(battle, "item_id", vote_reason_withheld="reasons")


def _hot(known: StoredSignals, survivors: pl.DataFrame, policy: Policy) -> list[str]:
    """Battles beyond the limit for their prompt."""
    rule = policy.hot_prompts
    if rule is None:
        return []
    left = known.conversations.select("conversation_id", "prompt_id", "image_ids")
    shown = survivors.select("battle_id", "tstamp", conversation_id="conversation_a").join(left, on="conversation_id")
    return hot_battles(shown, known.image_of(shown) if rule.images == "near" else {}, rule)
