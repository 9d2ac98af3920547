"""Evaluates rules: which items each rule fires on. Every threshold comes from the policy."""

from collections.abc import Callable, Iterable, Mapping

import polars as pl

from schemas.policy import Action, OnMissing, Over, Rule

Signals = Callable[[str], pl.DataFrame]
"""Signal name -> its values: `content_id` and the value columns."""

STOPS = (Action.DROP.value, Action.HOLD.value)
"""Actions that keep an item from being released."""
FIRED = pl.Schema({"item_id": pl.String, "place": pl.Int64, "reason": pl.String, "action": pl.String})


def fires(rule: Rule) -> pl.Expr:
    """Whether the rule fires on column `value`; null where there is no value."""
    value = pl.col("value")
    if rule.at_least is not None:
        return value >= rule.at_least
    if rule.at_most is not None:
        return value <= rule.at_most
    if rule.equals is not None:
        return value == rule.equals
    if rule.contains_any:
        return value.list.eval(pl.element().is_in(rule.contains_any)).list.any()
    return value.list.len() > 0


def fired(
    rules: Iterable[Rule], parts: Mapping[Over, pl.DataFrame], signals: Signals, stated: Mapping[Over, pl.DataFrame]
) -> pl.DataFrame:
    """One row per rule and item it fires on: `item_id`, `place` of the rule, `reason`, `action`.

    A rule over parts fires when it fires on any part. A part without a value fires the reason
    `unmeasured_<signal>` with action drop, unless the rule says to ignore it.
    `stated` has the table columns of whole conversations and battles, one row per item.
    """
    frames = [pl.DataFrame(schema=FIRED)]
    for place, rule in enumerate(rules):
        values = _values(rule, parts, signals, stated)
        hit = values.filter(fires(rule).fill_null(False))
        frames.append(_fired(hit, place, rule.reason, rule.action))
        if rule.on_missing is OnMissing.DROP:
            signal = rule.signal.partition(".")[0]
            unknown = values.filter(pl.col("value").is_null())
            frames.append(_fired(unknown, place, f"unmeasured_{signal}", Action.DROP))
    return pl.concat(frames)


def _values(
    rule: Rule, parts: Mapping[Over, pl.DataFrame], signals: Signals, stated: Mapping[Over, pl.DataFrame]
) -> pl.DataFrame:
    """`item_id` and `value` of every part that the rule reads; null if it was not measured."""
    signal, _, column = rule.signal.partition(".")
    if rule.over in stated:
        return stated[rule.over].select("item_id", value=column)
    known = signals(signal).select("content_id", value=column)
    return parts[rule.over].join(known, on="content_id", how="left").select("item_id", "value")


def _fired(items: pl.DataFrame, place: int, reason: str, action: Action) -> pl.DataFrame:
    return (
        items.select("item_id")
        .unique()
        .select(
            "item_id",
            place=pl.lit(place, pl.Int64),
            reason=pl.lit(reason, pl.String),
            action=pl.lit(action.value, pl.String),
        )
    )


def reasons_of(fired_rules: pl.DataFrame, item_ids: pl.Series) -> pl.DataFrame:
    """`item_id`, `reasons`, `tags` and `held` of every item; the lists in the policy's order and without repeats."""
    ordered = fired_rules.sort("place", "reason")
    stops = pl.col("action").is_in(STOPS)
    lists = ordered.group_by("item_id").agg(
        reasons=pl.col("reason").filter(stops).unique(maintain_order=True),
        tags=pl.col("reason").filter(~stops).unique(maintain_order=True),
        held=(pl.col("action") == Action.HOLD.value).any() & (pl.col("action") != Action.DROP.value).all(),
    )
    empty = pl.lit([], dtype=pl.List(pl.String))
    return (
        pl.DataFrame({"item_id": item_ids})
        .join(lists, on="item_id", how="left", maintain_order="left")
        .with_columns(pl.col("reasons", "tags").fill_null(empty), pl.col("held").fill_null(False))
    )
