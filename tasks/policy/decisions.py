"""Applies a policy to stored signals: one decision for every conversation and battle.

Redacted conversations are decided on their redacted texts and images: redact rules that still fire there drop them.
Rules about signals that describe an item decide in a second pass over what all other rules keep, because only that is
described; until it is, they drop it as not measured.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import polars as pl

from schemas.items.decision import Decision, ItemKind, NearPrompt
from schemas.policy import Action, Over, Policy, Rule, RuleOverSet, Scope, policy_hash
from tasks.dedup.near_images import representatives
from tasks.dedup.near_prompts import near_prompts
from tasks.dedup.repeats import asked_ids, by_embedding, duplicates_of, hot_battles, preset_datasets
from tasks.policy.redact_step import repeated_words, unproven
from tasks.policy.rules import (
    FIRED,
    STOPS,
    TEXT_COLUMNS,
    Step,
    battle_columns,
    conversation_columns,
    describes,
    fired,
    hit_columns,
    image_text_parts,
    logged_parts,
    of_models,
    parts_as_redacted,
    present_verdicts,
    reasons_of,
    reviewed,
    thought_parts,
)
from tasks.runtime.arrays import Vectors
from tasks.storage.content_id import id_of, number_of, text_id
from tasks.storage.parquet import compact
from tasks.storage.queries.released import renamed
from tasks.storage.queries.signals import StoredVectors, Versions, signal_facts, signal_values
from tasks.storage.queries.texts import TEXTS_AT_ONCE
from tasks.storage.tables import Store, frame_schema

ItemFindings = Callable[[Store, pl.Series], pl.DataFrame]
"""(store, conversation ids) -> ITEM_COLUMNS of each, in order; no columns when the store has no written items."""

_CONVERSATIONS = """
    -- a row is one conversation with what rules use of it; its messages are for TEXT_COLUMNS alone
    SELECT conversation_id, model, num_turns, null_turns, prompt_id, image_ids, image_problems, unread_parts, tstamp,
        user_id, voted, feedback, turns
    FROM conversations
"""
_LEFT_NAMES = """
    -- a row is one conversation as redacted by this policy, with its messages, in which names stay
    SELECT conversation_id, turns, left_names
    FROM redacted_conversations
    WHERE policy_hash = $policy_hash AND len(left_names) > 0
