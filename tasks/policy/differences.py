"""Differences, by reason: of two policies on one store, and of what one policy drops from earlier runs (drift).

The two are ours and upstream's, or the stored decisions and a dry run. For drift, input counts are cumulative. The band
around a reason's share p among n new conversations is p ± z · sqrt(p (1 - p) / n + s²): the binomial spread of a count,
and s, the spread between earlier runs (1.4826 times the median absolute deviation of their shares).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
import polars as pl

from schemas.items.decision import ALL_DROPS, ItemKind, RuleChange, RuleParity
from schemas.policy import DriftBand, Policy
from schemas.run import DropCounts
from tasks.policy.decisions import ItemFindings, StoredSignals, Verdicts, verdicts
from tasks.policy.policy_file import load_policy
from tasks.storage.queries.released import decided_policy
from tasks.storage.queries.signals import Versions
from tasks.storage.tables import Store, frame_schema

_KEY = ["item_kind", "item_id"]
_BY_REASON = ["item_kind", "reason", "item_id"]


def upstream_policy(policy: Policy) -> Policy:
    """The preset `upstream` with the operator's own lists, which upstream's scripts take as arguments."""
    lists = {
        "known_benchmarks": None,  # upstream has no such rule
        "excluded_models": policy.excluded_models,
        "banned_users": policy.banned_users,
        "open_models": policy.open_models,
    }
    return load_policy("upstream").model_copy(update=lists)


def rule_parity(ours: Verdicts, upstream: Verdicts) -> pl.DataFrame:
    """The `rule_parity` table of two policies, by reason. Rules with scope battle count on conversations too."""
    sides = {"ours": _fired(ours), "upstream": _fired(upstream)}
    flagged = [rows.with_columns(pl.lit(True).alias(side)) for side, rows in sides.items()]
    joined = flagged[0].join(flagged[1], on=_BY_REASON, how="full", coalesce=True).fill_null(False)
    mine, theirs = pl.col("ours"), pl.col("upstream")
    counts = {"ours": mine, "upstream": theirs, "both": mine & theirs}
    counts |= {"only_ours": mine & ~theirs, "only_upstream": theirs & ~mine}
    counted = joined.group_by("item_kind", "reason").agg(
        where.sum().cast(pl.Int64).alias(name) for name, where in counts.items()
    )
    return counted.select(frame_schema(RuleParity).names())


def _fired(policy_verdicts: Verdicts) -> pl.DataFrame:
    """item_kind, reason and item_id of every fired rule, and of every dropped item with reason ALL_DROPS."""
    decisions = policy_verdicts.decisions
    reasons_and_tags = [
        decisions.select("item_kind", "item_id", reason=pl.col(column).list.unique()).explode("reason").drop_nulls()
        for column in ("reasons", "tags")
    ]
    alone = policy_verdicts.of_battles_alone.select("item_id", "reason", item_kind=pl.lit(ItemKind.CONVERSATION.value))
    dropped = decisions.filter(~pl.col("keep")).select("item_kind", "item_id", reason=pl.lit(ALL_DROPS))
    return pl.concat(rows.select(_BY_REASON) for rows in (*reasons_and_tags, alone, dropped)).unique()


def dry_run(
    store: Store, policy: Policy, versions: Versions, findings: ItemFindings
) -> tuple[list[RuleChange], list[str]]:
    """One row for each reason that drops an item now or would, after one for all of them, and notes for people.

    Nothing is written. Signals, near-duplicates and redacted texts are taken as they are stored.
    """
    now = store.read("decisions", [*_KEY, "keep", "reasons"])
    then = verdicts(StoredSignals(store, versions, findings), policy).decisions
    decided = decided_policy(store)
    notes = [] if decided else ["nothing is decided yet: every item that would be kept comes in"]
    if decided and (decided.near_images, decided.semantic_images) != (policy.near_images, policy.semantic_images):
        notes.append("thresholds of near-duplicate images differ; they count as they were found by the last decide")
    unmeasured = pl.col("reasons").list.contains("unmeasured_redaction")
    if waiting := then.filter(unmeasured, item_kind=ItemKind.CONVERSATION.value).height:
        notes.append(f"{waiting:,} conversations would be redacted and measured first; here they count as dropped")
    return rule_changes(now, then), notes


def rule_changes(now: pl.DataFrame, then: pl.DataFrame) -> list[RuleChange]:
    """Compare two tables of decisions with item_kind, item_id, keep and reasons, over the items of `then`."""
    none = pl.lit([], dtype=pl.List(pl.String))
    both = then.select(*_KEY, keep_then="keep", reasons_then="reasons").join(
        now.select(*_KEY, keep_now="keep", reasons_now="reasons"), on=_KEY, how="left"
    )
    both = both.with_columns(pl.col("keep_now").fill_null(False), pl.col("reasons_now").fill_null(none))
    sides = [
        _by_reason(both, "now", came=pl.col("keep_then")).rename({"dropped": "now", "changed": "comes"}),
        _by_reason(both, "then", came=pl.col("keep_now")).rename({"dropped": "then", "changed": "goes"}),
    ]
    joined = sides[0].join(sides[1], on=["item_kind", "reason"], how="full", coalesce=True).fill_null(0)
    of_battles, of_one_rule = pl.col("item_kind") != ItemKind.CONVERSATION.value, pl.col("reason") != ALL_DROPS
    return [RuleChange.model_validate(row) for row in joined.sort(of_battles, of_one_rule, "reason").to_dicts()]


def _by_reason(both: pl.DataFrame, when: str, came: pl.Expr) -> pl.DataFrame:
    """item_kind, reason, dropped (items with the reason) and changed (of these, the ones that the other side keeps)."""
    counts = {"dropped": pl.len().cast(pl.Int64), "changed": came.sum().cast(pl.Int64)}
    reason_rows = (
        both.with_columns(reason=pl.col(f"reasons_{when}").list.unique()).explode("reason").drop_nulls("reason")
    )
    dropped = both.filter(~pl.col(f"keep_{when}")).with_columns(reason=pl.lit(ALL_DROPS))
    return pl.concat([rows.group_by("item_kind", "reason").agg(**counts) for rows in (reason_rows, dropped)])


_SILENT_EXPECTED = 20
"""A reason that drops nothing although at least this many drops were expected is reported."""


def drop_counts(decisions: Iterable[pl.DataFrame]) -> DropCounts:
    """Counts of the `decisions` table (item_kind, reasons, policy_hash), which may come in parts."""
    counts: Counter[str] = Counter()
    conversations, policy_hash = 0, ""
    for rows in decisions:
        of_conversations = rows.filter(item_kind="conversation")
        conversations += of_conversations.height
        # A row is one reason, and how many conversations of these rows it drops or holds.
        counts.update(dict(of_conversations["reasons"].explode().drop_nulls().value_counts().iter_rows()))
        policy_hash = policy_hash or (rows["policy_hash"][0] if rows.height else "")
    return DropCounts(policy_hash=policy_hash, conversations=conversations, by_reason=dict(sorted(counts.items())))


def drift_lines(earlier: Sequence[DropCounts], now: DropCounts, band: DriftBand | None) -> list[str]:
    """One line per reason outside its band, sorted by name. Empty without a band or without new conversations."""
    if earlier and earlier[-1] == now:
        return []
    history = _growing(earlier, now)
    if band is None or len(history) < band.runs_min:
        return []
    if now.conversations - history[-1].conversations < band.conversations_min:
        return []
    reasons = sorted(now.by_reason.keys() | history[-1].by_reason.keys())
    lines = (_line(reason, _shares(reason, [*history, now]), band) for reason in reasons)
    return [line for line in lines if line]


def _growing(earlier: Sequence[DropCounts], now: DropCounts) -> list[DropCounts]:
    """The runs with fewer conversations than every later one, first to last.

    A run that decided the same conversations again takes the place of the earlier one; those before a takedown that
    have more conversations than remained say nothing about what came later.
    """
    growing = [now]
    for counts in reversed(earlier):
        if counts.conversations < growing[-1].conversations:
            growing.append(counts)
    return growing[:0:-1]


def _shares(reason: str, counts: Sequence[DropCounts]) -> list[tuple[int, int]]:
    """(new conversations, how many of them the reason dropped) of the first run and of each later run."""
    totals = [(0, 0), *((run_counts.conversations, run_counts.by_reason.get(reason, 0)) for run_counts in counts)]
    return [(later[0] - sooner[0], later[1] - sooner[1]) for sooner, later in pairwise(totals)]


def _line(reason: str, shares: Sequence[tuple[int, int]], band: DriftBand) -> str | None:
    *earlier, (new, dropped) = shares
    usual = sum(part for _, part in earlier) / sum(whole for whole, _ in earlier)
    share = max(0.0, dropped / new)  # negative if earlier conversations are decided anew
    of_runs = np.array([part / whole for whole, part in earlier])
    between = 1.4826 * float(np.median(np.abs(of_runs - np.median(of_runs))))
    half = band.z_max * float(np.sqrt(usual * (1 - usual) / new + between**2))
    silent = dropped <= 0 and usual * new >= _SILENT_EXPECTED
    if abs(share - usual) <= half or (abs(share - usual) < band.difference_min and not silent):
        return None
    low, high = max(0.0, usual - half), min(1.0, usual + half)
    return (
        f"{reason} drops {share:.1%} of {new:,} new conversations, outside {low:.1%} to {high:.1%} "
        f"({len(earlier)} earlier runs: {usual:.1%})"
    )
