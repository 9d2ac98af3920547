"""Reads the tables and signals of a store that policies need."""

from collections.abc import Mapping
from functools import cached_property

import polars as pl

from schemas.policy import Over, Policy, Rule
from tasks.dedup.near_images import representatives
from tasks.dedup.repeats import preset_datasets
from tasks.policy.policy_file import policy_hash
from tasks.policy.vocabulary import parts
from tasks.storage.content_id import text_id
from tasks.storage.queries.signals import Versions, facts
from tasks.storage.tables import Store


class StoredSignals:
    """Tables that decisions use, read once; several policies can be applied to one instance."""

    def __init__(self, store: Store, versions: Versions) -> None:
        self.store = store
        self.versions = versions
        self.battles = store.read("battles")

    @cached_property
    def conversations(self) -> pl.DataFrame:
        """Table `conversations` with the column `preset_dataset`."""
        store = self.store
        conversations, presets = store.read("conversations"), store.read("presets")
        served = store.read("picture_files", ["image_id", "name"])
        served = served.with_columns(logged_name=pl.col("name").str.slice(0, 32))
        as_served = presets.drop("image_id").join(served, on="logged_name").select(presets.columns)
        sightings = store.read("sightings", ["conv_id", "pictures"])
        near = store.read("near_pictures")
        return conversations.with_columns(preset_datasets(conversations, sightings, presets.vstack(as_served), near))

    @cached_property
    def parts(self) -> Mapping[Over, pl.DataFrame]:
        """The parts of every conversation."""
        return self.parts_of(self.conversations)

    def parts_of(self, conversations: pl.DataFrame) -> Mapping[Over, pl.DataFrame]:
        """The parts of some conversations, redacted ones too."""
        read = self.signal("image_text", ["text"])
        text_ids = {image_id: text_id(text) if text else "" for image_id, text in read.iter_rows()}
        return parts(conversations, text_ids)

    def signal(self, name: str, columns: list[str] | None = None) -> pl.DataFrame:
        """Values of one signal by content id; empty when this run does not measure it."""
        return facts(self.store, name, self.versions.get(name, ""), columns)

    def stands(self, rule: Rule) -> bool:
        """Whether the rule applies: rules with `if_chosen` need a chosen provider."""
        return not rule.if_chosen or rule.signal.partition(".")[0] in self.versions

    def redacted(self, policy: Policy) -> pl.DataFrame:
        """Conversations as redacted by this policy."""
        return self.store.read("redacted_conversations").filter(policy_hash=policy_hash(policy))

    def image_of(self, items: pl.DataFrame, semantic: bool = False) -> Mapping[str, str]:
        """Image id -> its representative, for items with `image_ids`, `tstamp` and `conversation_id`; earliest first.

        With `semantic`, semantic near-duplicates count as duplicates too.
        """
        used = items.sort("tstamp", "conversation_id")["image_ids"].explode().drop_nulls()
        also = self.store.read("semantic_pictures") if semantic else None
        return representatives(used.unique(maintain_order=True), self.store.read("near_pictures"), also)
