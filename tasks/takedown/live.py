"""What of a store stays after a takedown: everything that a remaining conversation, image or vote still needs."""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.row import arrow_schema
from schemas.tables import TABLES
from schemas.takedown import TakenDownKind
from tasks.ingest.quarantine import taken_down_in
from tasks.storage.content_id import text_id
from tasks.storage.distinct import Distinct
from tasks.storage.tables import Store
from tasks.storage.tombstones import Tombstones


class Ids(Distinct):
    """A set of texts, kept as sorted 64-bit hashes under a seed that nobody knows.

    Beside 100 million ids, one that is not among them is taken for one with a chance of 1 in 180 billion; the next
    sweep draws another seed.
    """

    def __init__(self) -> None:
        super().__init__(secrets.randbits(32))

    def has(self, ids: pl.Series) -> pl.Series:
        """Whether each id is in the set, Boolean; null is not."""
        if not len(self):
            return pl.repeat(False, len(ids), eager=True)
        hashes = self._hashes(ids)
        place = np.minimum(np.searchsorted(self._known, hashes), len(self._known) - 1)
        return pl.Series(self._known[place] == hashes, dtype=pl.Boolean) & ids.is_not_null()

    def hold(self, column: pl.Expr) -> pl.Expr:
        """Whether each value of a column is in the set."""
        return column.map_batches(self.has, return_dtype=pl.Boolean)

    def hold_all(self, column: pl.Expr) -> pl.Expr:
        """Whether all values of each list of a column are in the set."""

        def all_of(lists: pl.Series) -> pl.Series:
            return pl.Series([bool(self.has(each).all()) for each in lists], dtype=pl.Boolean)

        return column.map_batches(all_of, return_dtype=pl.Boolean)

    def _hashes(self, values: pl.Series) -> npt.NDArray[np.uint64]:
        return super()._hashes(values.cast(pl.String))


PRESET = "preset:"
_OF_CONVERSATIONS = ["conversation_id", "turns.list.element.text_id", "prompt_id", "document_id", "image_ids"]


@dataclass(frozen=True)
class Live:
    """Ids that stay."""

    conversations: Ids
    """conversation_id."""
    names: Ids
    """Logged picture names, without extension."""
    pictures: Ids
    """Content ids of pictures, redacted ones too."""
    contents: Ids
    """Content ids of texts, prompts, documents and pictures."""
    judges: Ids
    """Keyed hashes of voters."""
    gone: frozenset[str]
    """conv_ids of `sightings` that do not stay."""


def live(store: Store, tombstones: Tombstones) -> Live:
    """A function of the tables and the tombstones alone."""
    gone = taken_down_in(store, store.parts("sightings"), tombstones)
    conversations = _conversations(store, tombstones)
    names = _names(store, gone)
    contents, pictures = Ids(), Ids()
    _add_parts(store, conversations, contents, pictures, tombstones)
    _add_files(store, names, contents, pictures, tombstones)
    for rows in store.read_slices("redacted_images", ["image_id", "source_image_id"]):
        made = rows.filter(pictures.hold(pl.col("source_image_id")))["image_id"]
        pictures.add(made)
        contents.add(made)
    for rows in store.read_slices("signals/image_text", ["content_id", "text"]):
        read = rows.filter(pictures.hold(pl.col("content_id")))["text"]
        contents.add(pl.Series([text_id(text) for text in read if text], dtype=pl.String))
    return Live(conversations, names, pictures, contents, _judges(store, conversations), frozenset(gone))


def _conversations(store: Store, tombstones: Tombstones) -> Ids:
    stay = Ids()
    for rows in store.read_slices("conversations", ["conversation_id"]):
        ids = rows["conversation_id"]
        stay.add(ids.filter(~ids.is_in(sorted(tombstones.conversations(ids)))))
    return stay


def _names(store: Store, gone: Iterable[str]) -> Ids:
    names, theirs = Ids(), pl.col("conv_id").is_in(sorted(gone))
    for rows in store.read_slices("sightings", ["conv_id", "pictures"]):
        names.add(rows.filter(~theirs.fill_null(False))["pictures"].explode())
    return names


def _add_parts(store: Store, conversations: Ids, contents: Ids, pictures: Ids, tombstones: Tombstones) -> None:
    """Add all texts, prompts, documents and pictures of the conversations."""
    for table in TABLES:
        if "turns" not in arrow_schema(TABLES[table].row).names:
            continue
        for rows in store.read_slices(table, _OF_CONVERSATIONS):
            of = rows.filter(conversations.hold(pl.col("conversation_id")))
            contents.add(of["turns"].list.eval(pl.element().struct.field("text_id")).explode())
            contents.add(of["prompt_id"])
            contents.add(of["document_id"])
            _add_images(of["image_ids"].explode(), contents, pictures, tombstones)


def _add_files(store: Store, names: Ids, contents: Ids, pictures: Ids, tombstones: Tombstones) -> None:
    """Add the pictures of files that stay."""
    for rows in store.read_slices("picture_files", ["name", "image_id"]):
        _add_images(rows.filter(stays("name", names))["image_id"], contents, pictures, tombstones)


def _add_images(found: pl.Series, contents: Ids, pictures: Ids, tombstones: Tombstones) -> None:
    ids = found.drop_nulls().unique()
    stay = ids.filter(~ids.is_in(sorted(tombstones.holds(TakenDownKind.PICTURE, ids))))
    pictures.add(stay)
    contents.add(stay)


def _judges(store: Store, conversations: Ids) -> Ids:
    judges = Ids()
    sides = conversations.hold(pl.col("conversation_a")) & conversations.hold(pl.col("conversation_b"))
    for rows in store.read_slices("battles", ["conversation_a", "conversation_b", "judge"]):
        judges.add(rows.filter(sides)["judge"])
    return judges


def stays(column: str, names: Ids) -> pl.Expr:
    """Whether each picture file, or picture name, is a preset or of a name that stays."""
    stem = pl.col(column).str.replace(r"\.[a-z]+$", "")
    return pl.col(column).str.starts_with(PRESET) | names.hold(stem)
