"""A temporary DuckDB database for joins larger than memory.

SQL statements are constant text; values are passed as parameters.
"""

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa

from tasks.storage.tables import Store

MEMORY = "384MB"
"""DuckDB's memory limit; data beyond it is spilled to a temporary folder (`TMPDIR`)."""


class TemporaryDatabase:
    """Tables loaded from polars frames. The temporary files are deleted with the object."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="curate-join-")
        """For temporary files, which are deleted with the object."""
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": MEMORY,
            "temp_directory": self.folder,
            "threads": 2,  # every thread needs its own share of the memory
            "preserve_insertion_order": False,
            "autoinstall_known_extensions": False,
        }
        self._connection = duckdb.connect(":memory:", config=settings)
        self._connection.execute("SET TimeZone = 'UTC'")

    def load(self, name: str, frames: Iterable[pl.DataFrame]) -> None:
        """Create a table from one or more frames of one schema. The column `place` numbers the rows."""
        self.run(f'CREATE TABLE "{name}" AS SELECT * FROM loaded', loaded=frames)  # noqa: S608

    def load_table(self, store: Store, name: str, columns: Sequence[str]) -> None:
        """Create a table from columns of a table of a store."""
        self.load(name, chain([store.empty(name, columns)], store.read_slices(name, columns)))

    def append(self, name: str, frame: pl.DataFrame) -> None:
        """Add rows to a table; their `place` is null where it has one."""
        self.run(f'INSERT INTO "{name}" BY NAME SELECT * EXCLUDE place FROM added', added=[frame])  # noqa: S608

    def run(self, statement: str, **frames: Iterable[pl.DataFrame]) -> None:
        """Run a statement that reads each of `frames` once, by its name. The column `place` numbers their rows.

        An error raised while the frames are read is raised as it is, not as a DuckDB error.
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
        return self._connection.sql(query, params=list(values)).pl()

    def read_batches(self, query: str, rows: int) -> Iterator[pl.DataFrame]:
        """The rows of a query, at most `rows` at a time."""
        for batch in self._connection.sql(query).to_arrow_reader(rows):
            yield pl.DataFrame(batch)


def _reader(frames: Iterable[pl.DataFrame], failed: list[BaseException]) -> pa.RecordBatchReader:
    numbered = _numbered(frames)
    first = next(numbered)

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            for table in chain([first], numbered):
                yield from table.to_batches()
        except BaseException as error:  # DuckDB would replace it by an error of its own
            failed.append(error)
            raise

    return pa.RecordBatchReader.from_batches(first.schema, batches())


def _numbered(frames: Iterable[pl.DataFrame]) -> Iterator[pa.Table]:
    place = 0
    for frame in frames:
        yield frame.with_row_index("place", place).to_arrow(compat_level=pl.CompatLevel.oldest())
        place += frame.height
