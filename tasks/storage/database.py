"""A temporary DuckDB database for joins larger than memory. Its SQL is constant text; values go in as parameters."""

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, cast

import duckdb
import polars as pl
import pyarrow as pa

MEMORY = "384MB"
"""What DuckDB holds at once; the rest lies in a temporary folder (`TMPDIR`)."""


class TemporaryDatabase:
    """Tables made of frames; the files go with the object."""

    def __init__(self) -> None:
        folder = tempfile.mkdtemp(prefix="curate-join-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": MEMORY,
            "temp_directory": folder,
            "threads": 2,  # each needs its own share of the memory
            "preserve_insertion_order": False,
            "autoinstall_known_extensions": False,
        }
        self._connection = duckdb.connect(":memory:", config=settings)
        self._connection.execute("SET TimeZone = 'UTC'")

    def load(self, name: str, frames: Iterable[pl.DataFrame]) -> None:
        """Make a table of frames of one schema, one at least, with their rows numbered in `place`."""
        self.run(f'CREATE TABLE "{name}" AS SELECT * FROM loaded', loaded=frames)  # noqa: S608

    def append(self, name: str, frame: pl.DataFrame) -> None:
        """Add rows to a table."""
        self.run(f'INSERT INTO "{name}" SELECT * EXCLUDE place FROM added', added=[frame])  # noqa: S608

    def run(self, statement: str, **frames: Iterable[pl.DataFrame]) -> None:
        """Run a statement that may read these frames, each once, by name; their rows are numbered in `place`.

        Raises what the frames raise: an object store that is lost stays told as such.
        """
        failed: list[BaseException] = []
        for name, some in frames.items():
            self._connection.register(name, _reader(some, failed))
        try:
            self._connection.execute(statement)
        except Exception:
            if failed:
                raise failed[0] from None
            raise
        finally:
            for name in frames:
                self._connection.unregister(name)

    def read(self, query: str, *values: Any) -> pl.DataFrame:
        """The rows of a query."""
        return cast(pl.DataFrame, self._connection.sql(query, params=list(values)).pl())

    def read_batches(self, query: str, rows: int) -> Iterator[pl.DataFrame]:
        """The rows of a query, so many at a time."""
        for batch in self._connection.sql(query).to_arrow_reader(rows):
            yield pl.DataFrame(batch)


def _reader(frames: Iterable[pl.DataFrame], failed: list[BaseException]) -> pa.RecordBatchReader:
    numbered = _numbered(frames)
    first = next(numbered)

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            for table in chain([first], numbered):
                yield from table.to_batches()
        except BaseException as error:  # DuckDB makes another error of it
            failed.append(error)
            raise

    return pa.RecordBatchReader.from_batches(first.schema, batches())


def _numbered(frames: Iterable[pl.DataFrame]) -> Iterator[pa.Table]:
    place = 0
    for frame in frames:
        yield frame.with_row_index("place", place).to_arrow(compat_level=pl.CompatLevel.oldest())
        place += frame.height
