"""A temporary DuckDB database for joins larger than memory, and files of rows that are read a block at a time.

In: polars frames. Out: frames, of a query (`TemporaryDatabase`) or of a block (`BlockFiles`). SQL statements are
constant text; values are passed as parameters. To order rows, DuckDB holds 122,880 of them whole on each thread,
whatever their size: order ids and numbers of rows in it, and put rows that hold texts or lists into `BlockFiles`. A
further error of DuckDB or of the disk is a case in `_in_one_line`.
"""

import errno
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, cast

import duckdb
import polars as pl
import pyarrow as pa

from schemas.errors import BadInput, CurateError, StoreUnwell
from tasks.runtime.memory import limits
from tasks.storage.tables import Store

MEMORY_GB_MIN, MEMORY_GB_MAX = 0.25, 1.0
"""Range of the memory limit where the setting gives none. A stage has at most two databases at a time."""
_MEMORY_SHARE = 0.1
"""Share of the memory of the machine or container that is the limit, within this range."""
_MEMORY_SHARE_OF_DUCKDB = 0.8
"""Share that DuckDB takes as its own limit, from which the memory of the machine or container is known."""
_NO_ROOM_WORDS = [os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)]
"""Words in errors about a folder without room."""


class TemporaryDatabase:
    """Tables loaded from polars frames. The temporary files are deleted with the object.

    What exceeds the memory limit is spilled to `TMPDIR`. Raises BadInput where the limit is too small, and StoreUnwell
    where the folder is full; both name the setting.
    """

    def __init__(self) -> None:
        self._connection = new_connection(self, threads=2, memory_share=1)

    def load(self, name: str, frames: Iterable[pl.DataFrame]) -> None:
        """Create a table from one or more frames of one schema. The column `place` numbers the rows."""
        place = 0
        for number, frame in enumerate(frames):
            statement = f'INSERT INTO "{name}"' if number else f'CREATE TABLE "{name}" AS'
            self._run_with(f"{statement} SELECT * FROM added_rows", frame.with_row_index("place", place))  # noqa: S608
            place += frame.height

    def load_table(self, store: Store, name: str, columns: Sequence[str]) -> None:
        """Create a table from columns of a table of a store."""
        self.load(name, chain([store.empty(name, columns)], store.read_slices(name, columns)))

    def append(self, name: str, frame: pl.DataFrame) -> None:
        """Add rows to a table; their `place` is null where it has one."""
        self._run_with(f'INSERT INTO "{name}" BY NAME SELECT * FROM added_rows', frame)  # noqa: S608

    def _run_with(self, statement: str, frame: pl.DataFrame) -> None:
        """Run a statement that reads a frame as `added_rows`.

        The frame goes as an Arrow table, for which DuckDB's threads run no Python: a thread that still did when a
        statement failed would not let the process end.
        """
        with engine_errors():
            table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
            self._connection.register("added_rows", table.to_reader())
            self._connection.execute(statement)
            self._connection.unregister("added_rows")

    def run(self, statement: str) -> None:
        """Run a statement."""
        with engine_errors():
            self._connection.execute(statement)

    def read(self, query: str, *values: Any) -> pl.DataFrame:
        """The rows of a query."""
        with engine_errors():
            return self._connection.sql(query, params=list(values)).pl()

    def read_batches(self, query: str, rows: int) -> Iterator[pl.DataFrame]:
        """The rows of a query, at most `rows` at a time."""
        with engine_errors():
            batches = self._connection.sql(query).to_arrow_reader(rows)
        while True:
            with engine_errors():
                batch = next(batches, None)
            if batch is None:
                return
            yield pl.DataFrame(batch)


class BlockFiles:
    """Rows in one temporary file a block, in the order in which they are added. The files go with the object.

    Memory holds the rows that are being added, or those of a block that is read.
    """

    def __init__(self) -> None:
        with engine_errors():
            self._folder = Path(temporary_folder(self, "curate-blocks-"))
        self._bytes = 0
        """Bytes written to all files."""

    def add(self, name: str, rows: pl.DataFrame, blocks: pl.Series) -> None:
        """Append each row to the file `name` of its block; `blocks` has the number of the block of each row."""
        rows_by_block = rows.with_columns(block=blocks).partition_by("block", as_dict=True, include_key=False)
        for (block,), rows_of_block in rows_by_block.items():
            self._append(self._path(name, block), rows_of_block.to_arrow(compat_level=pl.CompatLevel.oldest()))

    def _append(self, path: Path, table: pa.Table) -> None:
        """Append a stream of its own: a file holds several, and none stays open."""
        spill_gb = limits().spill_gb
        self._bytes += table.nbytes
        if spill_gb is not None and self._bytes > spill_gb * 1e9:
            raise _beyond_spill_gb()
        with engine_errors(), pa.OSFile(str(path), "ab") as file, pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table)

    def read(self, name: str, block: int, columns: Sequence[str] | None = None) -> pl.DataFrame | None:
        """The rows of a block, by default with all columns; None where there are none."""
        path = self._path(name, block)
        if not path.exists():
            return None
        streams = []
        with pa.memory_map(str(path)) as file:
            while file.tell() < file.size():
                streams.append(pa.ipc.open_stream(file).read_all())
        rows = pa.concat_tables(streams)
        if columns is not None:
            rows = rows.select([*columns])
        return cast(pl.DataFrame, pl.from_arrow(rows))

    def _path(self, name: str, block: Any) -> Path:
        return self._folder / f"{name.replace('/', '-')}-{block}.arrow"


