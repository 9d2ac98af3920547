"""Parquet settings, conversions between polars and Arrow, and readers and writers of files outside of tables."""

import io
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

IMAGES_A_GROUP = 32
"""Rows of a row group of a table with images: about 2 MB."""
BESIDE = b"curate:beside_bytes"
"""Key in the footer of a table with images: its other columns as an Arrow stream in Base64, so that ids are found
without reading every row group."""
FRAME_BYTES = 8 * 1024 * 1024
"""A frame of `together` is complete when it takes more memory."""
PAGE_BYTES = 32 * 1024
"""A page of a released file ends after the value with which it reaches this size."""


def parquet_options(schema: pa.Schema, codec: str = "zstd") -> dict[str, Any]:
    """Options of pyarrow's Parquet writer: everything is compressed with `codec` except encoded images.

    Columns with image bytes (leaf name `bytes`) are not compressed. They and message texts (leaf name `content`) get
    no dictionary and no statistics, because their values hardly repeat.
    """
    sink = io.BytesIO()
    pq.write_table(no_rows(schema), sink)
    leaves = _leaf_paths(pq.ParquetFile(sink))
    plain = {leaf for leaf in leaves if leaf.rsplit(".", 1)[-1] == "bytes"}
    rest = [leaf for leaf in leaves if leaf.rsplit(".", 1)[-1] not in {"bytes", "content"}]
    compression = {leaf: "none" if leaf in plain else codec for leaf in leaves}
    return {"compression": compression, "use_dictionary": rest, "write_statistics": rest}


def encode_parquet(table: pa.Table, codec: str = "zstd") -> bytes:
    """A whole table as Parquet bytes. Images are in small row groups, so that one can be read by itself."""
    sink, images = pa.BufferOutputStream(), "bytes" in table.schema.names
    options = parquet_options(table.schema, codec)
    with pq.ParquetWriter(sink, table.schema, write_page_checksum=True, **options) as writer:
        writer.write_table(table, IMAGES_A_GROUP if images else None)
        if images:
            writer.add_key_value_metadata({BESIDE: _as_text(table.drop_columns("bytes"))})
    return cast(bytes, sink.getvalue().to_pybytes())


def _as_text(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_table(table)
    return b64encode(sink.getvalue())


def parquet_writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """A writer with a layout suited to the Hub; each call of `write` adds one row group.

    Pages are small and their size is checked after every value, so an image of 32 KB or more has its own page. Its
    bytes then do not depend on its neighbours, and the Hub, which stores content-defined chunks, does not need them
    again when the image moves (benchmarks/release_versions.py). There is no page index, so that `curate verify` can
    account for every byte.
    """
    return pq.ParquetWriter(path, schema, data_page_size=PAGE_BYTES, write_batch_size=1, **parquet_options(schema))


def read_parquet_schema(path: Path) -> pa.Schema:
    """Arrow schema of a Parquet file."""
    return pq.read_schema(path)


def parquet_rows(path: Path) -> int:
    """Number of rows of a Parquet file. Reads only the footer."""
    return int(pq.read_metadata(path).num_rows)


def read_parquet_groups(path: Path, columns: Sequence[str] | None = None) -> Iterator[pl.DataFrame]:
    """A Parquet file row group by row group."""
    file = pq.ParquetFile(path)
    for group in range(file.num_row_groups):
        yield cast(pl.DataFrame, pl.from_arrow(file.read_row_group(group, columns)))


def together(frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Small frames of the same columns in one, in order: a release has a file for a few rows, and each step a price."""
    waiting: list[pl.DataFrame] = []
    size = 0
    for frame in frames:
        if waiting and (size > FRAME_BYTES or frame.schema != waiting[0].schema):
            yield pl.concat(waiting, rechunk=True)
            waiting, size = [], 0
        waiting.append(frame)
        size += int(frame.estimated_size())
    if waiting:
        yield pl.concat(waiting, rechunk=True)


def read_parquet_batches(path: Path, columns: Sequence[str], rows: int) -> Iterator[list[dict[str, Any]]]:
    """Rows of a Parquet file as dicts, `rows` at a time; `columns` that the file lacks are skipped."""
    file = pq.ParquetFile(path)
    leaves = _leaf_paths(file)
    there = [name for name in columns if any(leaf == name or leaf.startswith(f"{name}.") for leaf in leaves)]
    yield from (batch.to_pylist() for batch in file.iter_batches(rows, columns=there))


def no_rows(schema: pa.Schema) -> pa.Table:
    """An empty table. `Schema.empty_table` would import pandas, which takes a third of a second."""
    return pa.Table.from_batches([], schema)


def frame_types(schema: pa.Schema) -> pl.Schema:
    """The types that polars gives the columns of an Arrow schema."""
    return cast(pl.DataFrame, pl.from_arrow(no_rows(schema))).schema


def conform(frame: pl.DataFrame, schema: pa.Schema) -> pa.Table:
    """`frame` with exactly the columns and types of `schema`. Raises when a column is missing or does not fit."""
    return frame.select(schema.names).to_arrow().cast(schema)


def compact(frame: pl.DataFrame) -> pl.DataFrame:
    """A copy of the rows that does not keep the buffers of the frame they were filtered from in memory."""
    return cast(pl.DataFrame, pl.from_arrow(frame.to_arrow(compat_level=pl.CompatLevel.oldest())))


def top_columns(names: Iterable[str]) -> list[str]:
    """Top-level column names of nested columns, such as `turns` for `turns.list.element.text_id`."""
    return [name.partition(".")[0] for name in names]


def rows_in(size: int, file: pq.FileMetaData, names: Sequence[str]) -> int:
    """How many rows of these columns, or nested columns, take about `size` bytes; at least one."""
    return max(1, size * int(file.num_rows) // max(1, bytes_of(file, names)))


def bytes_of(file: pq.FileMetaData, names: Sequence[str]) -> int:
    """Uncompressed size of these columns, or nested columns."""
    groups = map(file.row_group, range(file.num_row_groups))
    return sum(int(chunk.total_uncompressed_size) for group in groups for chunk in chunks_of(group, names))


def chunks_of(group: pq.RowGroupMetaData, names: Sequence[str]) -> list[pq.ColumnChunkMetaData]:
    """The chunks of these columns, or nested columns, in a row group."""
    chunks = [group.column(number) for number in range(group.num_columns)]
    return [each for each in chunks if {each.path_in_schema, *top_columns([each.path_in_schema])} & {*names}]


def _leaf_paths(file: pq.ParquetFile) -> list[str]:
    return [file.schema.column(index).path for index in range(len(file.schema.names))]
