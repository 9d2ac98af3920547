"""Stores pictures part by part while they are taken in."""

from collections.abc import Callable, Sequence
from typing import Generic

from schemas.image import Image, PictureFile
from tasks.ingest.take_in import Seen, TakenIn
from tasks.tables import Store, frame_of

IMAGES_A_PART = 512


class PictureParts(Generic[Seen]):
    """Collects batches and appends them to `images` and `picture_files`.

    What was seen in the pictures is kept first, so that a killed run measures again rather than leaves a gap.
    """

    def __init__(self, store: Store, keep: Callable[[Sequence[Seen]], None]) -> None:
        self.known: list[str] = []
        """Names of pictures that are on a list of known hashes."""
        self.counts = {"files": 0, "images": 0}
        """What is stored."""
        self._store = store
        self._keep = keep
        self._waiting: TakenIn[Seen] = TakenIn()

    def add(self, batch: TakenIn[Seen]) -> None:
        """Take a batch, and store a part when there is enough for one."""
        self.known += batch.known
        self._waiting.images += batch.images
        self._waiting.files += batch.files
        self._waiting.seen += batch.seen
        if len(self._waiting.images) >= IMAGES_A_PART:
            self.store_rest()

    def store_rest(self) -> None:
        """Store what waits."""
        self._keep(self._waiting.seen)
        self._store.append("images", frame_of(Image, self._waiting.images))
        self._store.append("picture_files", frame_of(PictureFile, self._waiting.files))
        self.counts["files"] += len(self._waiting.files)
        self.counts["images"] += len(self._waiting.images)
        self._waiting = TakenIn()
