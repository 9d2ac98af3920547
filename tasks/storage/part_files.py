"""Files of parts: names that say digest, checksum and size, and readers that need few requests.

The name of a part ends with its size and that of its footer, so that an object store need not be asked for them. Parts
of stores before 0.3 have shorter names.
"""

import hashlib
import re
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

from tasks.storage.parquet import rows_in, top_columns

PART = re.compile(r"(?P<digest>[0-9a-f]{12})(?P<footer_crc>[0-9a-f]{8})(?:-(?P<bytes>\d+)-(?P<footer>\d+))?\.parquet")
"""Name of a part: 12 digits of the hash of its bytes, 8 of the CRC-32 of its footer, which no page checksum covers, its
size and the size of its footer in bytes."""
WHOLE_BYTES = 1024 * 1024
"""A part on an object store that is not larger is read as a whole, with one request."""
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


def open_part(fs: AbstractFileSystem, path: str, **options: Any) -> pq.ParquetFile:
    """A part to read, with its checksums verified: that of the footer now, that of a page when it is read.

    Raises ArrowInvalid for another footer than was written.
    """
    source: Any = path
    if isinstance(fs, LocalFileSystem):
        footer, options["filesystem"] = read_footer(fs, path), fs
    elif (size := part_bytes(fs, path)) <= WHOLE_BYTES:
        content = whole_file(fs, path)
        footer, source = _checked(path, content), pa.BufferReader(content)
    else:
        footer, source = read_footer(fs, path), fs.open(path, "rb", size=size, cache_type="none")
    return pq.ParquetFile(source, metadata=footer, page_checksum_verification=True, **options)


def columns_of_part(fs: AbstractFileSystem, path: str, file: pq.ParquetFile, names: Sequence[str]) -> pa.Table:
    """Columns of an opened part.

    On an object store, what stands beside the bytes of images is read once for all steps that need some of it: every
    group of 32 images is a request, and a part never changes.
    """
    beside = [name for name in file.schema_arrow.names if name != "bytes"]
    if isinstance(fs, LocalFileSystem) or len(beside) == len(file.schema_arrow.names) or not set(names) <= set(beside):
        return file.read(names)
    return _beside_bytes(fs, path, tuple(beside)).select(names)


@lru_cache(maxsize=64)
def _beside_bytes(fs: AbstractFileSystem, path: str, names: tuple[str, ...]) -> pa.Table:
    with open_part(fs, path, pre_buffer=True) as file:
        return file.read(list(names))


def whole_file(fs: AbstractFileSystem, path: str) -> bytes:
    """Content of a file, with one request. Raises FileNotFoundError."""
    return cast(bytes, fs.cat_file(path, **({"max_concurrency": 1} if "s3" in fs.protocol else {})))


def read_footer(fs: AbstractFileSystem, path: str) -> pq.FileMetaData:
    """The footer of a part. Raises ArrowInvalid when its checksum is not the one in the part's name."""
    return _checked(path, _end(fs, path) if isinstance(fs, LocalFileSystem) else _kept_end(fs, path))


def _end(fs: AbstractFileSystem, path: str) -> bytes:
    name = _named(path)
    if name["bytes"]:
        return cast(bytes, fs.cat_file(path, start=int(name["bytes"]) - int(name["footer"]), end=int(name["bytes"])))
    end = fs.cat_file(path, start=-_READ_END_BYTES)
    if (size := _END_BYTES + int.from_bytes(end[-_END_BYTES:-4], "little")) > len(end):
        end = fs.cat_file(path, start=-min(size, fs.size(path)))
    return cast(bytes, end)


_kept_end = lru_cache(maxsize=512)(_end)
"""Every column that is read needs the footer, and a part with this name has no other."""


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
        some = pa.table(batch).replace_schema_metadata(None).select(top_columns(names))
        yield cast(pl.DataFrame, pl.from_arrow(some))
    if left:  # Arrow ends early, without an error, at some damaged page headers
        raise pa.ArrowInvalid("rows are missing")


def _named(path: str) -> dict[str, str]:
    found = PART.fullmatch(path.rsplit("/", 1)[-1])
    if found is None:
        raise ValueError(f"{path!r} is no part of a table")
    return found.groupdict()
