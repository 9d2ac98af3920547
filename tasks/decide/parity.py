"""A policy's decisions beside upstream's, rule by rule, from the same facts."""

import polars as pl

from schemas.decision import ALL_DROPS, ItemKind, RuleParity
from schemas.policy import Policy
from tasks.decide.decisions import Verdicts
from tasks.decide.policy_file import load_policy
from tasks.tables import frame_schema

_ITEM = ["item_kind", "reason", "item_id"]
_KEY = ["item_kind", "reason"]


def upstream_policy(policy: Policy) -> Policy:
    """The preset `upstream` with the operator's own lists, which upstream's scripts take as arguments."""
    lists = {"excluded_models": policy.excluded_models, "banned_users": policy.banned_users}
    return load_policy("upstream").model_copy(update=lists)


def rule_parity(ours: Verdicts, upstream: Verdicts) -> pl.DataFrame:
    """The `rule_parity` table of two policies' verdicts on the same items.

    Rules are the same when their reasons are. A rule that is about battles alone is counted on conversations too.
    """
    sides = {"ours": _fired(ours), "upstream": _fired(upstream)}
    flagged = [rows.with_columns(pl.lit(True).alias(side)) for side, rows in sides.items()]
    joined = flagged[0].join(flagged[1], on=_ITEM, how="full", coalesce=True).fill_null(False)
    mine, theirs = pl.col("ours"), pl.col("upstream")
    counts = {"ours": mine, "upstream": theirs, "both": mine & theirs}
    counts |= {"only_ours": mine & ~theirs, "only_upstream": theirs & ~mine}
    counted = joined.group_by(_KEY).agg(where.sum().cast(pl.Int64).alias(name) for name, where in counts.items())
    return counted.select(frame_schema(RuleParity).names())


def _fired(said: Verdicts) -> pl.DataFrame:
    """item_kind, reason and item_id of everything that fired, dropping or not, and of everything that was dropped."""
    decisions = said.decisions
    each = [
        decisions.select("item_kind", "item_id", reason=pl.col(column).list.unique()).explode("reason").drop_nulls()
        for column in ("reasons", "tags")
    ]
    alone = said.of_battles_alone.select("item_id", "reason", item_kind=pl.lit(ItemKind.CONVERSATION.value))
    dropped = decisions.filter(~pl.col("keep")).select("item_kind", "item_id", reason=pl.lit(ALL_DROPS))
    return pl.concat(rows.select(_ITEM) for rows in (*each, alone, dropped)).unique()
