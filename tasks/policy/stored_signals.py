"""The tables and signals of a store, as policies ask for them."""

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
    """The tables that decisions rest on, read once; as many policies as one likes can decide over them."""

    def __init__(self, store: Store, versions: Versions) -> None:
        self.store = store
        self.versions = versions
        self.battles = store.read("battles")

    @cached_property
    def conversations(self) -> pl.DataFrame:
        """`conversations` with `preset_dataset`."""
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
        """The values of one signal by content id; none when this run does not measure it."""
        return facts(self.store, name, self.versions.get(name, ""), columns)

    def stands(self, rule: Rule) -> bool:
        """Whether the rule is in force: not when it waits for a provider that nobody chose."""
        return not rule.if_chosen or rule.signal.partition(".")[0] in self.versions

    def redacted(self, policy: Policy) -> pl.DataFrame:
        """What the policy's redact rules made of conversations."""
        return self.store.read("redacted_conversations").filter(policy_hash=policy_hash(policy))

    def image_of(self, items: pl.DataFrame, semantic: bool = False) -> Mapping[str, str]:
        """Picture -> its representative, for items with `image_ids`, `tstamp` and `conversation_id`; earliest first.

        With `semantic` a picture may also stand for its semantic near-duplicates.
        """
        used = items.sort("tstamp", "conversation_id")["image_ids"].explode().drop_nulls()
        also = self.store.read("semantic_pictures") if semantic else None
        return representatives(used.unique(maintain_order=True), self.store.read("near_pictures"), also)
