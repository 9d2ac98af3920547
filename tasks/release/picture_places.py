"""Where the pictures of a store lie, to be written anywhere without a copy in memory."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import IO, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from tasks.release.file_pieces import FilePieces
from tasks.release.plain_values import plain_values
from tasks.tables import Store

_COLUMNS = ["image_id", "bytes", "format"]
Numbers = npt.NDArray[np.int64]


class _Found(NamedTuple):
    """Some pictures of one file."""

    image_ids: list[str]
    formats: list[str]
    offsets: Numbers
    lengths: Numbers
    file: int


class PicturePlaces:
    """The pictures of a store by content id: 60 bytes of memory each, and none of their content.

    Parts of a local store hold pictures as they are, and are read in place; of other stores they are copied to a
    temporary file first.
    """

    def __init__(self, store: Store) -> None:
        self._copies: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        self._files: list[str | None] = [None]
        """Paths; None is the temporary file."""
        self._index([found for table in ("images", "redacted_images") for found in self._parts(store, table)])
        self._copies.flush()

    def _parts(self, store: Store, table: str) -> Iterator[_Found]:
        for part in store.parts(table):
            path = store.local_part(table, part)
            values = plain_values(path, "bytes") if path is not None else None
            if path is None or values is None:
                yield from self._copied(store, table, part)
                continue
            named = store.read_part(table, part, ["image_id", "format"])
            self._files.append(path)
            ids, formats = (named[name].to_list() for name in named.columns)
            yield _Found(ids, formats, *values, len(self._files) - 1)

    def _copied(self, store: Store, table: str, part: str) -> Iterator[_Found]:
        for batch in store.read_part_batches(table, part, _COLUMNS):
            start, lengths = self._copies.tell(), np.array(pc.binary_length(batch["bytes"]), np.int64)
            for content in batch["bytes"]:
                self._copies.write(content.as_buffer())
            offsets = start + np.cumsum(lengths) - lengths
            yield _Found(batch["image_id"].to_pylist(), batch["format"].to_pylist(), offsets, lengths, 0)

    def _index(self, found: list[_Found]) -> None:
        ids = np.concatenate([np.zeros(0, "S32"), *(np.array(each.image_ids, "S") for each in found)])
        formats = np.concatenate([np.zeros(0, "S4"), *(np.array(each.formats, "S") for each in found)])
        files = np.repeat([each.file for each in found], [len(each.image_ids) for each in found])
        _, first = np.unique(ids, return_index=True)  # of equal ids the first: what was taken in
        self._ids, self._formats, self._file_of = ids[first], formats[first], files[first].astype(np.int32)
        none = np.zeros(0, np.int64)
        self._offsets = np.concatenate([none, *(each.offsets for each in found)])[first]
        self._lengths = np.concatenate([none, *(each.lengths for each in found)])[first]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._copies.close()

    def places(self, image_ids: Sequence[str]) -> Numbers:
        """A number of each picture, for the other methods. Raises KeyError for one that is not stored."""
        wanted = np.array(image_ids, "S") if len(image_ids) else self._ids[:0]
        places = np.searchsorted(self._ids, wanted)
        known = places < len(self._ids)
        known[known] = self._ids[places[known]] == wanted[known]
        if not known.all():
            raise KeyError(image_ids[int(np.argmin(known))])
        return places.astype(np.int64)

    def sizes(self, places: Numbers) -> Numbers:
        """Encoded bytes of pictures."""
        return self._lengths[places]

    def names(self, places: Numbers) -> list[str]:
        """`<content id>.<format>` of pictures."""
        pairs = zip(self._ids[places].tolist(), self._formats[places].tolist(), strict=True)
        return [f"{image_id.decode()}.{kind.decode()}" for image_id, kind in pairs]

    def pieces(self, places: Numbers) -> FilePieces:
        """The encoded bytes of pictures, where they lie."""
        return FilePieces(self._file_of[places], self._offsets[places], self._lengths[places], self._opened)

    def _opened(self, file: int) -> AbstractContextManager[IO[bytes]]:
        path = self._files[file]
        return nullcontext(self._copies) if path is None else open(path, "rb", buffering=0)
