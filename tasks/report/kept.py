"""What the report counts of kept conversations, in some 50 bytes each."""

from typing import NamedTuple

import polars as pl

from tasks.distinct import Distinct
from tasks.lookup.blocks import BLOCK_ROWS, conversation_blocks
from tasks.lookup.conversation_features import conversation_features
from tasks.lookup.facts import Versions
from tasks.lookup.released import conversations_as_released
from tasks.lookup.tag_tables import ALL_TAGS, CRITERIA, TAXONOMY, with_labels
from tasks.tables import Store

_NAMES = ("model", "language", *TAXONOMY)
_COLUMNS = ("day", "num_turns", *_NAMES, *ALL_TAGS, *CRITERIA)


class Kept(NamedTuple):
    """Kept conversations, as they are released."""

    rows: pl.DataFrame
    """day, num_turns, every tag, and names as categories: model, language (a code), places in the taxonomy."""
    users: int
    pictures: int


def kept_conversations(store: Store, versions: Versions, block_rows: int = BLOCK_ROWS) -> Kept:
    """All of them, in order of time; texts are in memory for one block at a time."""
    found, users, pictures = [], Distinct(), Distinct()
    for block in conversation_blocks(store, block_rows):
        kept = _kept(block, versions)
        users.add(kept["user_id"])
        pictures.add(kept["image_ids"].explode())
        found.append(kept.select(_COLUMNS).with_columns(pl.col(_NAMES).cast(pl.Categorical)))
    return Kept(pl.concat(found), len(users), len(pictures))


def _kept(block: Store, versions: Versions) -> pl.DataFrame:
    decided = block.read("decisions", ["item_kind", "item_id", "keep"])
    ids = decided.filter("keep", item_kind="conversation")["item_id"]
    conversations = conversations_as_released(block).filter(pl.col("conversation_id").is_in(ids.implode()))
    features = conversation_features(block, conversations, versions)
    labelled = with_labels(block, conversations, versions)
    return labelled.join(features, on="conversation_id", maintain_order="left").sort("tstamp", "conversation_id")
