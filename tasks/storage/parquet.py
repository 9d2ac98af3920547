"""Parquet settings, conversions between polars and Arrow, and readers and writers of files of tables and of others.

The name of a table's part says digest, checksum and size, and ends with its size and that of its footer, so that an
object store need not be asked for them. Parts of stores before 0.3 have shorter names.
"""

import hashlib
import io
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, cast
from zlib import crc32

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from tasks.runtime.parallel import map_ordered

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
    repeating_leaves = [leaf for leaf in leaves if leaf.rsplit(".", 1)[-1] not in {"bytes", "content"}]
    compression = {leaf: "none" if leaf in plain else codec for leaf in leaves}
    return {"compression": compression, "use_dictionary": repeating_leaves, "write_statistics": repeating_leaves}


def encode_parquet(table: pa.Table, codec: str = "zstd") -> bytes:
    """A whole table as Parquet bytes. Images are in small row groups, so that one can be read by itself."""
    sink, images = pa.BufferOutputStream(), "bytes" in table.schema.names
    with table_writer(sink, table.schema, codec) as writer:
        writer.write_table(table, IMAGES_A_GROUP if images else None)
        if images:
            writer.add_key_value_metadata({BESIDE: _as_text(table.drop_columns("bytes"))})
    return cast(bytes, sink.getvalue().to_pybytes())


def table_writer(target: pa.NativeFile | Path, schema: pa.Schema, codec: str = "zstd") -> pq.ParquetWriter:
    """A writer of tables with a checksum a page; a table of up to a million rows is one row group."""
    return pq.ParquetWriter(target, schema, write_page_checksum=True, **parquet_options(schema, codec))


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
    """A copy of the rows that does not keep the buffers of the frame they were taken from in memory."""
    rows = frame.to_arrow(compat_level=pl.CompatLevel.oldest())  # which copies texts, and no numbers
    return cast(pl.DataFrame, pl.from_arrow(rows.take(pa.array(range(rows.num_rows), pa.int64()))))


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
    return [chunk for chunk in chunks if {chunk.path_in_schema, *top_columns([chunk.path_in_schema])} & {*names}]


def _leaf_paths(file: pq.ParquetFile) -> list[str]:
    return [file.schema.column(index).path for index in range(len(file.schema.names))]


PART_NAME = re.compile(
    r"(?P<digest>[0-9a-f]{12})(?P<footer_crc>[0-9a-f]{8})(?:-(?P<bytes>\d+)-(?P<footer>\d+))?\.parquet"
)
"""Name of a part: 12 digits of the hash of its bytes, 8 of the CRC-32 of its footer, which no page checksum covers, its
size and the size of its footer in bytes."""
WHOLE_BYTES = 1024 * 1024
"""A part on an object store that is not larger is read as a whole, with one request."""
GAP_BYTES = 64 * 1024
"""Columns of a larger part that lie no further apart are read with one request."""
REQUESTS_AT_ONCE = 16
"""Requests that are made to an object store at the same time."""
_READ_END_BYTES, _END_BYTES = 64 * 1024, 8


def part_name(content: bytes) -> str:
    """The name of a part with this content."""
    size = _END_BYTES + int.from_bytes(content[-_END_BYTES:-4], "little")
    return f"{digest_of(content)}{crc32(content[-size:]):08x}-{len(content)}-{size}.parquet"


def digest_of(content: bytes) -> str:
    """12 hex digits."""
    return hashlib.blake2b(content, digest_size=6).hexdigest()


@lru_cache(maxsize=65_536)
def part_bytes(fs: AbstractFileSystem, path: str) -> int:
    """Size of a part in bytes; asks the file system only when the name does not say it."""
    return int(_named(path)["bytes"] or fs.size(path))


