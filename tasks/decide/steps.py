"""The Prefect skin of decide: near-duplicate pictures, then a decision for every conversation and battle."""

from collections.abc import Mapping
from functools import partial

import numpy as np
import polars as pl
from prefect import task
from prefect.cache_policies import NO_CACHE

from schemas.decision import Decision, ItemKind
from schemas.policy import Action, Over, Policy
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.content_id import text_id
from tasks.decide.duplicates import duplicates_of, preset_datasets
from tasks.decide.facts import battle_facts, conversation_facts, parts
from tasks.decide.near_pictures import representatives
from tasks.decide.near_search import update_near_pictures
from tasks.decide.policy_file import load_policy, policy_hash
from tasks.decide.redact import redact_rules
from tasks.decide.redact_step import redact_store
from tasks.decide.rules import FIRED, STOPS, fired, reasons_of
from tasks.lookup.facts import Versions, facts
from tasks.tables import Store, frame_schema
from tasks.timing import timed


@task(cache_policy=NO_CACHE)
@timed
def find_near_pictures(settings: Settings, versions: Versions) -> StageReport:
    """`image_hash` and `image_embedding` -> `near_pictures`; only what is new is searched for."""
    radius = load_policy(settings.policy).near_pictures
    counts = update_near_pictures(Store.open(settings.store), radius, versions)
    return StageReport(stage="near_pictures", counts=counts)


@task(cache_policy=NO_CACHE)
@timed
def redact_items(settings: Settings, versions: Versions) -> StageReport:
    """What redact rules want out, as far as it is known -> `redacted_conversations`, `redacted_images`."""
    store = Store.open(settings.store)
    policy = load_policy(settings.policy)
    conversations = _with_presets(store)
    hits = _fired(store, conversations, policy, versions)
    facts_of = partial(_facts, store, versions)
    counts = redact_store(store, conversations, hits, policy, facts_of, settings.workers)
    return StageReport(stage="redact", counts=counts)


@task(cache_policy=NO_CACHE)
@timed
def decide_items(settings: Settings, versions: Versions) -> StageReport:
    """Facts and the policy -> `decisions`."""
    store = Store.open(settings.store)
    policy = load_policy(settings.policy)
    conversations = _with_presets(store)
    hits = _fired(store, conversations, policy, versions)
    hits = pl.concat([hits, _unproven(store, hits, policy, versions)])
    of_conversations = _decide_conversations(store, conversations, hits, policy, versions)
    of_battles = _decide_battles(store.read("battles"), conversations, hits, policy)
    decided = pl.concat([of_conversations, of_battles], how="diagonal")
    stamped = decided.with_columns(
        keep=pl.col("reasons").list.len() == 0, policy=pl.lit(policy.name), policy_hash=pl.lit(policy_hash(policy))
    )
    store.write_bytes(f"policies/{policy_hash(policy)}.json", policy.model_dump_json(indent=2).encode())
    store.replace("decisions", stamped.select(frame_schema(Decision).names()))
    kept = stamped.filter("keep")["item_kind"].value_counts().rows()
    held = int(stamped["held"].sum())
    counts = {f"kept_{kind}s": count for kind, count in kept} | ({"held": held} if held else {})
    return StageReport(stage="decide", counts=counts | {"items": stamped.height})


def _with_presets(store: Store) -> pl.DataFrame:
    conversations = store.read("conversations")
    sightings = store.read("sightings", ["conv_id", "pictures"])
    presets = store.read("presets")
    served = store.read("picture_files", ["image_id", "name"]).with_columns(logged_name=pl.col("name").str.slice(0, 32))
    as_served = presets.drop("image_id").join(served, on="logged_name").select(presets.columns)
    datasets = preset_datasets(conversations, sightings, presets.vstack(as_served), store.read("near_pictures"))
    return conversations.with_columns(datasets)


def _fired(store: Store, conversations: pl.DataFrame, policy: Policy, versions: Versions) -> pl.DataFrame:
    """Every rule that fires on every conversation."""
    rules = [rule for rule in policy.rules if rule.over is not Over.BATTLE]
    stated = {Over.CONVERSATION: conversation_facts(conversations, policy)}
    return fired(rules, _parts(store, conversations, versions), partial(_facts, store, versions), stated)


def _facts(store: Store, versions: Versions, signal: str) -> pl.DataFrame:
    return facts(store, signal, versions[signal])


def _parts(store: Store, conversations: pl.DataFrame, versions: Versions) -> dict[Over, pl.DataFrame]:
    read = facts(store, "image_text", versions["image_text"], ["text"])
    text_ids = {image_id: text_id(text) if text else "" for image_id, text in read.iter_rows()}
    return parts(conversations, text_ids)


