"""Shards of pictures -> parts of `images`, `picture_files` and whatever was seen, listed shard by shard."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import polars as pl

from schemas.image import Image, PictureFile
from tasks.ingest.look import Looker
from tasks.ingest.take_in import TakenIn
from tasks.tables import Store, frame_of


class WrittenShard(NamedTuple):
    """What one shard became. No list names its parts yet."""

    image_ids: list[str]
    files: int
    """Files that were taken in."""
    parts: list[tuple[str, str]]
    """(table, part), what was seen before the pictures: a run killed in between measures again, and leaves no gap."""
    known: list[str]
    """Names of pictures that are on a list of known hashes."""
    taken_down: list[str]
    """Names of pictures that were taken down."""
    done: Any
    """What the looker counts."""


def write_shard(store: Store, taken: TakenIn, looker: Looker) -> WrittenShard:
    """Write what a shard of files became."""
    image_ids = [image.image_id for image in taken.images]
    parts, done = looker.write(taken.seen, set(image_ids))
    if taken.images:
        parts = [*parts, ("images", store.write_part("images", frame_of(Image, taken.images)))]
    if taken.files:
        parts = [*parts, ("picture_files", store.write_part("picture_files", frame_of(PictureFile, taken.files)))]
    return WrittenShard(image_ids, len(taken.files), parts, taken.known, taken.taken_down, done)


class PictureParts:
    """Lists shards in their order: every picture once, in the part of the first shard that has it."""

    def __init__(self, store: Store, looker: Looker, known_ids: set[str]) -> None:
        self.known: list[str] = []
        """Names of pictures that are on a list of known hashes."""
        self.taken_down: list[str] = []
        """Names of pictures that were taken down."""
        self.counts = {"files": 0, "images": 0}
        """What is stored."""
        self._store = store
        self._looker = looker
        self._ids = known_ids

    def add(self, shard: WrittenShard) -> None:
        """List a shard's parts, without pictures that were listed before: shards do not know of each other."""
        new = [image_id for image_id in shard.image_ids if image_id not in self._ids]
        again = sorted(self._ids.intersection(shard.image_ids))
        for table, part in shard.parts:
            left = self._without(table, part, again) if again and table != "picture_files" else part
            if left is not None:
                self._store.add_parts(table, [left])
        self._looker.count(shard.done)
        self._ids.update(new)
        self.known += shard.known
        self.taken_down += shard.taken_down
        self.counts["files"] += shard.files
        self.counts["images"] += len(new)

    def _without(self, table: str, part: str, image_ids: Sequence[str]) -> str | None:
        """A part without the rows of some pictures; None when nothing is left."""
        key = "image_id" if table == "images" else "content_id"
        rows = self._store.read_part(table, part)
        left = rows.filter(~pl.col(key).is_in(image_ids))
        if left.height == rows.height:
            return part
        if part not in self._store.parts(table):
            self._store.fs.rm_file(self._store.at(f"tables/{table}/{part}"))
        return self._store.write_part(table, left) if left.height else None