def open_part(
    fs: AbstractFileSystem, path: str, names: Sequence[str] | None = None, group: int | None = None, **options: Any
) -> pq.ParquetFile:
    """A part to read, with its checksums verified: that of the footer now, that of a page when it is read.

    From an object store, `names` are the only columns that can be read, and `group` the only row group; they are
    fetched now, neighbours in one request. Without them a part is read in pieces. Raises ArrowInvalid for another
    footer than was written.
    """
    source: Any = path
    if isinstance(fs, LocalFileSystem):
        footer, options["filesystem"] = (read_footer if group is None else _footer_of_groups)(fs, path), fs
    elif (size := part_bytes(fs, path)) <= WHOLE_BYTES:
        content = _kept(fs, path)
        footer, source = _checked(path, content), pa.BufferReader(content)
    else:
        footer = read_footer(fs, path)
        cache = {} if names is None else {"data": _fetched(fs, path, footer, names, group), "strict": True}
        source = fs.open(path, "rb", size=size, cache_type="parts" if cache else "none", cache_options=cache)
        source.details = {"name": path, "size": size}  # else the server is asked
    return pq.ParquetFile(source, metadata=footer, page_checksum_verification=True, **options)


def _fetched(
    fs: AbstractFileSystem, path: str, footer: pq.FileMetaData, names: Sequence[str], group: int | None
) -> dict[tuple[int, int], bytes]:
    """(start, end) -> bytes of some columns, or nested columns, of all row groups or of one."""
    if in_footer(footer, names):
        return {}
    groups = [footer.row_group(number) for number in (range(footer.num_row_groups) if group is None else [group])]
    chunks = [chunk for row_group in groups for chunk in chunks_of(row_group, names)]
    starts = [
        min(column_chunk.dictionary_page_offset or column_chunk.data_page_offset, column_chunk.data_page_offset)
        for column_chunk in chunks
    ]
    ranges = list[tuple[int, int]]()
    for start, chunk in sorted(zip(starts, chunks, strict=True), key=lambda start_and_chunk: start_and_chunk[0]):
        end = start + chunk.total_compressed_size
        if ranges and start - ranges[-1][1] <= GAP_BYTES:
            ranges[-1] = (ranges[-1][0], end)
        else:
            ranges.append((start, end))
    read = map_ordered(lambda span: _range(fs, path, *span), ranges, REQUESTS_AT_ONCE)
    return dict(zip(ranges, read, strict=True))


def _range(fs: AbstractFileSystem, path: str, start: int, end: int) -> bytes:
    if end - start <= WHOLE_BYTES:
        return _kept(fs, path, start, end)
    return cast(bytes, fs.cat_file(path, start=start, end=end))


@lru_cache(maxsize=128)
def _kept(fs: AbstractFileSystem, path: str, start: int | None = None, end: int | None = None) -> bytes:
    """A small part, or a piece of a part: several steps of a run read it, and a part with this name never changes."""
    return whole_file(fs, path) if end is None else cast(bytes, fs.cat_file(path, start=start, end=end))


def read_columns(fs: AbstractFileSystem, path: str, names: Sequence[str]) -> tuple[pa.Table, pa.Schema]:
    """Columns of a part, or nested columns, among `names`, and its schema."""
    with open_part(fs, path, names, pre_buffer=isinstance(fs, LocalFileSystem)) as file:
        there = [name for name in names if top_columns([name])[0] in file.schema_arrow.names]
        beside = file.metadata.metadata[BESIDE] if in_footer(file.metadata, names) else None
        read = file.read(there) if beside is None else pa.ipc.open_stream(b64decode(beside)).read_all().select(there)
        return read.replace_schema_metadata(None), file.schema_arrow


def open_in_pieces(
    fs: AbstractFileSystem, path: str, most_bytes: int, names: Sequence[str] | None = None
) -> pq.ParquetFile | None:
    """A part to read piecewise, by default all columns; None for what is read at once.

    That is what a footer has a copy of and, on an object store, parts or columns of at most so many bytes.
    """
    away = not isinstance(fs, LocalFileSystem)
    if away and part_bytes(fs, path) <= most_bytes:
        return None
    if names is not None:
        footer = read_footer(fs, path)
        if in_footer(footer, names) or (away and bytes_of(footer, names) <= most_bytes):
            return None
    return open_part(fs, path, buffer_size=max(most_bytes if away else 0, WHOLE_BYTES), pre_buffer=False)


