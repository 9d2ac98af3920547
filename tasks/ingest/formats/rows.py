"""Rows of data files: Parquet, a `datasets` folder's Arrow files, JSON Lines."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from schemas.errors import BadInput, why_unreadable
from tasks.ingest.log_files import LogFile, lines, without_mark

TABLES = (".parquet", ".arrow")
LINES = (".jsonl", ".json")
ROWS_AT_ONCE = 256
_LINES_TRIED = 100
"""So many lines may be broken before a file is taken for none of JSON Lines."""


def columns_of(file: LogFile) -> frozenset[str]:
    """Names of a data file's columns, or the keys of its first row; empty when its first lines hold none.

    Raises BadInput when a table cannot be read.
    """
    path = file.path
    try:
        if path.suffix == ".parquet":
            return frozenset(pq.read_schema(path).names)
        if path.suffix == ".arrow":
            with pa.memory_map(str(path)) as mapped, pa.ipc.open_stream(mapped) as stream:
                return frozenset(stream.schema.names)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from None
    rows = (row for number, row in line_rows(file, _LINES_TRIED) if isinstance(row, dict))
    return frozenset(next(rows, ()))


def _unreadable(path: Path, error: Exception) -> BadInput:
    return BadInput(f"data file {path.name!r} cannot be read ({why_unreadable(error)})")


def table_rows(path: Path, columns: Sequence[str] | None = None, *, picture_bytes: bool) -> Iterator[dict[str, Any]]:
    """Rows of a Parquet or Arrow file. Raises BadInput when it cannot be read.

    Without `picture_bytes`, whatever is called `bytes` is left out, and in Parquet not even read.
    """
    try:
        for batch in _batches(path, columns, picture_bytes):
            yield from batch.to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from None


def _batches(path: Path, columns: Sequence[str] | None, picture_bytes: bool) -> Iterable[pa.RecordBatch]:
    if path.suffix == ".parquet":
        file = pq.ParquetFile(path)
        leaves = [file.schema.column(index).path for index in range(len(file.schema.names))]
        wanted = [leaf for leaf in leaves if columns is None or leaf.split(".")[0] in columns]
        wanted = [leaf for leaf in wanted if picture_bytes or not leaf.endswith(".bytes")]
        yield from file.iter_batches(ROWS_AT_ONCE, columns=wanted)
        return
    with pa.memory_map(str(path)) as mapped, pa.ipc.open_stream(mapped) as stream:
        for batch in stream:
            chosen = batch.select(columns) if columns is not None else batch
            chosen = chosen if picture_bytes else _without_bytes(chosen)
            yield from (chosen.slice(start, ROWS_AT_ONCE) for start in range(0, chosen.num_rows, ROWS_AT_ONCE))


def _without_bytes(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [_paths_only(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _paths_only(column: pa.Array) -> pa.Array:
    """A picture column, or a list of pictures, with an empty place for the bytes."""
    if pa.types.is_list(column.type):
        return pa.ListArray.from_arrays(column.offsets, _paths_only(column.values), mask=column.is_null())
    if pa.types.is_struct(column.type) and {field.name for field in column.type} == {"bytes", "path"}:
        return pa.StructArray.from_arrays([column.field("path")], ["path"], mask=column.is_null())
    return column


def line_rows(file: LogFile, most: int | None = None) -> Iterator[tuple[int, Any]]:
    """(line number, JSON value) of every line that is JSON, of the first `most`."""
    for number, raw in islice(lines(file), most):
        try:
            yield number, orjson.loads(without_mark(raw, number))
        except orjson.JSONDecodeError:
            continue
