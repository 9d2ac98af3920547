"""Computes what stays in a store after a takedown: everything that a remaining conversation, image or vote needs."""

import secrets
from dataclasses import dataclass, field

import polars as pl

from schemas.row import arrow_schema
from schemas.tables import TABLES
from schemas.takedown import TakenDownKind
from tasks.ingest.quarantine import PRESET, taken_down_in
from tasks.storage.content_id import text_id
from tasks.storage.distinct import Distinct
from tasks.storage.tables import Store
from tasks.storage.tombstones import Tombstones

_OF_CONVERSATIONS = ["conversation_id", "turns.list.element.text_id", "prompt_id", "document_id", "image_ids"]
_TEXT_ID = pl.element().struct.field("text_id")


def _random_set() -> Distinct:
    """A set whose hashes are seeded at random, so that a collision does not recur in the next sweep."""
    return Distinct(secrets.randbits(32))


@dataclass(frozen=True)
class Live:
    """Sets of ids that stay after a takedown."""

    gone: frozenset[str]
    """conv_ids of `sightings` that do not stay."""
    conversations: Distinct = field(default_factory=_random_set)
    """conversation_id."""
    names: Distinct = field(default_factory=_random_set)
    """Logged image names, without extension."""
    images: Distinct = field(default_factory=_random_set)
    """Content ids of images, including redacted ones."""
    contents: Distinct = field(default_factory=_random_set)
    """Content ids of texts, prompts, documents and images."""
    judges: Distinct = field(default_factory=_random_set)
    """Keyed hashes of voters."""

    def add_images(self, ids: pl.Series, tombstones: Tombstones) -> None:
        """Add images that were not taken down."""
        ids = ids.drop_nulls().unique()
        stay = ids.filter(~ids.is_in(sorted(tombstones.holds(TakenDownKind.PICTURE, ids))))
        self.images.add(stay)
        self.contents.add(stay)


def live(store: Store, tombstones: Tombstones) -> Live:
    """What stays; depends only on the tables and the tombstones."""
    gone = frozenset(taken_down_in(store, store.parts("sightings"), tombstones))
    stay = Live(gone)
    for rows in store.read_slices("conversations", ["conversation_id"]):
        ids = rows["conversation_id"]
        stay.conversations.add(ids.filter(~ids.is_in(sorted(tombstones.conversations(ids)))))
    going = pl.col("conv_id").is_in(sorted(gone)).fill_null(False)
    for rows in store.read_slices("sightings", ["conv_id", "pictures"]):
        stay.names.add(rows.filter(~going)["pictures"].explode())
    for table in (name for name, declared in TABLES.items() if "turns" in arrow_schema(declared.row).names):
        for rows in store.read_slices(table, _OF_CONVERSATIONS):
            kept = rows.filter(stay.conversations.hold(pl.col("conversation_id")))
            for ids in (kept["turns"].list.eval(_TEXT_ID).explode(), kept["prompt_id"], kept["document_id"]):
                stay.contents.add(ids)
            stay.add_images(kept["image_ids"].explode(), tombstones)
    for rows in store.read_slices("picture_files", ["name", "image_id"]):
        stay.add_images(rows.filter(stays("name", stay.names))["image_id"], tombstones)
    for rows in store.read_slices("redacted_images", ["image_id", "source_image_id"]):
        redacted = rows.filter(stay.images.hold(pl.col("source_image_id")))["image_id"]
        stay.images.add(redacted)
        stay.contents.add(redacted)
    for rows in store.read_slices("signals/image_text", ["content_id", "text"]):
        texts = rows.filter(stay.images.hold(pl.col("content_id")))["text"]
        stay.contents.add(pl.Series([text_id(text) for text in texts if text], dtype=pl.String))
    sides = stay.conversations.hold(pl.col("conversation_a")) & stay.conversations.hold(pl.col("conversation_b"))
    for rows in store.read_slices("battles", ["conversation_a", "conversation_b", "judge"]):
        stay.judges.add(rows.filter(sides)["judge"])
    return stay


def stays(column: str, names: Distinct) -> pl.Expr:
    """Whether the image name or image file in `column` is a preset, or one of `names`."""
    stem = pl.col(column).str.replace(r"\.[a-z]+$", "")
    return pl.col(column).str.starts_with(PRESET) | names.hold(stem)
