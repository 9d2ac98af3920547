"""Frames in one temporary file, by number: what a join needs later, without holding it in memory."""

import io
import os
import tempfile
import weakref
from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import cast

import polars as pl
import pyarrow as pa


def compact(frame: pl.DataFrame) -> pl.DataFrame:
    """The same rows without the buffers of the rows they were chosen from, which polars' strings keep alive."""
    return cast(pl.DataFrame, pl.from_arrow(frame.to_arrow(compat_level=pl.CompatLevel.oldest())))


class SpooledFrames:
    """Frames that were added under a number come back as one, in the order in which they were added.

    All have one schema. Memory holds 16 bytes and a few more for each frame; the file goes with the object.
    """

    def __init__(self, empty: pl.DataFrame) -> None:
        self._empty = empty
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the object
        weakref.finalize(self, self._file.close)
        self._places: defaultdict[int, array[int]] = defaultdict(lambda: array("q"))

    def add(self, number: int, frame: pl.DataFrame) -> None:
        """Append the rows of `frame` to those under `number`."""
        table = frame.select(self._empty.columns).to_arrow(compat_level=pl.CompatLevel.oldest())
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        start = self._file.seek(0, os.SEEK_END)
        self._places[number].extend((start, self._file.write(sink.getbuffer())))

    def add_parts(self, numbered: pl.DataFrame, column: str) -> None:
        """Add every row of `numbered` under the number in its `column`."""
        for (number,), rows in numbered.partition_by(column, as_dict=True, include_key=False).items():
            self.add(int(str(number)), rows)

    @property
    def filled(self) -> bool:
        """Whether any rows were added."""
        return bool(self._places)

    def read(self, number: int, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """The rows under `number`; no rows where none were added."""
        names = self._empty.columns if columns is None else list(columns)
        self._file.flush()
        places = self._places.get(number, array("q"))
        frames = [self._read(*place, names) for place in zip(places[::2], places[1::2], strict=True)]
        return pl.concat([self._empty.select(names), *frames])

    def _read(self, start: int, length: int, names: list[str]) -> pl.DataFrame:
        content = os.pread(self._file.fileno(), length, start)
        if len(content) != length:
            raise OSError(f"a temporary file was cut short at byte {start}")
        table = pa.ipc.open_stream(content).read_all().select(names)
        return cast(pl.DataFrame, pl.from_arrow(table))


def in_shares(frames: Iterable[pl.DataFrame], key: Sequence[str], count: int) -> SpooledFrames:
    """Frames, one at least, in shares 0 to `count` - 1 by a hash of `key`: rows that agree in it are in one share."""
    rest = iter(frames)
    first = next(rest)
    shares = SpooledFrames(first.clear())
    for rows in chain([first], rest):
        shares.add_parts(rows.with_columns(share=pl.struct(key).hash() % count), "share")
    return shares
