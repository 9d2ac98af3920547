"""Conversations and battles as they may leave the store: redacted where the policy said so, models under its names.

Later stages see no other form.
"""

from datetime import date

import polars as pl

from schemas.conversation import UNDATED_BEFORE
from schemas.errors import BadInput
from tasks.lookup.renames import released_names
from tasks.tables import Store


def conversations_as_released(store: Store) -> pl.DataFrame:
    """The `conversations` table with every redacted conversation in place of the original, in the table's order.

    Whether a conversation is kept is for `decisions` to say. Raises BadInput when a redaction that a decision tells
    of is not there, as after a run that was killed between redacting and deciding: nothing may be released then.
    """
    conversations = store.read("conversations")
    decided = store.read("decisions", ["item_kind", "item_id", "redactions", "policy_hash"])
    wanted = decided.filter(pl.col("redactions").list.len() > 0, item_kind="conversation")
    made = store.read("redacted_conversations").join(
        wanted.select("policy_hash", conversation_id="item_id"), on=["conversation_id", "policy_hash"], how="semi"
    )
    if made.height < wanted.height:
        raise BadInput(f"store {store.root!r} lacks redactions that its decisions name; run `curate decide` again")
    originals = conversations.join(made, on="conversation_id", how="anti")
    released = pl.concat([originals, made.select(conversations.columns)]).sort("tstamp", "conversation_id")
    return released_names(store, released)


def battles_as_released(store: Store) -> pl.DataFrame:
    """The `battles` table with the models' released names."""
    return released_names(store, store.read("battles"))


def days(store: Store) -> list[date]:
    """The days of the conversations, in order; those without a time count only where none has one."""
    dated = pl.col("tstamp") >= UNDATED_BEFORE
    parts = store.read_slices("conversations", ["day", "tstamp"])
    known = pl.concat(
        [
            pl.DataFrame(schema={"day": pl.Date, "dated": pl.Boolean}),
            *(p.select("day", dated=dated).unique() for p in parts),
        ]
    )
    timed = known.filter("dated")
    return sorted((timed if timed.height else known)["day"].unique().to_list())
