"""Which prompts are unsafe by today's decisions: to draw failures, and to release what was drawn."""

import polars as pl

from tasks.storage.queries.signals import Versions, signal_values
from tasks.storage.tables import Store

_UNSAFE = ["moderation", "image_moderation", "nsfw_image"]
"""Reasons of rules that policies for internal use tag and others drop."""


def unsafe_documents(store: Store, conversations: pl.DataFrame, versions: Versions) -> pl.Series:
    """document_ids of the conversations that are unsafe.

    Moderation flags a message or did not measure one, or a rule about safety fired and only tagged the conversation.
    """
    said = conversations.select("document_id", "turns").explode("turns")
    said = said.select("document_id", content_id=pl.col("turns").struct.field("text_id"))
    flagged = signal_values(store, "moderation", versions["moderation"], ["flagged_categories"], said["content_id"])
    harmful = pl.col("flagged_categories").is_null() | (pl.col("flagged_categories").list.len() > 0)
    by_signal = said.join(flagged, on="content_id", how="left").filter(harmful)["document_id"]
    tagged = store.read("decisions", ["item_kind", "item_id", "tags"]).filter(item_kind="conversation")
    tagged = tagged.filter(pl.col("tags").list.eval(pl.element().is_in(_UNSAFE)).list.any())
    by_rule = conversations.join(tagged, left_on="conversation_id", right_on="item_id", how="semi")["document_id"]
    return pl.concat([by_signal, by_rule]).unique()