def new_connection(owner: object, threads: int, memory_share: float) -> duckdb.DuckDBPyConnection:
    """A connection to an empty database in memory, whose temporary files go with `owner`. Raises as the database.

    `memory_share` is its share of the memory limit.
    """
    with engine_errors():
        connection = duckdb.connect(
            ":memory:",
            config={
                "temp_directory": temporary_folder(owner, "curate-join-"),
                "threads": threads,  # every thread needs its own share of the memory
                "preserve_insertion_order": False,
                "autoinstall_known_extensions": False,
                "python_enable_replacements": False,  # a name in a query is a table, never a Python variable
            },
        )
        connection.execute(f"SET memory_limit = '{int(memory_share * _memory_gb() * 1e9)}B'")
        spill_gb = limits().spill_gb
        if spill_gb is not None:  # else 0.9 of what is free
            connection.execute(f"SET max_temp_directory_size = '{int(spill_gb * 1e9)}B'")
        connection.execute("SET TimeZone = 'UTC'")
        return connection


def temporary_folder(owner: object, prefix: str) -> str:
    """A new folder in `TMPDIR`, which is deleted with the object."""
    folder = tempfile.mkdtemp(prefix=prefix)
    weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)
    return folder


def _memory_gb() -> float:
    """The memory limit of a database in GB (1e9 bytes): that of the settings, or the default."""
    set_gb = limits().memory_gb
    return _default_memory_gb() if set_gb is None else set_gb


@cache
def _default_memory_gb() -> float:
    """`_MEMORY_SHARE` of the memory that the machine or container has, from MEMORY_GB_MIN to MEMORY_GB_MAX."""
    with duckdb.connect(":memory:") as connection:
        limit = connection.sql("SELECT parse_formatted_bytes(current_setting('memory_limit'))")
        limit_bytes = int(limit.fetchall()[0][0])
    machine_gb = limit_bytes / _MEMORY_SHARE_OF_DUCKDB / 1e9
    return min(MEMORY_GB_MAX, max(MEMORY_GB_MIN, _MEMORY_SHARE * machine_gb))


@contextmanager
def engine_errors() -> Iterator[None]:
    """Raises one line, which names the setting and a value, for what DuckDB and a full temporary folder raise."""
    try:
        yield
    except (duckdb.OperationalError, duckdb.InternalError, duckdb.FatalException, pa.ArrowException, OSError) as error:
        raise _in_one_line(error) from error


def _in_one_line(error: Exception) -> CurateError:
    """The error to raise for one of DuckDB, Arrow or the disk; these are told apart by words in it."""
    words = str(error)
    limit_gb = _memory_gb()
    more_memory = f"--set memory_gb={max(MEMORY_GB_MIN, 2 * limit_gb):g}"
    if "max_temp_directory_size" in words:
        return _beyond_spill_gb()
    if "memory_limit" in words:
        return BadInput(
            f"--set memory_gb={limit_gb:g} is too little for a join of this size; give {more_memory}, or the key "
            "memory_gb in curate.yaml, and run again"
        )
    if isinstance(error, OSError | duckdb.IOException):
        folder = f"the temporary folder {tempfile.gettempdir()!r} (TMPDIR)"
        why = "has no room left" if any(phrase in words for phrase in _NO_ROOM_WORDS) else "cannot be written to"
        return StoreUnwell(f"{folder} {why}; make room there, or name a larger one as TMPDIR, and run again")
    return StoreUnwell(
        f"a join failed ({type(error).__name__} of DuckDB); run again, and if it comes back with {more_memory}"
    )


def _beyond_spill_gb() -> StoreUnwell:
    return StoreUnwell(
        f"--set spill_gb={limits().spill_gb:g} is too little for a join of this size, which writes more to the "
        f"temporary folder {tempfile.gettempdir()!r} (TMPDIR); give --set spill_gb=none for all that is free there, "
        "and run again"
    )
