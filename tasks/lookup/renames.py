"""Models under the names that the policy releases them by. The tables of ingest keep the names of the log."""

import json
from collections.abc import Iterable

import polars as pl

from schemas.conversation import UNDATED_BEFORE
from schemas.policy import Policy, Rename
from tasks.tables import Store

_MODELS = ("model", "model_a", "model_b")


def decided_policy(store: Store) -> Policy | None:
    """The policy of the decisions; None where there are none."""
    decided = next((rows["policy_hash"][0] for rows in store.read_slices("decisions", ["policy_hash"], 1)), None)
    stored = None if decided is None else store.read_bytes(f"policies/{decided}.json")
    return None if stored is None else Policy.model_validate(json.loads(stored))


def released_names(store: Store, items: pl.DataFrame) -> pl.DataFrame:
    """Rows of `conversations` or `battles` with their models renamed as the policy of the decisions says."""
    policy = decided_policy(store)
    return items if policy is None else renamed(items, policy.renames)


def renamed(items: pl.DataFrame, renames: Iterable[Rename]) -> pl.DataFrame:
    """The rows with every model renamed that has another name at the row's `tstamp`; each name changes once.

    A rename that holds for a time only says nothing about rows without one.
    """
    renames = list(renames)
    columns = [name for name in _MODELS if name in items.columns]
    return items.with_columns(_name(column, renames) for column in columns) if renames else items


def _name(column: str, renames: list[Rename]) -> pl.Expr:
    name = pl.col(column)
    for rename in renames:
        applies = pl.col(column) == rename.model
        if rename.since or rename.until:
            applies &= pl.col("tstamp") >= UNDATED_BEFORE
        if rename.since is not None:
            applies &= pl.col("tstamp") >= rename.since
        if rename.until is not None:
            applies &= pl.col("tstamp") < rename.until
        name = pl.when(applies).then(pl.lit(rename.to)).otherwise(name)
    return name.alias(column)
