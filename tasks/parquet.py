"""Parquet as it is written and read here: the layout of every file, and loose files, which are part of no table."""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

PAGE_BYTES = 32 * 1024
"""A page of a loose file ends with the value that fills it."""


def parquet_options(schema: pa.Schema, codec: str = "zstd") -> dict[str, Any]:
    """Writer options: `codec` for everything but encoded pictures, which do not shrink.

    Columns that hold picture bytes (leaf name `bytes`) are not compressed. They and message texts (`content`) get
    neither dictionary nor statistics, because their values hardly repeat (benchmarks/release.py).
    """
    sink = io.BytesIO()
    pq.write_table(no_rows(schema), sink)
    leaves = _leaf_paths(pq.ParquetFile(sink))
    plain = {leaf for leaf in leaves if leaf.rsplit(".", 1)[-1] == "bytes"}
    rest = [leaf for leaf in leaves if leaf.rsplit(".", 1)[-1] not in {"bytes", "content"}]
    compression = {leaf: "none" if leaf in plain else codec for leaf in leaves}
    return {"compression": compression, "use_dictionary": rest, "write_statistics": rest}


def encode_parquet(table: pa.Table, codec: str = "zstd") -> bytes:
    """A whole table as Parquet bytes."""
    sink = pa.BufferOutputStream()  # written to without Python
    pq.write_table(table, sink, **parquet_options(table.schema, codec))
    return cast(bytes, sink.getvalue().to_pybytes())


class ParquetFile:
    """A loose Parquet file that is written row group by row group, laid out for the Hub.

    A picture of 32 KB or more has a page of its own: readers find it by the page index, and what stands before it does
    not depend on its neighbours, so the Hub, which cuts by content, finds it again wherever it moves. pyarrow's
    content-defined chunking would find less again and take longer (benchmarks/release_versions.py).
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        pages = {"data_page_size": PAGE_BYTES, "write_batch_size": 1, "write_page_index": True}
        self._writer = pq.ParquetWriter(path, schema, **pages, **parquet_options(schema))

    def write(self, table: pa.Table) -> None:
        """Add one row group."""
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()


def read_parquet_schema(path: Path) -> pa.Schema:
    """Arrow schema of a loose Parquet file."""
    return pq.read_schema(path)


def read_parquet_groups(path: Path, columns: Sequence[str] | None = None) -> Iterator[pl.DataFrame]:
    """A loose Parquet file row group by row group."""
    file = pq.ParquetFile(path)
    for group in range(file.num_row_groups):
        yield cast(pl.DataFrame, pl.from_arrow(file.read_row_group(group, columns)))


def read_parquet_batches(path: Path, columns: Sequence[str], rows: int) -> Iterator[list[dict[str, Any]]]:
    """A loose Parquet file as objects, `rows` at a time; of `columns`, which may be leaves, those it has."""
    file = pq.ParquetFile(path)
    leaves = _leaf_paths(file)
    there = [name for name in columns if any(leaf == name or leaf.startswith(f"{name}.") for leaf in leaves)]
    yield from (batch.to_pylist() for batch in file.iter_batches(rows, columns=there))


def no_rows(schema: pa.Schema) -> pa.Table:
    """What `Schema.empty_table` gives, which imports pandas: a third of a second in every process."""
    return pa.Table.from_batches([], schema)


def _leaf_paths(file: pq.ParquetFile) -> list[str]:
    return [file.schema.column(index).path for index in range(len(file.schema.names))]
