"""An empty DuckDB with the limits that the settings give it, and its errors in one line each.

In: the settings' `memory_gb` and `spill_gb`, and a folder of `TMPDIR` (`new_folder`). Out: a connection
(`new_connection`), or one whose folder goes with it (`temporary_connection`). To order rows, DuckDB holds 122,880 of
them whole, whatever their size: order ids and numbers of rows in it, and no texts. A further error of DuckDB or of the
disk is a case in `_in_one_line`.
"""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import pyarrow as pa
from duckdb.sqltypes import VARCHAR, DuckDBPyType

from schemas.errors import BadInput, CurateError, StoreUnwell
from tasks.runtime.memory import MEMORY_GB, limits

_NO_ROOM_WORDS = [os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)]
"""Words in errors about a folder without room."""


def new_connection(folder: str) -> duckdb.DuckDBPyConnection:
    """A connection to an empty database in memory; what exceeds the memory limit is spilled to the folder."""
    with engine_errors():
        connection = duckdb.connect(
            ":memory:",
            config={
                "temp_directory": folder,
                # With one thread, a query gives its rows in the same order each time; every thread would also need
                # its own share of the memory.
                "threads": 1,
                "preserve_insertion_order": False,
                "autoinstall_known_extensions": False,
                "python_enable_replacements": False,  # a name in a query is a table, never a Python variable
            },
        )
        connection.execute(f"SET memory_limit = '{int(limits().memory_gb * 1e9)}B'")
        spill_gb = limits().spill_gb
        if spill_gb is not None:  # else 0.9 of what is free
            connection.execute(f"SET max_temp_directory_size = '{int(spill_gb * 1e9)}B'")
        connection.execute("SET TimeZone = 'UTC'")
        return connection


def lock(connection: duckdb.DuckDBPyConnection) -> None:
    """Let no query open a file or an address, or change a setting, from now on; joins spill all the same."""
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


_PLAIN_TYPES = frozenset({
    "boolean", "tinyint", "smallint", "integer", "bigint", "hugeint", "utinyint", "usmallint", "uinteger", "ubigint",
    "float", "double", "decimal", "varchar", "blob", "uuid", "enum", "date", "time", "timestamp", "timestamp_s",
    "timestamp_ms", "timestamp_ns", "timestamp with time zone", "sqlnull",
})  # fmt: skip
"""Types of DuckDB whose values files, JSON and polars hold as they are."""


def with_plain_types(answer: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """The answer with texts for values of types that files, JSON and polars lack, such as intervals and bits."""
    plain = [_plain_type(of_type) for of_type in answer.types]
    if plain == answer.types:
        return answer
    names = ['"' + name.replace('"', '""') + '"' for name in answer.columns]
    return answer.project(
        ", ".join(f"CAST({name} AS {of_type}) AS {name}" for name, of_type in zip(names, plain, strict=True))
    )


def _plain_type(of_type: DuckDBPyType) -> DuckDBPyType:
    """The type itself, or a text in the place of it or of a part of it."""
    if of_type.id in _PLAIN_TYPES:
        return of_type
    if of_type.id not in ("list", "array", "struct", "map"):
        return VARCHAR
    parts = {name: _plain_type(part) for name, part in of_type.children if isinstance(part, DuckDBPyType)}
    if parts == {name: part for name, part in of_type.children if isinstance(part, DuckDBPyType)}:
        return of_type
    if of_type.id == "struct":
        return duckdb.struct_type(parts)
    if of_type.id == "map":
        return duckdb.map_type(parts["key"], parts["value"])
    return duckdb.list_type(parts["child"])


def new_folder() -> str:
    """A new folder in `TMPDIR`. Raises StoreUnwell where that cannot be written to."""
    with engine_errors():
        return tempfile.mkdtemp(prefix="curate-join-")


@contextmanager
def temporary_connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """A new connection, whose folder is deleted at the end."""
    folder = new_folder()
    try:
        yield new_connection(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def engine_errors() -> Iterator[None]:
    """Raises one line, which names the setting and a value, for what DuckDB and a full temporary folder raise.

    An interrupt (Ctrl-C) stays one: DuckDB makes an error of its own of it.
    """
    try:
        yield
    except RuntimeError as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise error.__cause__ from None
        raise
    except (duckdb.OperationalError, duckdb.InternalError, duckdb.FatalException, pa.ArrowException, OSError) as error:
        raise _in_one_line(error) from error


def _in_one_line(error: Exception) -> CurateError:
    """The error to raise for one of DuckDB, Arrow or the disk; these are told apart by words in it."""
    words = str(error)
    limit_gb = limits().memory_gb
    more_memory = f"--set memory_gb={max(MEMORY_GB, 2 * limit_gb):g}"
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
