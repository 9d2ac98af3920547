"""Differences of two policies on one store, by reason: ours and upstream's, and the stored decisions and a dry run."""

import polars as pl

from schemas.items.decision import ALL_DROPS, ItemKind, RuleChange, RuleParity
from schemas.policy import Policy
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


def _fired(said: Verdicts) -> pl.DataFrame:
    """item_kind, reason and item_id of every fired rule, and of every dropped item with reason ALL_DROPS."""
    decisions = said.decisions
    each = [
        decisions.select("item_kind", "item_id", reason=pl.col(column).list.unique()).explode("reason").drop_nulls()
        for column in ("reasons", "tags")
    ]
    alone = said.of_battles_alone.select("item_id", "reason", item_kind=pl.lit(ItemKind.CONVERSATION.value))
    dropped = decisions.filter(~pl.col("keep")).select("item_kind", "item_id", reason=pl.lit(ALL_DROPS))
    return pl.concat(rows.select(_BY_REASON) for rows in (*each, alone, dropped)).unique()


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
    if waiting := _with_reason(then, "unmeasured_redaction"):
        notes.append(f"{waiting:,} conversations would be redacted and measured first; here they count as dropped")
    return rule_changes(now, then), notes


def _with_reason(decisions: pl.DataFrame, reason: str) -> int:
    return decisions.filter(pl.col("reasons").list.contains(reason), item_kind=ItemKind.CONVERSATION.value).height


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
    each = both.with_columns(reason=pl.col(f"reasons_{when}").list.unique()).explode("reason").drop_nulls("reason")
    dropped = both.filter(~pl.col(f"keep_{when}")).with_columns(reason=pl.lit(ALL_DROPS))
    return pl.concat([rows.group_by("item_kind", "reason").agg(**counts) for rows in (each, dropped)])
