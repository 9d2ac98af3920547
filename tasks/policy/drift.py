"""Detects drop reasons whose share of new conversations differs from earlier runs. Input counts are cumulative.

The band around a reason's share p among n new conversations is p ± z · sqrt(p (1 - p) / n + s²): the binomial spread of
a count, and s, the spread between earlier runs (1.4826 times the median absolute deviation of their shares).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
import polars as pl

from schemas.policy import DriftBand
from schemas.run import DropCounts

_SILENT_EXPECTED = 20
"""A reason that drops nothing although at least this many drops were expected is reported."""


def drop_counts(decisions: Iterable[pl.DataFrame]) -> DropCounts:
    """Counts of the `decisions` table (item_kind, reasons, policy_hash), which may come in parts."""
    counts: Counter[str] = Counter()
    conversations, policy_hash = 0, ""
    for rows in decisions:
        of_conversations = rows.filter(item_kind="conversation")
        conversations += of_conversations.height
        counts.update(dict(of_conversations["reasons"].explode().drop_nulls().value_counts().iter_rows()))
        policy_hash = policy_hash or (rows["policy_hash"][0] if rows.height else "")
    return DropCounts(policy_hash=policy_hash, conversations=conversations, by_reason=dict(sorted(counts.items())))


def drift_lines(earlier: Sequence[DropCounts], now: DropCounts, band: DriftBand | None) -> list[str]:
    """One line per reason outside its band, sorted by name. Empty without a band or without new conversations."""
    if earlier and earlier[-1] == now:
        return []
    history = [each for each, later in pairwise([*earlier, now]) if later.conversations > each.conversations]
    if band is None or len(history) < band.runs_min:
        return []
    if now.conversations - history[-1].conversations < band.conversations_min:
        return []
    reasons = sorted(now.by_reason.keys() | history[-1].by_reason.keys())
    lines = (_line(reason, _shares(reason, [*history, now]), band) for reason in reasons)
    return [line for line in lines if line]


def _shares(reason: str, counts: Sequence[DropCounts]) -> list[tuple[int, int]]:
    """(new conversations, how many of them the reason dropped) of the first run and of each later run."""
    totals = [(0, 0), *((each.conversations, each.by_reason.get(reason, 0)) for each in counts)]
    return [(later[0] - sooner[0], later[1] - sooner[1]) for sooner, later in pairwise(totals)]


def _line(reason: str, shares: Sequence[tuple[int, int]], band: DriftBand) -> str | None:
    *earlier, (new, dropped) = shares
    usual = sum(part for _, part in earlier) / sum(whole for whole, _ in earlier)
    shown = max(0.0, dropped / new)  # negative if earlier conversations are decided anew
    of_runs = np.array([part / whole for whole, part in earlier])
    between = 1.4826 * float(np.median(np.abs(of_runs - np.median(of_runs))))
    half = band.z_max * float(np.sqrt(usual * (1 - usual) / new + between**2))
    silent = dropped <= 0 and usual * new >= _SILENT_EXPECTED
    if abs(shown - usual) <= half or (abs(shown - usual) < band.difference_min and not silent):
        return None
    low, high = max(0.0, usual - half), min(1.0, usual + half)
    return (
        f"{reason} drops {shown:.1%} of {new:,} new conversations, outside {low:.1%} to {high:.1%} "
        f"({len(earlier)} earlier runs: {usual:.1%})"
    )
