"""Reasons to hold a release: a chosen provider failed for too many items, or most items lack a needed signal."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from schemas.run import LATER_CAUSES, in_words
from schemas.tables import SIGNAL_ENTRIES

MISSING_SHARE_MAX = 0.5
"""A release is held when a larger share of items lacks a signal that a rule needs."""
_UNMEASURED = {f"unmeasured_{name}": name for name in SIGNAL_ENTRIES}
"""Reason of a decision -> the signal that was not there."""

_POSTPONED = {"budget_reached", "waiting_for_batch", "batch_unfinished"}
"""Reasons that are no failure of a provider: the next run continues."""


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
    earlier = before.reasons.total() if before and before.provider == now.provider else 0
    failed, items = max(0, now.reasons.total() - earlier), max(1, now.items - min(earlier, now.reasons.total()))
    if failed / items <= share_max:
        return None
    causes = sorted(now.reasons.items(), key=lambda cause: (LATER_CAUSES.get(cause[0], 0), -cause[1], cause[0]))
    named = ", ".join(f"{in_words(reason)} {count:,}" for reason, count in causes)
    return f"{signal}={provider} failed for {failed:,} of {items:,} items, {failed / items:.1%} ({named})"


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


def mostly_unmeasured(
    decisions: Iterable[pl.DataFrame], providers: Mapping[str, str], failed_share_max: float
) -> str | None:
    """The line when most items, conversations and battles, lack a signal that a rule needs; None when they do not.

    `decisions` has `reasons`; `providers`: signal -> its provider. A larger `failed_share_max` holds in place of MOST.
    """
    items, unmeasured, by_signal = 0, 0, Counter[str]()
    for rows in decisions:
        items += rows.height
        # one row for each item and signal that it lacks
        lacking = rows.select("reasons").with_row_index("item").explode("reasons")
        lacking = lacking.filter(pl.col("reasons").is_in(list(_UNMEASURED)))
        unmeasured += lacking["item"].n_unique()
        by_signal.update(dict(lacking["reasons"].value_counts().iter_rows()))
    if unmeasured <= max(MISSING_SHARE_MAX, failed_share_max) * items:
        return None
    names = [_UNMEASURED[reason] for reason, _ in sorted(by_signal.items(), key=lambda cause: (-cause[1], cause[0]))]
    measured_by = ", ".join(f"{name}={providers[name]}" if name in providers else name for name in names)
    return f"{unmeasured:,} of {items:,} items are unmeasured by {measured_by}"
