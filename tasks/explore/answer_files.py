"""Answers to questions in SQL as files: CSV, JSON, JSON Lines or Parquet, by the suffix of the name.

In: batches of Arrow. Out: a file that is renamed into place when it is complete. A further kind is an entry of
`_WRITERS`, which writes one batch at a time, so that memory holds no answer as a whole.
"""

import base64
import csv
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import date, datetime, time
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from schemas.errors import BadInput
from tasks.runtime.untrusted import csv_cell, csv_text, json_text
from tasks.storage.parquet import parquet_writer

_CSV_CHARACTERS_MAX = 2**31
BatchWriter = Callable[[pa.RecordBatch], None]


def as_json(value: Any) -> Any:
    """A value of Arrow as JSON has it: bytes in base64, times as ISO 8601, and null for what is no finite number."""
    if isinstance(value, dict):
        return {str(name): as_json(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(inner) for inner in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | None) else str(value)


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows of a batch. Raises BadInput where a date or a time in them is none of Python's."""
    try:
        return list(batch.to_pylist())
    except (OverflowError, ValueError):  # DuckDB's infinity, and years before 1 and after 9999
        raise BadInput(
            "SQL: a date or time of the answer is outside the years 1 to 9999; write CAST(… AS VARCHAR)"
        ) from None


def check_answer_file(path: Path) -> None:
    """Raises BadInput for a name of another kind, for a file that exists, and without its folder."""
    if path.suffix.lower() not in _WRITERS:
        raise BadInput(f"--out {str(path)!r}: the name ends in none of {', '.join(_WRITERS)}")
    if path.exists():
        raise BadInput(f"--out {str(path)!r} exists already; give a file that does not")
    if not path.parent.is_dir():
        raise BadInput(f"--out {str(path)!r}: its folder does not exist")


def write_answer(batches: Iterator[pa.RecordBatch], path: Path) -> int:
    """Write all rows, of which there is at least one batch, to a file; returns how many these are."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    first = next(batches)
    rows = 0
    try:
        with _WRITERS[path.suffix.lower()](unfinished, first.schema) as write:
            for batch in chain([first], batches):
                write(batch)
                rows += batch.num_rows
        unfinished.rename(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return rows


@contextmanager
def _parquet(path: Path, schema: pa.Schema) -> Iterator[BatchWriter]:
    with parquet_writer(path, schema) as file:
        yield lambda batch: file.write(pa.Table.from_batches([batch]))


@contextmanager
def _csv(path: Path, schema: pa.Schema) -> Iterator[BatchWriter]:
    with path.open("w", encoding="utf-8", newline="", errors="backslashreplace") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(map(csv_cell, schema.names))
        yield lambda batch: writer.writerows(map(_csv_row, _rows(batch)))


def _csv_row(row: dict[str, Any]) -> Iterator[Any]:
    for value in row.values():
        written = json_text(value) if isinstance(value, dict | list) else value
        yield csv_text(written, _CSV_CHARACTERS_MAX) if isinstance(written, str) else written


@contextmanager
def _json_lines(path: Path, schema: pa.Schema) -> Iterator[BatchWriter]:
    with path.open("w", encoding="utf-8") as stream:
        yield lambda batch: stream.writelines(f"{json_text(row)}\n" for row in _rows(batch))


@contextmanager
def _json_array(path: Path, schema: pa.Schema) -> Iterator[BatchWriter]:
    with path.open("w", encoding="utf-8") as stream:
        separators = chain(["[\n"], iter(lambda: ",\n", ""))
        yield lambda batch: stream.writelines(f"{next(separators)}{json_text(row)}" for row in _rows(batch))
        opening = next(separators)
        stream.write("\n]\n" if opening == ",\n" else "[]\n")


def _rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    return (as_json(row) for row in rows_of(batch))


_WRITERS: dict[str, Callable[[Path, pa.Schema], AbstractContextManager[BatchWriter]]] = {
    ".csv": _csv,
    ".json": _json_array,
    ".jsonl": _json_lines,
    ".parquet": _parquet,
}
"""Suffix of a file -> what writes it."""
