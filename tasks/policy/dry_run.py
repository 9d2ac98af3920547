"""What a policy would change against the stored decisions, by reason. Nothing is written."""

import polars as pl

from schemas.decision import ALL_DROPS, ItemKind, RuleChange
from schemas.policy import Policy
from tasks.policy.decisions import StoredSignals, verdicts
from tasks.storage.queries.released import decided_policy
from tasks.storage.queries.signals import Versions
from tasks.storage.tables import Store

_KEY = ["item_kind", "item_id"]


def dry_run(store: Store, policy: Policy, versions: Versions) -> tuple[list[RuleChange], list[str]]:
    """One row for each reason that drops an item now or would, after one for all of them, and notes for people.

    Signals, near-duplicates and redacted texts are taken as they are stored.
    """
    now = store.read("decisions", [*_KEY, "keep", "reasons"])
    then = verdicts(StoredSignals(store, versions), policy).decisions
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