def _unproven(store: Store, hits: pl.DataFrame, policy: Policy, versions: Versions) -> pl.DataFrame:
    """Why conversations that need redacting may not be released: the same rules, asked about what is redacted.

    A finder that still finds something is `redaction_failed`; what it has not seen is not measured.
    """
    rules = redact_rules(policy)
    redacted = store.read("redacted_conversations").filter(policy_hash=policy_hash(policy))
    left = fired(rules, _parts(store, redacted, versions), partial(_facts, store, versions), {})
    found = pl.col("action") == Action.REDACT.value
    left = left.with_columns(
        reason=pl.when(found).then(pl.lit("redaction_failed")).otherwise("reason"),
        action=pl.lit(Action.DROP.value),
    )
    wanted = hits.filter(action=Action.REDACT.value).select("item_id").unique()
    missing = wanted.join(redacted, left_on="item_id", right_on="conversation_id", how="anti").select(
        "item_id", reason=pl.lit("unmeasured_redaction"), action=pl.lit(Action.DROP.value)
    )
    dropped = hits.filter(action=Action.DROP.value)
    unseen = missing.join(dropped, on="item_id", how="anti")  # nobody redacts what is dropped anyway
    place = pl.lit(len(policy.rules), pl.Int64).alias("place")
    return pl.concat(each.with_columns(place).select(FIRED.names()) for each in (left, unseen))


def _decide_conversations(
    store: Store, conversations: pl.DataFrame, hits: pl.DataFrame, policy: Policy, versions: Versions
) -> pl.DataFrame:
    stopped = hits.filter(pl.col("action").is_in(STOPS))["item_id"]
    survivors = conversations.filter(~pl.col("conversation_id").is_in(stopped.implode()))
    repeats = _repeats(store, survivors, policy, versions)
    if policy.duplicates and repeats:
        place, rule = len(policy.rules) + 1, policy.duplicates
        rows = [(item, place, rule.reason, rule.action.value) for item in sorted(repeats)]
        hits = pl.concat([hits, pl.DataFrame(rows, schema=FIRED, orient="row")])
    reasons = reasons_of(hits, conversations["conversation_id"])
    return reasons.with_columns(
        _redactions(store, reasons, policy),
        item_kind=pl.lit(ItemKind.CONVERSATION.value),
        duplicate_of=pl.col("item_id").replace_strict(repeats, default=None, return_dtype=pl.String),
        preset_dataset=conversations["preset_dataset"],
    )


def _redactions(store: Store, items: pl.DataFrame, policy: Policy) -> pl.Series:
    """What was taken out of each item."""
    redacted = store.read("redacted_conversations", ["conversation_id", "redactions", "policy_hash"])
    own = redacted.filter(policy_hash=policy_hash(policy)).select("redactions", item_id="conversation_id")
    nothing = pl.lit([], dtype=frame_schema(Decision)["redactions"])
    joined = items.select("item_id").join(own, on="item_id", how="left", maintain_order="left")
    return joined.select(pl.col("redactions").fill_null(nothing))["redactions"]


def _repeats(store: Store, survivors: pl.DataFrame, policy: Policy, versions: Versions) -> Mapping[str, str]:
    if policy.duplicates is None:
        return {}
    stored = facts(store, "text_embedding", versions["text_embedding"], ["vector"])
    vectors = {prompt: np.array(vector, np.float32) for prompt, vector in stored.iter_rows()}
    first_use = survivors.sort("tstamp", "conversation_id")["image_ids"].explode().drop_nulls()
    picture_of = representatives(first_use.unique(maintain_order=True), store.read("near_pictures"))
    return duplicates_of(survivors, vectors, picture_of, policy.duplicates)


def _decide_battles(
    battles: pl.DataFrame, conversations: pl.DataFrame, hits: pl.DataFrame, policy: Policy
) -> pl.DataFrame:
    """A battle falls with either side, and then by rules of its own; that a side is repeated does not matter.

    A side that is no longer there, because somebody asked for its removal, counts as not measured.
    """
    rules = [rule for rule in policy.rules if rule.over is Over.BATTLE]
    own = fired(rules, {}, lambda name: pl.DataFrame(), {Over.BATTLE: battle_facts(battles)})
    sides = pl.concat(battles.select("battle_id", item_id=side) for side in ("conversation_a", "conversation_b"))
    gone = sides.join(conversations, left_on="item_id", right_on="conversation_id", how="anti").with_columns(
        place=pl.lit(0, pl.Int64), reason=pl.lit("unmeasured_conversation"), action=pl.lit(Action.DROP.value)
    )
    stopping = hits.filter(pl.col("action").is_in(STOPS))
    inherited = pl.concat([sides.join(stopping, on="item_id"), gone.select("battle_id", *FIRED.names())])
    later = own.with_columns(pl.col("place") + len(policy.rules) + 1)
    all_hits = pl.concat([inherited.drop("item_id").rename({"battle_id": "item_id"}), later])
    return reasons_of(all_hits, battles["battle_id"]).with_columns(
        item_kind=pl.lit(ItemKind.BATTLE.value),
        redactions=pl.lit([], dtype=frame_schema(Decision)["redactions"]),
        duplicate_of=pl.lit(None, pl.String),
        preset_dataset=pl.lit(None, pl.String),
    )
