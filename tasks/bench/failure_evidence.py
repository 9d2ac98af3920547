"""What is known of prompts that people saw fail: kept votes on them, the tagger's labels, and whether they are safe."""

import polars as pl

from schemas.tags import Categories, Taxonomy
from tasks.storage.queries.released import battles_as_released
from tasks.storage.queries.signals import Versions, signal_values
from tasks.storage.tables import Store

_UNSAFE = ["moderation", "image_moderation", "nsfw_image"]
"""Reasons of rules that policies for internal use tag and others drop."""
_ASKED = pl.element().filter(pl.element().struct.field("role") == "user").struct.field("content")


def kept_battles(store: Store, kept: pl.DataFrame) -> pl.DataFrame:
    """Kept battles under released names, by time, with the `document_id` of their left side. `kept`: conversations."""
    decided = store.read("decisions", ["item_kind", "item_id", "keep"]).filter("keep", item_kind="battle")
    battles = battles_as_released(store).join(decided.select(battle_id="item_id"), on="battle_id", how="semi")
    asked = kept.select("document_id", conversation_a="conversation_id")
    return battles.sort("tstamp", "battle_id").join(asked, on="conversation_a", maintain_order="left")


def described(store: Store, kept: pl.DataFrame, failures: pl.DataFrame, versions: Versions) -> pl.DataFrame:
    """`failures` with their prompt, the columns of categories and taxonomy, and `unsafe`.

    Unsafe: moderation flags a message of a kept conversation on the prompt or did not measure one, or a rule about
    safety fired there and only tagged it.
    """
    on_them = kept.filter(pl.col("document_id").is_in(failures["document_id"].implode()))
    asked = on_them.select("document_id", prompt=pl.col("turns").list.eval(_ASKED).list.join("\n\n"))
    known = failures.join(asked.unique("document_id", keep="first"), on="document_id", how="left")
    for signal, columns in (("categories", Categories), ("taxonomy", Taxonomy)):
        values = signal_values(store, signal, versions[signal], list(columns.model_fields), failures["document_id"])
        known = known.join(values, left_on="document_id", right_on="content_id", how="left", maintain_order="left")
    unsafe = _unsafe(store, on_them, versions)
    return known.with_columns(unsafe=pl.col("document_id").is_in(unsafe.implode()))


def _unsafe(store: Store, conversations: pl.DataFrame, versions: Versions) -> pl.Series:
    """document_ids of unsafe prompts."""
    said = conversations.select("document_id", "turns").explode("turns")
    said = said.select("document_id", content_id=pl.col("turns").struct.field("text_id"))
    flagged = signal_values(store, "moderation", versions["moderation"], ["flagged_categories"], said["content_id"])
    harmful = pl.col("flagged_categories").is_null() | (pl.col("flagged_categories").list.len() > 0)
    by_signal = said.join(flagged, on="content_id", how="left").filter(harmful)["document_id"]
    tagged = store.read("decisions", ["item_kind", "item_id", "tags"]).filter(item_kind="conversation")
    tagged = tagged.filter(pl.col("tags").list.eval(pl.element().is_in(_UNSAFE)).list.any())
    by_rule = conversations.join(tagged, left_on="conversation_id", right_on="item_id", how="semi")["document_id"]
    return pl.concat([by_signal, by_rule]).unique()
