"""Looks up the stored, encoded images by content id."""

import threading
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from tasks.storage.tables import Store

GROUPS_IN_MEMORY = 32
"""Row groups; one has about 2 MB."""


class StoredImage(NamedTuple):
    """A row of `images` or `redacted_images`."""

    image_id: str
    bytes: bytes
    format: str
    width: int
    height: int


class StoredImages:
    """Stored images by content id. Keeps the last few row groups in memory; `ordered` gives the fastest order.

    `tables`: `images` (the default) and `redacted_images`. `part_of`: (table, part, row group) of each image, if
    already known.
    """

    def __init__(self, store: Store, *tables: str, part_of: dict[str, tuple[str, str, int]] | None = None) -> None:
        self._store, self._lock = store, threading.Lock()
        self._group = lru_cache(GROUPS_IN_MEMORY)(self._read)
        self.part_of = part_of or {
            image_id: (table, part, group)
            for table in tables or ("images",)
            for part, ids in zip(store.parts(table), store.read_parts(table, ["image_id"]), strict=True)
            for image_id, group in zip(ids["image_id"], store.group_of_rows(table, part), strict=True)
        }

    def ordered(self, image_ids: Iterable[str]) -> list[str]:
        """The ids of stored images, grouped by part."""
        return sorted({i for i in image_ids if i in self.part_of}, key=lambda i: (self.part_of[i], i))

    def __getitem__(self, image_id: str) -> StoredImage:
        """The image. Raises KeyError when it is not stored."""
        place = self.part_of[image_id]
        with self._lock:
            return self._group(*place)[image_id]

    def _read(self, table: str, part: str, group: int) -> dict[str, StoredImage]:
        rows = self._store.read_group(table, part, group, StoredImage._fields).iter_rows()
        return {image.image_id: image for image in map(StoredImage._make, rows)}
