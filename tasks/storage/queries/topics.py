"""Sizes of the topics in a store."""

import polars as pl

from tasks.storage.tables import Store


def topic_sizes(store: Store) -> pl.DataFrame:
    """topic, name, prompts (distinct, with their images) and conversations, the largest topic first."""
    topics = store.read("topics", ["document_id", "topic", "name"])
    asked = store.read("conversations", ["document_id"]).group_by("document_id").agg(conversations=pl.len())
    sizes = topics.join(asked, on="document_id", how="left").group_by("topic", "name")
    counted = sizes.agg(prompts=pl.len(), conversations=pl.col("conversations").sum())
    return counted.sort("prompts", "topic", descending=[True, False])
