"""Pictures of a release in one temporary file, for reading in any order without holding them in memory."""

import os
import tempfile
import threading
from collections.abc import Collection
from itertools import chain
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np
import polars as pl
import pyarrow as pa

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
        self._own = threading.local()
        columns = ["image_id", "bytes", "format"]
        for batch in chain(store.read_batches("images", columns), store.read_batches("redacted_images", columns)):
            self._add(batch, wanted)
        self._file.flush()

    def _add(self, batch: pa.RecordBatch, wanted: Collection[str]) -> None:
        """Copy pictures out of their Arrow buffer; none becomes a Python object."""
        pictures = batch["bytes"]
        _, offsets, content = pictures.buffers()
        ends = np.frombuffer(offsets, np.int32)[pictures.offset :].tolist()
        view = memoryview(content)
        for row, image_id in enumerate(batch["image_id"].to_pylist()):
            if image_id in wanted and image_id not in self._places:
                kind, place = batch["format"][row].as_py(), self._file.tell()
                self._places[image_id] = _Place(place, ends[row + 1] - ends[row], kind)
                self._file.write(view[ends[row] : ends[row + 1]])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def size(self, image_id: str) -> int:
        """Encoded bytes of a picture."""
        return self._places[image_id].length

    def column(self, image_ids: pl.Series, kind: pa.ListType) -> pa.ListArray:
        """Pictures of some rows (a list of ids each) as `datasets` stores lists of images, of Arrow type `kind`.

        Every picture is read straight to its place in one Arrow buffer, so that none becomes a Python object. May be
        called from several threads; each has one buffer, so what it got before is overwritten: fresh memory for every
        row group would cost a sixth of the writing.
        """
        names = image_ids.explode(empty_as_null=False).to_list()
        places = [self._places[name] for name in names]
        offsets = _ends([place.length for place in places])
        view = self._buffer(int(offsets[-1]))
        for place, start in zip(places, offsets.tolist(), strict=False):  # one more offset than pictures
            if os.preadv(self._file.fileno(), [view[start : start + place.length]], place.offset) != place.length:
                raise OSError(f"the temporary file of pictures was cut short at byte {place.offset}")
        pictures = pa.BinaryArray.from_buffers(
            pa.binary(), len(names), [None, pa.py_buffer(offsets), pa.py_buffer(view)]
        )
        paths = pa.array([f"{name}.{place.format}" for name, place in zip(names, places, strict=True)], pa.string())
        listed = pa.StructArray.from_arrays([pictures, paths], fields=list(kind.value_type))
        return pa.ListArray.from_arrays(_ends(image_ids.list.len().to_list()), listed, type=kind)

    def _buffer(self, size: int) -> memoryview:
        """This thread's memory, at least `size` bytes of it."""
        if len(getattr(self._own, "memory", b"")) < size:
            self._own.memory = bytearray(size)
        return memoryview(self._own.memory)[:size]


def _ends(lengths: list[int]) -> "np.ndarray[tuple[int], np.dtype[np.int32]]":
    """Arrow offsets, int32: 0 and the running sums of the lengths."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int32)
