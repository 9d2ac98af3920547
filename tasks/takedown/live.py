"""What of a store stays after a takedown: all that some remaining conversation, picture or vote still needs."""

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from schemas.row import arrow_schema
from schemas.tables import TABLES
from schemas.takedown import TakenDownKind
from tasks.content_id import text_id
from tasks.ingest.taken_down import taken_down_in
from tasks.tables import Store
from tasks.tombstones import Tombstones

PRESET = "preset:"


@dataclass(frozen=True)
class Live:
    """Ids that stay; String columns."""

    conversations: pl.Series
    """conversation_id."""
    names: pl.Series
    """Logged picture names, without extension."""
    pictures: pl.Series
    """Content ids of pictures, redacted ones too."""
    contents: pl.Series
    """Content ids of texts, prompts, documents and pictures."""
    judges: pl.Series
    """Keyed hashes of voters."""
    gone: frozenset[str]
    """conv_ids of `sightings` that do not stay."""


def live(store: Store, tombstones: Tombstones) -> Live:
    """A function of the tables and the tombstones alone."""
    gone = taken_down_in(store, store.parts("sightings"), tombstones)
    conversations = _conversations(store, tombstones)
    names = _unique(_names(store, gone))
    texts, images = _parts_of(store, conversations)
    pictures = _pictures(store, names, images, tombstones)
    read = store.read("signals/image_text", ["content_id", "text"]).filter(pl.col("content_id").is_in(pictures))
    in_pictures = pl.Series([text_id(text) for text in read["text"] if text], dtype=pl.String)
    sides = pl.col("conversation_a").is_in(conversations) & pl.col("conversation_b").is_in(conversations)
    judges = store.read("battles", ["conversation_a", "conversation_b", "judge"]).filter(sides)["judge"]
    contents = _unique(iter([texts, pictures, in_pictures]))
    return Live(conversations, names, pictures, contents, _unique(iter([judges])), frozenset(gone))


def _unique(columns: Iterator[pl.Series]) -> pl.Series:
    return pl.concat([pl.Series([], dtype=pl.String), *(each.unique() for each in columns)]).unique().drop_nulls()


def _names(store: Store, gone: set[str]) -> Iterator[pl.Series]:
    for rows in store.read_parts("sightings", ["conv_id", "pictures"]):
        yield rows.filter(~pl.col("conv_id").is_in(sorted(gone)))["pictures"].explode()


def _conversations(store: Store, tombstones: Tombstones) -> pl.Series:
    ids = store.read("conversations", ["conversation_id"])["conversation_id"]
    return ids.filter(~ids.is_in(sorted(tombstones.conversations(ids))))


def _parts_of(store: Store, conversations: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Content ids of all texts, prompts and documents of the conversations, and of their pictures."""
    texts: list[pl.Series] = []
    images: list[pl.Series] = []
    for table in TABLES:
        if "turns" not in arrow_schema(TABLES[table].row).names:
            continue
        for rows in store.read_parts(table, ["conversation_id", "turns", "prompt_id", "document_id", "image_ids"]):
            of = rows.filter(pl.col("conversation_id").is_in(conversations))
            ids = of["turns"].list.eval(pl.element().struct.field("text_id")).explode()
            texts.append(pl.concat([ids, of["prompt_id"], of["document_id"]]))
            images.append(of["image_ids"].explode())
    return _unique(iter(texts)), _unique(iter(images))


def _pictures(store: Store, names: pl.Series, used: pl.Series, tombstones: Tombstones) -> pl.Series:
    files = store.read("picture_files", ["name", "image_id"])
    listed = files.filter(stays(files["name"], names))["image_id"]
    wanted = _unique(iter([used, listed]))
    sources = wanted.filter(~wanted.is_in(sorted(tombstones.holds(TakenDownKind.PICTURE, wanted))))
    made = store.read("redacted_images", ["image_id", "source_image_id"])
    return _unique(iter([sources, made.filter(pl.col("source_image_id").is_in(sources))["image_id"]]))


def stays(file_names: pl.Series, names: pl.Series) -> pl.Series:
    """Whether each picture file, or picture name, is a preset or of a name that stays."""
    return file_names.str.starts_with(PRESET) | file_names.str.replace(r"\.[a-z]+$", "").is_in(names)