"""
_OF_SET = ["conversation_id", "prompt_id", "image_ids", "num_turns", "tstamp", "voted"]
"""Columns that rules over the whole set need."""


class StoredSignals:
    """Tables that decisions use, read once and without texts; several policies can be applied to one instance."""

    def __init__(self, store: Store, versions: Versions, findings: ItemFindings) -> None:
        """`findings` gives what is known of written items."""
        self.store = store
        self.versions = versions
        self._findings = findings
        self.battles = store.read("battles")

    @cached_property
    def conversations(self) -> pl.DataFrame:
        """Table `conversations` without its texts, with TEXT_COLUMNS, `preset_dataset` and findings on written items.

        `prompt_id` is `number_of` it.
        """
        textless_frames = list[pl.DataFrame]()
        for with_texts in self.store.batches(_CONVERSATIONS, TEXTS_AT_ONCE):
            # A row is one conversation; compact, because the frame would hold the messages too.
            textless = compact(with_texts.with_columns(**TEXT_COLUMNS).drop("turns"))
            textless_frames.append(textless.with_columns(number_of(pl.col("prompt_id"))))
        conversations = pl.concat(textless_frames)
        preset_of_each = preset_datasets(self.store, conversations)
        item_findings = self._findings(self.store, conversations["conversation_id"])
        return conversations.with_columns(preset_of_each, *item_findings)

    @cached_property
    def parts(self) -> Mapping[Over, pl.DataFrame]:
        """The parts of every conversation."""
        return self._with_image_texts(logged_parts(self.store))

    def parts_to_screen(self, policy: Policy) -> Mapping[Over, pl.DataFrame]:
        """The parts of every conversation; thinking counts as an answer under a policy that releases it."""
        if not policy.release_thinking:
            return self.parts
        thoughts = thought_parts(self.store)
        with_thoughts = {
            over: pl.concat([self.parts[over], thoughts]) for over in (Over.MESSAGES, Over.ASSISTANT_MESSAGES)
        }
        return {**self.parts, **with_thoughts}

    def redacted_parts(self, policy: Policy) -> Mapping[Over, pl.DataFrame]:
        """The parts of conversations as redacted by this policy."""
        return self._with_image_texts(parts_as_redacted(self.store, policy_hash(policy)))

    def _with_image_texts(self, parts: Mapping[Over, pl.DataFrame]) -> Mapping[Over, pl.DataFrame]:
        return {**parts, Over.IMAGE_TEXTS: image_text_parts(parts[Over.IMAGES], self._image_texts)}

    @cached_property
    def _image_texts(self) -> pl.DataFrame:
        """content_id of each image that was read, and text_id of what was read in it, null for nothing."""
        read = pl.col("text").map_batches(lambda texts: texts.map_elements(text_id, pl.String), pl.String)
        return self.facts("image_text", {"text_id": number_of(pl.when(pl.col("text") != "").then(read))})

    def facts(self, name: str, facts: Mapping[str, pl.Expr]) -> pl.DataFrame:
        """Facts about the values of one signal (`signal_facts`); none when this run does not measure it."""
        return signal_facts(self.store, name, self.versions.get(name, ""), facts)

    def signal(self, name: str, columns: list[str] | None = None) -> pl.DataFrame:
        """Values of one signal by content id; empty when this run does not measure it."""
        return signal_values(self.store, name, self.versions.get(name, ""), columns)

    def vectors(self, prompts: pl.Series) -> Mapping[int, Vectors]:
        """The embeddings of prompts, by `number_of` their ids, as far as this run measures them."""
        ids = prompts.map_elements(id_of, pl.String)
        embeddings = StoredVectors(self.store, "text_embedding", self.versions, ids).all()
        return {number: embeddings[name] for number, name in zip(prompts, ids, strict=True) if name in embeddings}

    def stands(self, rule: Rule) -> bool:
        """Whether the rule applies: rules with `if_chosen` need a chosen provider."""
        return not rule.if_chosen or rule.signal.partition(".")[0] in self.versions

    def redacted(self, policy: Policy) -> pl.DataFrame:
        """conversation_id and redactions of the conversations as redacted by this policy."""
        columns = ["conversation_id", "redactions", "policy_hash"]
        rows = self.store.read("redacted_conversations", columns).filter(policy_hash=policy_hash(policy))
        return rows.drop("policy_hash")

    def with_left_names(self, policy: Policy) -> pl.DataFrame:
        """Conversations as redacted by this policy in which names stay, with their texts."""
        return pl.concat(self.store.batches(_LEFT_NAMES, policy_hash=policy_hash(policy)))

    def image_of(self, items: pl.DataFrame, semantic: bool = False) -> Mapping[str, str]:
        """Image id -> its representative, for items with `image_ids`, `tstamp` and `conversation_id`; earliest first.

        Images that are near no other are left out. With `semantic`, semantic near-duplicates count as duplicates too.
        """
        near = self.store.read("near_images")
        also = self.store.read("semantic_images") if semantic else None
        pairs = pl.concat(relation.select("image_a", "image_b") for relation in (near, also) if relation is not None)
        ends = pl.concat([pairs["image_a"], pairs["image_b"]]).unique()
        used = items.select("image_ids", "tstamp", "conversation_id").sort("tstamp", "conversation_id")
        image_ids = used["image_ids"].explode().drop_nulls()
        return representatives(
            image_ids.filter(image_ids.is_in(ends.implode())).unique(maintain_order=True), near, also
        )


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


def verdicts(signals: StoredSignals, policy: Policy) -> Verdicts:
    """Apply a policy to every conversation and battle. Each step asks only about what the earlier ones leave."""
    review_verdicts, redacted = present_verdicts(signals.store), signals.redacted(policy)

    # Rules about what is measured on everything; what they redact must be proven. A rule of scope battle stops the
    # battles of a conversation and not the conversation: such hits go apart from here on, and past `reviewed`, as none
    # holds (`load_policy` refuses it).
    screening, alone = conversation_hits(signals, policy)
    screening = reviewed(screening, review_verdicts)
    named, redacted_parts = signals.with_left_names(policy), signals.redacted_parts(policy)
    unproven_hits = unproven(screening, redacted, named, redacted_parts, signals.facts, signals.signal, policy)
    screening = pl.concat([screening, unproven_hits])

    # what other people's benchmarks hold; before repeats, so that a dropped conversation represents no other
    held_elsewhere = _over_set(policy.known_benchmarks, _of_benchmarks(signals.store, policy))
    screening = pl.concat([screening, held_elsewhere])

    # repeats among the rest; `screened` are the conversations that a model describes
    conversations = signals.conversations.select(_OF_SET)
    repeats = _repeats(signals, _left(conversations, screening), policy)
    duplicates = _over_set(policy.duplicates, repeats)
    screened = _left(conversations, screening, duplicates)

    # rules about what is measured only on the rest of that
    described, described_alone = described_hits(signals, policy, screened)
    described = reviewed(described, review_verdicts)
    near = _near_prompts(signals, _left(screened, described), policy)
    near_hits = _over_set(policy.near_prompts, near["conversation_a"])

    hits = pl.concat([screening, duplicates, described, near_hits])
    decided = _of_conversations(signals, hits, repeats, policy).with_columns(
        kept_by_screening=pl.col("item_id").is_in(screened["conversation_id"].implode())
    )
    of_battles_alone = pl.concat([alone, described_alone])
    sides = pl.concat([screening.filter(_STOPS), described.filter(_STOPS), of_battles_alone])
    both = pl.concat([decided, _of_battles(signals, sides, policy)], how="diagonal")
    withheld = _withheld_words(signals, redacted, policy)
    return Verdicts(_decisions(both, withheld, policy), of_battles_alone.select("item_id", "reason"), near)


def _decisions(items: pl.DataFrame, withheld: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """The `decisions` table of conversations and battles with their reasons."""
    stamped = items.with_columns(
        keep=pl.col("reasons").list.len() == 0, policy=pl.lit(policy.name), policy_hash=pl.lit(policy_hash(policy))
    )
    stamped = stamped.with_columns(pl.col("kept_by_screening").fill_null(pl.col("keep")))
    stamped = stamped.join(withheld, on=["item_kind", "item_id"], how="left", maintain_order="left")
    return stamped.select(frame_schema(Decision).names())


def _left(items: pl.DataFrame, *hits: pl.DataFrame, key: str = "conversation_id") -> pl.DataFrame:
    """The items that none of the fired rules drops or holds."""
    return items.filter(~pl.col(key).is_in(pl.concat(hits).filter(_STOPS)["item_id"].implode()))


def conversation_hits(signals: StoredSignals, policy: Policy) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rules of the first pass that fire: those with scope conversation, and those with scope battle."""
    rules = [r for r in policy.rules if r.over is not Over.BATTLE and signals.stands(r) and not describes(r)]
    stated = {Over.CONVERSATION: conversation_columns(signals.conversations, policy)}
    hits = fired(rules, signals.parts_to_screen(policy), signals.facts, stated)
    return _by_scope(of_models(hits, rules, signals.conversations, policy), rules)


