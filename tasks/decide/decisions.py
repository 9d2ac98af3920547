"""A policy over the facts of a store -> a decision for every conversation and battle."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import polars as pl

from schemas.decision import Decision, ItemKind, NearPrompt
from schemas.policy import Action, Over, Policy, Scope
from tasks.decide.evidence import Evidence
from tasks.decide.facts import battle_facts, conversation_facts
from tasks.decide.near_prompts import near_prompts
from tasks.decide.policy_file import policy_hash
from tasks.decide.proof import redactions, unproven
from tasks.decide.repeats import duplicates_of, hot_battles
from tasks.decide.review import reviewed
from tasks.decide.rules import FIRED, STOPS, fired, reasons_of
from tasks.lookup.renames import renamed
from tasks.tables import frame_schema

_STOPS = pl.col("action").is_in(STOPS)


class Verdicts(NamedTuple):
    """What a policy says."""

    decisions: pl.DataFrame
    """The `decisions` table."""
    of_battles_alone: pl.DataFrame
    """item_id of conversations and reason of the rules that fire on them but are about their battle alone."""
    near_prompts: pl.DataFrame
    """The `near_prompts` table."""


def verdicts(known: Evidence, policy: Policy) -> Verdicts:
    """What a policy says of every conversation and battle."""
    hits, of_battles_alone = conversation_hits(known, policy)
    hits = reviewed(hits, known.conversations, known.store.read("reviews"))
    hits = pl.concat([hits, unproven(known, hits, policy)])
    decided, near = _of_conversations(known, hits, policy)
    both = [decided, _of_battles(known, pl.concat([hits.filter(_STOPS), of_battles_alone]), policy)]
    stamped = pl.concat(both, how="diagonal").with_columns(
        keep=pl.col("reasons").list.len() == 0, policy=pl.lit(policy.name), policy_hash=pl.lit(policy_hash(policy))
    )
    decisions = stamped.select(frame_schema(Decision).names())
    return Verdicts(decisions, of_battles_alone.select("item_id", "reason"), near)


def conversation_hits(known: Evidence, policy: Policy) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Every rule that fires on a conversation: those about the conversation, and those about its battle alone."""
    rules = [rule for rule in policy.rules if rule.over is not Over.BATTLE and known.stands(rule)]
    stated = {Over.CONVERSATION: conversation_facts(known.conversations, policy)}
    hits = fired(rules, known.parts, known.facts, stated)
    alone = pl.col("place").is_in([place for place, rule in enumerate(rules) if rule.scope is Scope.BATTLE])
    return hits.filter(~alone), hits.filter(alone)


def _of_conversations(known: Evidence, hits: pl.DataFrame, policy: Policy) -> tuple[pl.DataFrame, pl.DataFrame]:
    """What becomes of each conversation, and the `near_prompts` among those that are kept."""
    repeats = _repeats(known, _without(known.conversations, "conversation_id", hits), policy)
    if policy.duplicates:
        hits = pl.concat([hits, _last(repeats, policy, policy.duplicates.reason, policy.duplicates.action)])
    near = pl.DataFrame(schema=frame_schema(NearPrompt))
    if rule := policy.near_prompts:
        near = near_prompts(_without(known.conversations, "conversation_id", hits), rule.jaccard_min)
        hits = pl.concat([hits, _last(near["conversation_a"], policy, rule.reason, Action.TAG)])
    reasons = reasons_of(hits, known.conversations["conversation_id"])
    decided = reasons.with_columns(
        redactions(known, reasons, policy),
        item_kind=pl.lit(ItemKind.CONVERSATION.value),
        duplicate_of=pl.col("item_id").replace_strict(repeats, default=None, return_dtype=pl.String),
        preset_dataset=known.conversations["preset_dataset"],
    )
    return decided, near


def _repeats(known: Evidence, survivors: pl.DataFrame, policy: Policy) -> Mapping[str, str]:
    if policy.duplicates is None:
        return {}
    stored = known.facts("text_embedding", ["vector"])
    vectors = {prompt: np.array(vector, np.float32) for prompt, vector in stored.iter_rows()}
    picture_of = known.picture_of(survivors, policy.duplicates.pictures == "semantic")
    return duplicates_of(survivors, vectors, picture_of, policy.duplicates)


def _of_battles(known: Evidence, hits: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """A battle falls with either side, and then by rules of its own; that a side is repeated does not matter.

    A side that is no longer there, because somebody asked for its removal, counts as not measured.
    """
    battles = renamed(known.battles, policy.renames)
    rules = [rule for rule in policy.rules if rule.over is Over.BATTLE]
    own = fired(rules, {}, lambda name: pl.DataFrame(), {Over.BATTLE: battle_facts(battles)})
    own = own.with_columns(pl.col("place") + len(policy.rules) + 1)
    sides = pl.concat(battles.select("battle_id", item_id=side) for side in ("conversation_a", "conversation_b"))
    gone = sides.join(known.conversations, left_on="item_id", right_on="conversation_id", how="anti").with_columns(
        place=pl.lit(0, pl.Int64), reason=pl.lit("unmeasured_conversation"), action=pl.lit(Action.DROP.value)
    )
    inherited = pl.concat([sides.join(hits, on="item_id"), gone.select("battle_id", *FIRED.names())])
    all_hits = pl.concat([inherited.drop("item_id").rename({"battle_id": "item_id"}), own])
    all_hits = pl.concat([all_hits, _too_many(known, _without(battles, "battle_id", all_hits), policy)])
    return reasons_of(all_hits, battles["battle_id"]).with_columns(
        item_kind=pl.lit(ItemKind.BATTLE.value),
        redactions=pl.lit([], dtype=frame_schema(Decision)["redactions"]),
        duplicate_of=pl.lit(None, pl.String),
        preset_dataset=pl.lit(None, pl.String),
    )


def _too_many(known: Evidence, survivors: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """What fires on battles beyond the limit of their prompt."""
    rule = policy.hot_prompts
    if rule is None:
        return pl.DataFrame(schema=FIRED)
    left = known.conversations.select("conversation_id", "prompt_id", "image_ids")
    shown = survivors.select("battle_id", "tstamp", conversation_id="conversation_a").join(left, on="conversation_id")
    hot = hot_battles(shown, known.picture_of(shown) if rule.pictures == "near" else {}, rule)
    return _last(hot, policy, rule.reason, rule.action)


def _without(items: pl.DataFrame, key: str, hits: pl.DataFrame) -> pl.DataFrame:
    """The items that nothing drops or holds."""
    return items.filter(~pl.col(key).is_in(hits.filter(_STOPS)["item_id"].implode()))


def _last(items: Iterable[str], policy: Policy, reason: str, action: Action) -> pl.DataFrame:
    """What a rule over the set adds to the hits, after every other rule."""
    place = 2 * len(policy.rules) + 1
    return pl.DataFrame([(item, place, reason, action.value) for item in sorted(items)], schema=FIRED, orient="row")
