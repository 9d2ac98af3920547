"""Failures of chosen providers: the share of failures that holds a release, and what a release lacks."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from schemas.release import Manifest, Unmeasured
from schemas.run import LATER_CAUSES, REFUSALS
from schemas.signals import MeasuredOn
from schemas.tables import SIGNAL_ENTRIES
from tasks.storage.queries.released import conversations_as_released
from tasks.storage.queries.signals import Versions, signal_values
from tasks.storage.tables import Store

_POSTPONED = {"budget_reached", "waiting_for_batch"}
"""Reasons that are no failure of a provider: the next run continues."""
_IDS = {MeasuredOn.DOCUMENTS: "document_id", MeasuredOn.PROMPT: "prompt_id"}
"""Items whose missing values become nulls in a release; other missing values drop the conversation."""


class SignalRequests(NamedTuple):
    """Requests of a run to a provider for one signal."""

    provider: str
    items: int
    """Items that the provider answered or failed for."""
    reasons: Counter[str]
    """Failed items by reason, without postponed ones."""


def failing_lines(records: Sequence[Mapping[str, Any]], chosen: Mapping[str, str], share_max: float) -> list[str]:
    """One line per chosen provider that failed for more than `share_max` of the items of the last run that used it.

    `records` are run records, oldest first. Items that had failed already before the last release are not counted
    again, so that an item which always fails does not hold each later release.
    """
    released = max((n for n, record in enumerate(records) if record["funnel"]), default=-1)
    before, since = records[: released + 1], records[released + 1 :]
    lines = (
        _line(signal, name, _last(before, signal), _last(since, signal), share_max) for signal, name in chosen.items()
    )
    return [line for line in lines if line]


def _line(
    signal: str, provider: str, before: SignalRequests | None, now: SignalRequests | None, share_max: float
) -> str | None:
    if now is None or not now.reasons:
        return None
    known = before.reasons.total() if before and before.provider == now.provider else 0
    failed, items = max(0, now.reasons.total() - known), max(1, now.items - min(known, now.reasons.total()))
    if failed / items <= share_max:
        return None
    causes = sorted(now.reasons.items(), key=lambda each: (LATER_CAUSES.get(each[0], 0), -each[1], each[0]))
    named = ", ".join(f"{_in_words(reason)} {count:,}" for reason, count in causes)
    return f"{signal}={provider} failed for {failed:,} of {items:,} items, {failed / items:.1%} ({named})"


def _in_words(reason: str) -> str:
    return f"{REFUSALS[reason]} ({reason})" if reason in REFUSALS else reason


def _last(records: Sequence[Mapping[str, Any]], signal: str) -> SignalRequests | None:
    """The newest run among the records that measured the signal."""
    return next(filter(None, (_asked(record, signal) for record in reversed(records))), None)


def _asked(record: Mapping[str, Any], signal: str) -> SignalRequests | None:
    items, reasons = 0, Counter[str]()
    for stage in record["stages"]:
        if stage["stage"] == "canaries" or not (calls := stage["model_calls"].get(signal, 0)):
            continue
        if stage["stage"] == "catch_up_images":  # it asks again for the images that failed during ingest
            items, reasons = items - reasons.total(), Counter()
        of_signal = ((*name.partition(": ")[::2], count) for name, count in stage["failures"].items())
        failed = {reason: count for name, reason, count in of_signal if name == signal}
        items += calls - sum(count for reason, count in failed.items() if reason in _POSTPONED)
        reasons.update({reason: count for reason, count in failed.items() if reason not in _POSTPONED})
    provider = record["settings"]["providers"].get(signal, "")
    return SignalRequests(provider, items, reasons) if items else None


def unmeasured(store: Store, versions: Versions, providers: Mapping[str, str]) -> dict[str, Unmeasured]:
    """Signal -> how many kept prompts or documents lack a value of a chosen provider, where some do."""
    signals = {name: _IDS[entry.on] for name, entry in SIGNAL_ENTRIES.items() if name in providers and entry.on in _IDS}
    if not signals:
        return {}
    kept = store.read("decisions", ["item_kind", "item_id", "keep"]).filter("keep", item_kind="conversation")["item_id"]
    released = conversations_as_released(store).filter(pl.col("conversation_id").is_in(kept.implode()))
    found = {}
    for name, column in signals.items():
        ids = released[column].unique()
        lacking = ids.len() - int(
            ids.is_in(signal_values(store, name, versions[name], [])["content_id"].implode()).sum()
        )
        if lacking:
            found[name] = Unmeasured(provider=providers[name], items=ids.len(), unmeasured=lacking)
    return found


def unmeasured_line(manifest: Manifest) -> str:
    """A line such as `categories=openai: 3 of 120 items`; empty when nothing is missing."""
    return "; ".join(
        f"{name}={each.provider}: {each.unmeasured:,} of {each.items:,} items"
        for name, each in sorted(manifest.unmeasured.items())
    )
