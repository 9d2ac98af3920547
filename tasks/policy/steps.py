"""Prefect tasks of decide: near-duplicate images, redaction, decisions, drift."""

from collections import Counter

import polars as pl

from schemas.benches.judge_release import ScreenedText
from schemas.errors import DriftHeld
from schemas.policy import Policy, policy_hash
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.dedup.near_images import update_near_images, update_semantic_images
from tasks.policy.answers import screened
from tasks.policy.decisions import ItemFindings, StoredSignals, conversation_hits, verdicts
from tasks.policy.differences import drift_lines, drop_counts, rule_parity, upstream_policy
from tasks.policy.policy_file import load_policy
from tasks.policy.redact_step import redact_store
from tasks.runtime.steps import step
from tasks.storage.queries.released import decided_policy, mark_decided
from tasks.storage.queries.signals import Versions
from tasks.storage.records import earlier_drops
from tasks.storage.tables import Store, frame_of


@step
def find_near_images(settings: Settings, versions: Versions) -> StageReport:
    """Hashes -> `near_images`, embeddings -> `semantic_images`; only new images are searched."""
    store, policy = Store.open(settings.store), load_policy(settings.policy)
    counts = update_near_images(store, policy.near_images, versions)
    counts |= update_semantic_images(store, policy.semantic_images, versions, settings)
    return StageReport(stage="near_images", counts=counts)


@step
def redact_items(settings: Settings, versions: Versions, findings: ItemFindings) -> StageReport:
    """Apply redact rules to what is measured so far -> `redacted_conversations`, `redacted_images`.

    `findings` gives what is known of written items; without it there are none.
    """
    store = Store.open(settings.store)
    policy = load_policy(settings.policy)
    stored_signals = StoredSignals(store, versions, findings)
    hits, _ = conversation_hits(stored_signals, policy)
    counts = redact_store(store, hits, policy, stored_signals.signal, settings.workers)
    return StageReport(stage="redact", counts=counts)


@step
def decide_items(settings: Settings, versions: Versions, findings: ItemFindings, stage: str = "decide") -> StageReport:
    """Signals and the policy -> `decisions`, `near_prompts`; comparison with the policy `upstream` -> `rule_parity`.

    `findings` gives what is known of written items; without it there are none.
    """
    store = Store.open(settings.store)
    policy = load_policy(settings.policy)
    stored_signals = StoredSignals(store, versions, findings)
    our_verdicts = verdicts(stored_signals, policy)
    ours = our_verdicts.decisions
    store.write_bytes(f"policies/{policy_hash(policy)}.json", policy.model_dump_json(indent=2).encode())
    store.replace("decisions", ours)
    mark_decided(store)
    store.replace("near_prompts", our_verdicts.near_prompts)
    store.replace("rule_parity", rule_parity(our_verdicts, verdicts(stored_signals, upstream_policy(policy))))
    counted = {"kept_": ours.filter("keep"), "held_": ours.filter("held"), "": ours}
    counts = {
        f"{outcome}{kind}s": count
        for outcome, items in counted.items()
        for kind, count in items["item_kind"].value_counts().sort("item_kind", descending=True).rows()
    }
    return StageReport(stage=stage, counts=counts)


@step
def screen_answers(settings: Settings, versions: Versions, texts: pl.DataFrame) -> StageReport:
    """Apply the policy of the decisions to answers and verdicts on the judge's cards -> `screened_texts`.

    `texts`: item_id, question_id, model and text of each.
    """
    store = Store.open(settings.store)
    policy = decided_policy(store)
    screened_texts = screened(store, policy, versions, texts) if policy else []
    store.replace("screened_texts", frame_of(ScreenedText, screened_texts))
    stopped = Counter(f"kept_here_{reason}" for row in screened_texts for reason in row.reasons[:1])
    counts = {"texts": len(screened_texts), "may_leave": sum(not row.reasons for row in screened_texts)}
    notes = [] if screened_texts else ["no verdict is on the benchmark that is released, so no answer leaves the store"]
    return StageReport(stage="screen_answers", counts=counts | dict(sorted(stopped.items())), notes=notes)


_REASONS = """
    -- a row is one decision, and the reasons for which it drops its item
    SELECT item_kind, reasons, policy_hash FROM decisions
"""


@step
def watch_drift(settings: Settings) -> StageReport:
    """Raise DriftHeld if a reason drops an unusual share of new conversations; else the run record gets the counts."""
    store = Store.open(settings.store)
    now = drop_counts(store.batches(_REASONS))
    applied = store.read_bytes(f"policies/{now.policy_hash}.json")
    earlier = [run_counts for run_counts in earlier_drops(store) if run_counts.policy_hash == now.policy_hash]
    drifts = drift_lines(earlier, now, Policy.model_validate_json(applied).drift) if applied else []
    if drifts and not settings.accept_drift:
        raise DriftHeld(
            f"held before the release: {'; '.join(drifts)}. Look at what is new (curate explain, report of the last "
            "release); if it is right, run again with --accept-drift"
        )
    return StageReport(stage="drift", counts={"outside_band": len(drifts)}, drops=now)
