"""Conversations and battles in the form in which they are released: redacted and with models renamed by the policy.

All stages after `decide` use this form.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from itertools import chain

import polars as pl
from pydantic import ValidationError

from schemas.errors import BadInput
from schemas.items.conversation import UNDATED_BEFORE, Conversation
from schemas.policy import Policy, Rename
from tasks.storage.tables import Store, frame_schema

_MODELS = ("model", "model_a", "model_b")


def conversations_as_released(store: Store, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """The table `conversations` with redacted conversations in place of their originals, also those that are dropped.

    Raises BadInput when a redaction that a decision names is missing, as after a run that was killed between redacting
    and deciding; nothing may be released then.
    """
    names = frame_schema(Conversation).names() if columns is None else columns
    read = list(dict.fromkeys([*names, "conversation_id", "tstamp", "model"]))  # what order and released names need
    released = pl.concat([store.empty("conversations", read), *released_slices(store, read)])
    return released_names(store, released.sort("tstamp", "conversation_id")).select(names)


def released_slices(store: Store, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Rows of `conversations_as_released` with models as logged, some at a time, redacted ones last; raises as it."""
    decided = store.read_slices("decisions", ["item_kind", "item_id", "redactions", "policy_hash"])
    wanted = pl.DataFrame(schema={"policy_hash": pl.String, "conversation_id": pl.String})
    for rows in decided:
        redacted = rows.filter(pl.col("redactions").list.len() > 0, item_kind="conversation")
        wanted = wanted.vstack(redacted.select("policy_hash", conversation_id="item_id"))
    for rows in store.read_slices("conversations", columns):
        yield rows.join(wanted, on="conversation_id", how="anti", maintain_order="left")
    made = 0
    for rows in store.read_slices("redacted_conversations", [*columns, "policy_hash"]):
        some = rows.join(wanted, on=["conversation_id", "policy_hash"], how="semi", maintain_order="left")
        made += some.height
        yield some.drop("policy_hash")
    if made < wanted.height:
        raise BadInput(f"store {store.root!r} lacks redactions that its decisions name; run `curate decide` again")


def battles_as_released(store: Store) -> pl.DataFrame:
    """The table `battles` with the models' released names."""
    return released_names(store, store.read("battles"))


def days(store: Store) -> list[date]:
    """The days of the conversations, sorted. Conversations without a time count only when none has one."""
    dated = pl.col("tstamp") >= UNDATED_BEFORE
    columns = ["day", "tstamp"]
    slices = chain([store.empty("conversations", columns)], store.read_slices("conversations", columns))
    known = pl.concat(rows.select("day", dated=dated).unique() for rows in slices)
    timed = known.filter("dated")
    return sorted((timed if timed.height else known)["day"].unique().to_list())


def release_version(store: Store, named: str | None) -> str:
    """The version that a release of the store gets: the one that is named, or the last day of its logs."""
    return named or f"{days(store)[-1]:%Y.%m.%d}"


def decided_policy(store: Store) -> Policy | None:
    """The policy that made the decisions; None when there are no decisions.

    Raises BadInput for one of another version, which is None in a store that may have any layout.
    """
    decided = next((rows["policy_hash"][0] for rows in store.read_slices("decisions", ["policy_hash"], 1)), None)
    stored = None if decided is None else store.read_bytes(f"policies/{decided}.json")
    try:
        return None if stored is None else Policy.model_validate(json.loads(stored))
    except ValidationError as error:
        if store.any_layout:
            return None
        named = ".".join(map(str, error.errors()[0]["loc"]))
        raise BadInput(
            f"store {store.root!r} was decided by a policy of another version ({named}); run `curate decide` again"
        ) from None


def released_names(store: Store, items: pl.DataFrame) -> pl.DataFrame:
    """Rows of `conversations` or `battles` with models renamed by the policy that made the decisions."""
    policy = decided_policy(store)
    return items if policy is None else renamed(items, policy.renames)


def renamed(items: pl.DataFrame, renames: Iterable[Rename]) -> pl.DataFrame:
    """The rows with models renamed by the renames that apply at the row's `tstamp`; a name is changed at most once.

    Renames with `since` or `until` do not apply to rows without a time.
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
