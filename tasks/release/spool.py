"""Pictures of a release in one temporary file, for reading in any order without holding them in memory."""

import os
import tempfile
from collections.abc import Collection
from itertools import chain
from types import TracebackType
from typing import NamedTuple, Self

from tasks.tables import Store


class _Place(NamedTuple):
    offset: int
    length: int
    format: str


class SpooledImages:
    """The wanted pictures of a store, copied out of its parts in one sequential pass."""

    def __init__(self, store: Store, wanted: Collection[str]) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        self._places: dict[str, _Place] = {}
        end = 0
        columns = ["image_id", "bytes", "format"]
        for part in chain(store.read_parts("images", columns), store.read_parts("redacted_images", columns)):
            for image_id, content, kind in part.iter_rows():
                if image_id in wanted and image_id not in self._places:
                    self._places[image_id] = _Place(end, len(content), kind)
                    self._file.write(content)
                    end += len(content)
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def size(self, image_id: str) -> int:
        """Encoded bytes of a picture."""
        return self._places[image_id].length

    def encoded(self, image_id: str) -> dict[str, object]:
        """The picture as `datasets.Image` stores it."""
        place = self._places[image_id]
        content = os.pread(self._file.fileno(), place.length, place.offset)
        return {"bytes": content, "path": f"{image_id}.{place.format}"}