def in_footer(footer: pq.FileMetaData, names: Sequence[str]) -> bool:
    """Whether the footer has a copy of these columns: all but the bytes of a part with images."""
    return BESIDE in (footer.metadata or {}) and not any(name == "bytes" or "." in name for name in names)


def whole_file(fs: AbstractFileSystem, path: str) -> bytes:
    """Content of a file, with one request. Raises FileNotFoundError."""
    return cast(bytes, fs.cat_file(path, **({"max_concurrency": 1} if "s3" in fs.protocol else {})))


def read_footer(fs: AbstractFileSystem, path: str) -> pq.FileMetaData:
    """The footer of a part. Raises ArrowInvalid when its checksum is not the one in the part's name."""
    name = _named(path)
    if not name["bytes"]:
        end = fs.cat_file(path, start=-_READ_END_BYTES)  # how long its footer is, is not known
        if (size := _END_BYTES + int.from_bytes(end[-_END_BYTES:-4], "little")) > len(end):
            end = fs.cat_file(path, start=-min(size, fs.size(path)))
        return _checked(path, cast(bytes, end))
    span = int(name["bytes"]) - int(name["footer"]), int(name["bytes"])
    return _checked(path, fs.cat_file(path, *span) if isinstance(fs, LocalFileSystem) else _kept(fs, path, *span))


@lru_cache(maxsize=4096)
def bounds(fs: AbstractFileSystem, path: str, column: str) -> tuple[Any, Any] | None:
    """The least and the greatest value of a column in a part; None where the footer does not say or there is none."""
    footer = read_footer(fs, path)
    chunks = [
        chunk for number in range(footer.num_row_groups) for chunk in chunks_of(footer.row_group(number), [column])
    ]
    statistics = [chunk.statistics for chunk in chunks]
    if not statistics or not all(group is not None and group.has_min_max for group in statistics):
        return None
    return min(group.min for group in statistics), max(group.max for group in statistics)


_footer_of_groups = lru_cache(maxsize=16)(read_footer)
"""The last few: images are read group by group, and the footer of a part with many takes ten times as long as one."""


def _checked(path: str, end: bytes) -> pq.FileMetaData:
    size = _END_BYTES + int.from_bytes(end[-_END_BYTES:-4], "little")
    if f"{crc32(end[-size:]):08x}" != _named(path)["footer_crc"]:
        raise pa.ArrowInvalid("the footer has another checksum")
    return pq.read_metadata(pa.BufferReader(end[-size:]))


def group_of_rows(footer: pq.FileMetaData) -> pl.Series:
    """Number of the row group of each row."""
    rows = [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]
    return pl.Series(np.repeat(np.arange(len(rows), dtype=np.uint32), rows))


def in_slices(file: pq.ParquetFile, names: Sequence[str], rows: int, most_bytes: int) -> Iterator[pl.DataFrame]:
    """Columns of a part in slices of at most `rows` rows and about `most_bytes`.

    Raises ArrowInvalid when it holds fewer rows than its footer says.
    """
    some_rows, missing_rows = min(rows, rows_in(most_bytes, file.metadata, names)), file.metadata.num_rows
    for batch in file.iter_batches(some_rows, columns=names, use_threads=False):
        missing_rows -= batch.num_rows
        slice_table = pa.table(batch).replace_schema_metadata(None).select([*dict.fromkeys(top_columns(names))])
        yield cast(pl.DataFrame, pl.from_arrow(slice_table))
    if missing_rows:  # Arrow ends early, without an error, at some damaged page headers
        raise pa.ArrowInvalid("rows are missing")


def _named(path: str) -> dict[str, str]:
    name_match = PART_NAME.fullmatch(path.rsplit("/", 1)[-1])
    if name_match is None:
        raise ValueError(f"{path!r} is no part of a table")
    return name_match.groupdict()