def described_hits(signals: StoredSignals, policy: Policy, kept: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rules of the second pass that fire on the conversations that the first one keeps, in the form to be released."""
    rules = [rule for rule in policy.rules if signals.stands(rule) and describes(rule)]
    redacted, items = signals.redacted(policy), kept.select(item_id="conversation_id")
    untouched = items.join(redacted, left_on="item_id", right_on="conversation_id", how="anti")
    forms = [(signals.parts, untouched), (signals.redacted_parts(policy), items)]
    parts = {
        over: pl.concat(form_parts[over].join(form_items, on="item_id", how="semi") for form_parts, form_items in forms)
        for over in {rule.over for rule in rules}
    }
    hits = fired(rules, parts, signals.facts, {}, Step.DESCRIPTION)
    return _by_scope(of_models(hits, rules, signals.conversations, policy), rules)


def _by_scope(hits: pl.DataFrame, rules: Sequence[Rule]) -> tuple[pl.DataFrame, pl.DataFrame]:
    alone = pl.col("place").is_in([place for place, rule in enumerate(rules) if rule.scope is Scope.BATTLE])
    return hits.filter(~alone), hits.filter(alone)


def _over_set(rule: RuleOverSet | None, items: Iterable[str]) -> pl.DataFrame:
    """A rule over the whole set as fired on these items; nothing when the policy has no such rule."""
    if rule is None:
        return pl.DataFrame(schema=FIRED)
    rows = [(item, Step.SET, 0, rule.reason, rule.action.value) for item in sorted(items)]
    return pl.DataFrame(rows, schema=FIRED, orient="row")


def _repeats(stored_signals: StoredSignals, survivors: pl.DataFrame, policy: Policy) -> Mapping[str, str]:
    """Conversation -> the one that it repeats."""
    if policy.duplicates is None:
        return {}
    image_of = stored_signals.image_of(survivors, policy.duplicates.images == "semantic")
    compared = survivors.filter(~by_embedding(policy.duplicates)).select("conversation_id")
    asked_questions = asked_ids(stored_signals.store, compared)
    survivors = survivors.join(asked_questions, on="conversation_id", how="left", maintain_order="left")
    return duplicates_of(survivors, stored_signals.vectors, image_of, policy.duplicates)


def _of_benchmarks(store: Store, policy: Policy) -> pl.Series:
    """Conversations that hold what the rule about known benchmarks looks for."""
    matches = store.read("known_matches", ["conversation_id", "picture", "question"])
    if policy.known_benchmarks is None:
        return matches["conversation_id"].clear()
    shows, asks = pl.col("picture").is_not_null(), pl.col("question").is_not_null()
    holds = {"either": shows | asks, "picture": shows, "question": asks, "both": shows & asks}
    return matches.filter(holds[policy.known_benchmarks.holds])["conversation_id"].unique()


def _near_prompts(stored_signals: StoredSignals, kept: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """The `near_prompts` table of the conversations that both passes keep."""
    if policy.near_prompts is None:
        return pl.DataFrame(schema=frame_schema(NearPrompt))
    return near_prompts(stored_signals.store, kept, policy.near_prompts.jaccard_min)


def _of_conversations(
    stored_signals: StoredSignals, hits: pl.DataFrame, repeats: Mapping[str, str], policy: Policy
) -> pl.DataFrame:
    """The decision on each conversation."""
    redactions = stored_signals.redacted(policy).select("redactions", item_id="conversation_id")
    reasons = reasons_of(hits, stored_signals.conversations["conversation_id"])
    return reasons.join(redactions, on="item_id", how="left", maintain_order="left").with_columns(
        pl.col("redactions").fill_null(_NO_REDACTIONS),
        item_kind=pl.lit(ItemKind.CONVERSATION.value),
        duplicate_of=pl.col("item_id").replace_strict(repeats, default=None, return_dtype=pl.String),
        preset_dataset=stored_signals.conversations["preset_dataset"],
    )


def _of_battles(stored_signals: StoredSignals, hits: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """A battle is dropped when a rule stops either conversation, or by a battle rule.

    Repeats, exact ones and near prompts, do not drop battles: the votes on them are others.

    A conversation that was removed by a takedown counts as not measured.
    """
    battles = renamed(stored_signals.battles, policy.renames)
    rules = [rule for rule in policy.rules if rule.over is Over.BATTLE]
    stated = {Over.BATTLE: battle_columns(battles)}
    battle_hits = fired(rules, {}, stored_signals.facts, stated, Step.BATTLE)
    sides = pl.concat(battles.select("battle_id", item_id=side) for side in ("conversation_a", "conversation_b"))
    gone = sides.join(
        stored_signals.conversations, left_on="item_id", right_on="conversation_id", how="anti"
    ).with_columns(**hit_columns(Step.SCREENING, 0, "unmeasured_conversation", Action.DROP))
    inherited = pl.concat([sides.join(hits, on="item_id"), gone.select("battle_id", *FIRED.names())])
    all_hits = pl.concat([inherited.drop("item_id").rename({"battle_id": "item_id"}), battle_hits])
    hot = _hot(stored_signals, _left(battles, all_hits, key="battle_id"), policy)
    all_hits = pl.concat([all_hits, _over_set(policy.hot_prompts, hot)])
    return reasons_of(all_hits, battles["battle_id"]).with_columns(
        item_kind=pl.lit(ItemKind.BATTLE.value),
        redactions=_NO_REDACTIONS,
        duplicate_of=pl.lit(None, pl.String),
        preset_dataset=pl.lit(None, pl.String),
    )


def _withheld_words(stored_signals: StoredSignals, redacted: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """item_kind, item_id and `vote_reason_withheld` of the battles whose voters wrote something.

    Withheld by every rule over users' messages that drops, holds or redacts, and where they repeat what is redacted in
    the battle: words of a vote are not redacted, so each of these actions counts as a drop here. A rule about a signal
    that describes withholds them until it is measured.
    """
    written = stored_signals.battles.drop_nulls("vote_reason_id").select(
        item_id="battle_id", content_id=number_of(pl.col("vote_reason_id"))
    )
    over = {Over.MESSAGES: written, Over.USER_MESSAGES: written}
    rules = [r for r in policy.rules if r.over in over and r.action is not Action.TAG and stored_signals.stands(r)]
    hits = fired(rules, over, stored_signals.facts, {})
    hits = pl.concat(
        [hits, repeated_words(stored_signals.store, stored_signals.battles, redacted, stored_signals.signal, policy)]
    )
    reasons = reasons_of(hits.with_columns(action=pl.lit(Action.DROP.value)), written["item_id"])
    battle = pl.lit(ItemKind.BATTLE.value).alias("item_kind")
    return reasons.select(battle, "item_id", vote_reason_withheld="reasons")


def _hot(stored_signals: StoredSignals, survivors: pl.DataFrame, policy: Policy) -> list[str]:
    """Battles beyond the limit for their prompt."""
    rule = policy.hot_prompts
    if rule is None:
        return []
    prompts = stored_signals.conversations.select("conversation_id", "prompt_id", "image_ids")
    battle_prompts = survivors.select("battle_id", "tstamp", conversation_id="conversation_a").join(
        prompts, on="conversation_id"
    )
    return hot_battles(battle_prompts, stored_signals.image_of(battle_prompts) if rule.images == "near" else {}, rule)
