"""Counts of kept conversations and battles for the report, computed block by block with bounded memory."""

from collections.abc import Iterable
from typing import NamedTuple

import polars as pl

from tasks.storage.content_id import Distinct
from tasks.storage.queries.blocks import BLOCK_ROWS, Blocks, conversation_blocks
from tasks.storage.queries.conversation_features import (
    ALL_TAGS,
    CRITERIA,
    TAXONOMY,
    conversation_features,
    tallied,
    with_labels,
)
from tasks.storage.queries.kept import kept_conversations
from tasks.storage.queries.released import battles_as_released
from tasks.storage.queries.signals import Versions
from tasks.storage.tables import Store

_TALLIED = (("day",), ("model",), ("language",), ("num_turns",), ALL_TAGS, CRITERIA, TAXONOMY)
_OF_BATTLES = ("day",), ("model_a", "model_b", "winner")


class Kept(NamedTuple):
    """Counts of kept conversations in their released form."""

    rows: int
    tallies: dict[tuple[str, ...], pl.DataFrame]
    """Columns -> number of conversations per combination of their values, for each entry of `_TALLIED`."""
    users: int
    images: int


def count_conversations(store: Store, versions: Versions, block_rows: int = BLOCK_ROWS) -> Kept:
    """Count kept conversations. Memory holds one block of texts and 8 bytes per user and image."""
    rows, users, images, tallies = 0, Distinct(), Distinct(), dict[tuple[str, ...], pl.DataFrame]()
    for block in conversation_blocks(store, block_rows):
        conversations = kept_conversations(block)
        features = conversation_features(block, conversations, versions)
        kept = with_labels(block, conversations, versions).join(features, on="conversation_id", maintain_order="left")
        rows += kept.height
        users.add(kept["user_id"])
        images.add(kept["image_ids"].explode())
        _add(kept, _TALLIED, tallies)
    return Kept(rows, tallies, len(users), len(images))


def count_battles(store: Store, block_rows: int = BLOCK_ROWS) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Number of kept battles by day, and by model_a, model_b and winner."""
    tallies: dict[tuple[str, ...], pl.DataFrame] = {}
    blocks = Blocks(store, "battles", block_rows)
    blocks.divide(["decisions"], "item_id", lambda block: block.read("battles", ["battle_id"])["battle_id"])
    for block in blocks:
        kept = block.read("decisions", ["item_kind", "item_id", "keep"]).filter("keep", item_kind="battle")
        _add(battles_as_released(block).join(kept.select(battle_id="item_id"), on="battle_id"), _OF_BATTLES, tallies)
    days, pairs = (tallies[columns] for columns in _OF_BATTLES)
    return days.rename({"conversations": "battles"}), pairs.rename({"conversations": "battles"})


def _add(rows: pl.DataFrame, columns: Iterable[tuple[str, ...]], found: dict[tuple[str, ...], pl.DataFrame]) -> None:
    """Add the `tallied` counts of some rows to those found so far."""
    for each in columns:
        both = pl.concat([*([found[each]] if each in found else []), tallied(rows, each)])
        found[each] = both.group_by(each).agg(pl.col("conversations").sum())
