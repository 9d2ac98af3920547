"""Conversations that the policy keeps, as they may leave the store."""

import polars as pl

from tasks.lookup.released import conversations_as_released
from tasks.tables import Store


def kept_conversations(store: Store) -> pl.DataFrame:
    """Kept conversations, earliest first, with the preset dataset of each."""
    kept = store.read("decisions", ["item_kind", "item_id", "keep", "preset_dataset"]).filter(
        "keep", item_kind="conversation"
    )
    conversations = conversations_as_released(store)
    columns = kept.select(conversation_id="item_id", preset_dataset="preset_dataset")
    return conversations.join(columns, on="conversation_id", maintain_order="left")
