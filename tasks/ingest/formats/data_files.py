"""Finds the files of a run and their format; reads rows of Parquet, `datasets` folders (Arrow) and JSON Lines."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from schemas.errors import BadInput, why_unreadable
from tasks.ingest.csam_flags import name_is_flagged
from tasks.ingest.formats import ARENA_LOGS, adapter, format_names, matching_adapter
from tasks.ingest.log_files import LogFile, arena_logs, lines, log_files, source_name, without_mark

TABLES = (".parquet", ".arrow")
_LINES = (".jsonl", ".json")
_ROWS_AT_ONCE = 256
_LINES_TRIED = 100
"""If this many first lines are broken, the file is not JSON Lines."""
_COLUMNS_SHOWN = 8
_INFO = ("dataset_info.json", "dataset_infos.json", "state.json", "dataset_dict.json")
"""Metadata files beside the data of a dataset."""


def source_files(
    place: Path, format: str | None = None, since: date | None = None, until: date | None = None
) -> list[tuple[LogFile, str]]:
    """(file, format) of everything to read in a folder or a single data file, in name order.

    Without `format`, a folder with arena logs is read as such; other data files are recognized by their columns.
    Raises BadInput when there is nothing to read, a format is unknown or cannot be loaded, a file fits none, or a
    window is given for undated files.
    """
    if format not in (None, ARENA_LOGS):
        adapter(str(format))  # raises for an unknown one, and for a package that cannot be loaded
    if not place.is_file():
        data = [] if format == ARENA_LOGS or not place.is_dir() else list(_data_files(place))
        if format in (None, ARENA_LOGS) and (any(file.day for file in arena_logs(place)) or not data):
            return [(file, ARENA_LOGS) for file in log_files(place, since, until)]
    else:
        data = [place]
    if since or until:
        raise BadInput("--since and --until choose arena logs by the day in their names; these files have none")
    folder = place.parent if place.is_file() else place
    sources = [(path, source_name(path, folder)) for path in data]
    files = [LogFile(path, source, None, name_is_flagged(source)) for path, source in sources]
    return [(file, format or _format_of(file)) for file in files]


def files_in_words(files: Sequence[tuple[LogFile, str]], given: str | None) -> str:
    """A message about the files and formats to read; `given` is the value of `--format`."""
    counts = Counter(name for _, name in files)
    shapes = ", ".join(f"{n:,} {'file' if n == 1 else 'files'} as {name}" for name, n in sorted(counts.items()))
    guessed = given is None and set(counts) != {ARENA_LOGS}
    return f"reading {shapes}{', recognized by their columns (--format overrides)' if guessed else ''}"


def _data_files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        plain = path.with_suffix("") if path.suffix in (".gz", ".zst") else path
        left_out = path.name in _INFO or path.name.startswith(".")
        if plain.suffix in (*TABLES, *_LINES) and path.is_file() and not left_out:
            yield path


def _format_of(file: LogFile) -> str:
    columns = columns_of(file)
    if fitting := matching_adapter(columns):
        return fitting.name
    seen = ", ".join(sorted(columns)[:_COLUMNS_SHOWN]) or "none; JSON Lines hold an object a line"
    raise BadInput(
        f"{file.path.name!r} is neither a log nor a known dataset (columns: {seen}). "
        f"Give --format: {', '.join(format_names())}"
    )


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
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise _unreadable(path, error) from None
    rows = (row for number, row in line_rows(file, _LINES_TRIED) if isinstance(row, dict))
    return frozenset(next(rows, ()))


def _unreadable(path: Path, error: Exception) -> BadInput:
    return BadInput(f"data file {path.name!r} cannot be read ({why_unreadable(error)})")


def table_rows(path: Path, columns: Sequence[str] | None = None, *, image_bytes: bool) -> Iterator[dict[str, Any]]:
    """Rows of a Parquet or Arrow file. Raises BadInput when it cannot be read.

    Without `image_bytes`, fields called `bytes` are left out; in Parquet they are not read.
    """
    try:
        for batch in _batches(path, columns, image_bytes):
            yield from batch.to_pylist()
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise _unreadable(path, error) from None


def _batches(path: Path, columns: Sequence[str] | None, image_bytes: bool) -> Iterable[pa.RecordBatch]:
    if path.suffix == ".parquet":
        file = pq.ParquetFile(path)
        leaves = [file.schema.column(index).path for index in range(len(file.schema.names))]
        wanted = [leaf for leaf in leaves if columns is None or leaf.split(".")[0] in columns]
        wanted = [leaf for leaf in wanted if image_bytes or not leaf.endswith(".bytes")]
        yield from file.iter_batches(_ROWS_AT_ONCE, columns=wanted)
        return
    with pa.memory_map(str(path)) as mapped, pa.ipc.open_stream(mapped) as stream:
        for batch in stream:
            chosen = batch.select(columns) if columns is not None else batch
            if not image_bytes:
                paths = [_paths_only(column) for column in chosen.columns]
                chosen = pa.RecordBatch.from_arrays(paths, names=chosen.schema.names)
            yield from (chosen.slice(start, _ROWS_AT_ONCE) for start in range(0, chosen.num_rows, _ROWS_AT_ONCE))


def _paths_only(column: pa.Array) -> pa.Array:
    """A column of images, or of lists of images, without the field `bytes`."""
    if pa.types.is_list(column.type):
        return pa.ListArray.from_arrays(column.offsets, _paths_only(column.values), mask=column.is_null())
    if pa.types.is_struct(column.type) and {field.name for field in column.type} == {"bytes", "path"}:
        return pa.StructArray.from_arrays([column.field("path")], ["path"], mask=column.is_null())
    return column


def line_rows(file: LogFile, most: int | None = None) -> Iterator[tuple[int, Any]]:
    """(line number, JSON value) of every line that is JSON among the first `most`."""
    for number, raw in islice(lines(file), most):
        try:
            yield number, orjson.loads(without_mark(raw, number))
        except orjson.JSONDecodeError:
            continue
