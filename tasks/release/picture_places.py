"""Where the pictures of a store lie, to be written anywhere without a copy in memory."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import IO, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow.compute as pc

from tasks.release.file_pieces import FilePieces
from tasks.release.picture_lists import CONTENT_ID_DIGITS
from tasks.release.plain_values import plain_values
from tasks.tables import Store

_COLUMNS = ["image_id", "bytes", "format"]
_TABLES = ("images", "redacted_images")
_KEY = f"S{CONTENT_ID_DIGITS // 2}"
"""A content id as bytes: half of its digits. numpy pads with zero bytes, so all must be of this length."""
Numbers = npt.NDArray[np.int64]


class _Found(NamedTuple):
    """Some pictures of one file."""

    image_ids: list[str]
    formats: list[str]
    offsets: Numbers
    lengths: Numbers
    file: int


class PicturePlaces:
    """The pictures of a store by content id: 36 bytes of memory each, and none of their content.

    Parts of a local store hold pictures as they are, and are read in place; of other stores they are copied to a
    temporary file first.
    """

    def __init__(self, store: Store) -> None:
        self._copies: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        self._files: list[str | None] = [None]
        """Paths; None is the temporary file."""
        count = sum(store.height(table) for table in _TABLES)
        self._ids, self._formats = np.zeros(count, _KEY), np.zeros(count, "S4")
        self._file_of, self._lengths = np.zeros(count, np.int32), np.zeros(count, np.uint32)
        self._offsets = np.zeros(count, np.int64)
        start = 0
        for found in (found for table in _TABLES for found in self._parts(store, table)):
            some = slice(start, start := start + len(found.image_ids))
            self._ids[some], self._formats[some], self._file_of[some] = (
                _keys(found.image_ids),
                found.formats,
                found.file,
            )
            self._offsets[some], self._lengths[some] = found.offsets, found.lengths
        self._index()
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

    def _index(self) -> None:
        """By id, each once."""
        first = np.argsort(self._ids, kind="stable")
        self._ids = self._ids[first]
        new = np.ones(len(first), np.bool_)
        new[1:] = self._ids[1:] != self._ids[:-1]  # of equal ids the first: what was taken in
        first, self._ids = first[new], self._ids[new]
        self._formats, self._file_of = self._formats[first], self._file_of[first]
        self._offsets, self._lengths = self._offsets[first], self._lengths[first]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._copies.close()

    def places(self, image_ids: Sequence[str]) -> Numbers:
        """A number of each picture, for the other methods. Raises KeyError for one that is not stored."""
        wanted = _keys(image_ids)
        places = np.searchsorted(self._ids, wanted)
        known = places < len(self._ids)
        known[known] = self._ids[places[known]] == wanted[known]
        if not known.all():
            raise KeyError(image_ids[int(np.argmin(known))])
        return places.astype(np.int64)

    def sizes(self, places: Numbers) -> Numbers:
        """Encoded bytes of pictures."""
        return self._lengths[places].astype(np.int64)

    def names(self, places: Numbers) -> list[str]:
        """`<content id>.<format>` of pictures."""
        digits = self._ids[places].tobytes().hex()
        starts = range(0, len(digits), CONTENT_ID_DIGITS)
        ids = (digits[start : start + CONTENT_ID_DIGITS] for start in starts)
        return [f"{each}.{kind.decode()}" for each, kind in zip(ids, self._formats[places].tolist(), strict=True)]

    def pieces(self, places: Numbers) -> FilePieces:
        """The encoded bytes of pictures, where they lie."""
        return FilePieces(self._file_of[places], self._offsets[places], self.sizes(places), self._opened)

    def _opened(self, file: int) -> AbstractContextManager[IO[bytes]]:
        path = self._files[file]
        return nullcontext(self._copies) if path is None else open(path, "rb", buffering=0)


def _keys(image_ids: Sequence[str]) -> npt.NDArray[np.bytes_]:
    """Content ids as bytes. Raises KeyError for what is none."""
    decoded = pl.Series(image_ids, dtype=pl.String).str.decode("hex", strict=False)
    other = (decoded.bin.size() != CONTENT_ID_DIGITS // 2).fill_null(True)
    if other.any():
        raise KeyError(image_ids[other.arg_true()[0]])
    return np.array(decoded.to_list(), _KEY)
