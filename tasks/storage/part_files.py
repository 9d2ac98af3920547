"""Files of parts: names that say digest, checksum and size, and readers that need few requests.

The name of a part ends with its size and that of its footer, so that an object store need not be asked for them. Parts
of stores before 0.3 have shorter names.
"""

import hashlib
import re
from base64 import b64decode
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, cast
from zlib import crc32

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from tasks.runtime.parallel import map_ordered
from tasks.storage.parquet import BESIDE, bytes_of, chunks_of, rows_in, top_columns

PART = re.compile(r"(?P<digest>[0-9a-f]{12})(?P<footer_crc>[0-9a-f]{8})(?:-(?P<bytes>\d+)-(?P<footer>\d+))?\.parquet")
"""Name of a part: 12 digits of the hash of its bytes, 8 of the CRC-32 of its footer, which no page checksum covers, its
size and the size of its footer in bytes."""
WHOLE_BYTES = 1024 * 1024
"""A part on an object store that is not larger is read as a whole, with one request."""
GAP_BYTES = 64 * 1024
"""Columns of a larger part that lie no further apart are read with one request."""
REQUESTS = 16
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
    chunks = [chunk for each in groups for chunk in chunks_of(each, names)]
    starts = [min(each.dictionary_page_offset or each.data_page_offset, each.data_page_offset) for each in chunks]
    ranges = list[tuple[int, int]]()
    for start, chunk in sorted(zip(starts, chunks, strict=True), key=lambda each: each[0]):
        end = start + chunk.total_compressed_size
        if ranges and start - ranges[-1][1] <= GAP_BYTES:
            ranges[-1] = (ranges[-1][0], end)
        else:
            ranges.append((start, end))
    read = map_ordered(lambda each: _range(fs, path, *each), ranges, REQUESTS)
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
        return _checked(path, _end(fs, path))
    span = int(name["bytes"]) - int(name["footer"]), int(name["bytes"])
    return _checked(path, fs.cat_file(path, *span) if isinstance(fs, LocalFileSystem) else _kept(fs, path, *span))


_footer_of_groups = lru_cache(maxsize=16)(read_footer)
"""The last few: images are read group by group, and the footer of a part with many takes ten times as long as one."""


def _end(fs: AbstractFileSystem, path: str) -> bytes:
    """The end of a part whose name does not say how long its footer is."""
    end = fs.cat_file(path, start=-_READ_END_BYTES)
    if (size := _END_BYTES + int.from_bytes(end[-_END_BYTES:-4], "little")) > len(end):
        end = fs.cat_file(path, start=-min(size, fs.size(path)))
    return cast(bytes, end)


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
    some_rows, left = min(rows, rows_in(most_bytes, file.metadata, names)), file.metadata.num_rows
    for batch in file.iter_batches(some_rows, columns=names, use_threads=False):
        left -= batch.num_rows
        some = pa.table(batch).replace_schema_metadata(None).select([*dict.fromkeys(top_columns(names))])
        yield cast(pl.DataFrame, pl.from_arrow(some))
    if left:  # Arrow ends early, without an error, at some damaged page headers
        raise pa.ArrowInvalid("rows are missing")


def _named(path: str) -> dict[str, str]:
    found = PART.fullmatch(path.rsplit("/", 1)[-1])
    if found is None:
        raise ValueError(f"{path!r} is no part of a table")
    return found.groupdict()
