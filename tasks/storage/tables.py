"""The tables of a store, local or on an object store; `parquet.py` has the loose files.

A table is a folder of parts and a list of those that count (`parts.json`). Writers add a part first and
list it last, so a reader never sees half a table, and a killed writer leaves only an unlisted file.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import cast

import fsspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.implementations.local import LocalFileSystem
from pydantic import BaseModel

from schemas.errors import BadInput, StoreUnwell, why_unreadable
from schemas.row import arrow_schema
from schemas.tables import TABLES
from tasks.storage.parquet import conform, encode_parquet, no_rows, rows_in, top_columns

_LIST = "parts.json"
SLICE_ROWS, SLICE_BYTES = 16_384, 16 * 1024 * 1024
_READ_BYTES = 1024 * 1024
HOLDS: dict[str, Callable[[], None]] = {}
"""Path of a store on an object store that this process holds -> what raises when another has taken it over."""


class Store:
    """A folder, local or on an object store (`s3://…`, `gs://…`), that holds every table of one arena."""

    def __init__(self, root: str) -> None:
        try:
            if not root:
                raise ValueError("it is empty")
            fs, path = fsspec.core.url_to_fs(root)
        except (ValueError, ImportError) as error:  # an unknown protocol, or one whose package is not installed
            raise BadInput(
                f"store {root!r} cannot be opened ({error}); give a folder, or s3://… (pip install 's3fs')"
            ) from None
        self.root = root
        self.fs: fsspec.AbstractFileSystem = fs
        self.path: str = path.rstrip("/")

    @classmethod
    def open(cls, root: str) -> "Store":
        """A store that can be written to, made if it does not exist. Raises BadInput otherwise."""
        store = cls(root)
        try:
            store.write_bytes("tables/.writable", b"")
            store.fs.rm_file(store.at("tables/.writable"))
        except Exception as error:  # every object store has its own errors
            raise BadInput(
                f"store {root!r} cannot be written to ({why_unreadable(error)}); give a folder you may write, or the "
                "credentials of the object store"
            ) from None
        return store

    @classmethod
    def existing(cls, root: str) -> "Store":
        """A store that holds tables already. Raises BadInput otherwise."""
        store = cls(root)
        try:
            there = store.fs.isdir(store.at("tables"))
        except Exception as error:  # every object store has its own errors
            raise BadInput(
                f"store {root!r} cannot be read ({why_unreadable(error)}); check the address and the credentials"
            ) from None
        if not there:
            raise BadInput(
                f"{root!r} is not a store: it has no tables. Make one with `curate run --logs DIR --store {root}`"
            )
        return store

    def at(self, relative: str) -> str:
        """Full path of something inside the store."""
        return f"{self.path}/{relative}"

    def read_bytes(self, relative: str) -> bytes | None:
        """Content of a file, or None when it does not exist."""
        try:
            return cast(bytes, self.fs.cat_file(self.at(relative)))
        except FileNotFoundError:
            return None

    def write_bytes(self, relative: str, content: bytes) -> None:
        """Write a file so that a reader sees all of it or nothing."""
        target = self.at(relative)
        if isinstance(self.fs, LocalFileSystem):
            self.fs.makedirs(target.rsplit("/", 1)[0], exist_ok=True)
            temporary = f"{target}.{os.getpid()}.tmp"
            try:
                self.fs.pipe_file(temporary, content)
                os.replace(temporary, target)
            except OSError:
                Path(temporary).unlink(missing_ok=True)  # a full disk has no room for half a file
                raise
        else:  # without `makedirs`, which would make a bucket of a name that somebody misspelt
            self.require_held()
            self.fs.pipe_file(target, content)

    def require_held(self) -> None:
        """Raises StoreUnwell when this process stood still so long that another holds the store by now."""
        HOLDS.get(self.path, bool)()

    def parts(self, table: str) -> list[str]:
        """Names of the parts that make up a table now, oldest first."""
        listed = self.read_bytes(f"tables/{table}/{_LIST}")
        try:
            return [] if listed is None else cast(list[str], json.loads(listed))
        except ValueError:
            raise self._damaged(table) from None

    def read(self, table: str, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """The whole table; an empty frame with its columns when nothing was written yet."""
        names = arrow_schema(TABLES[table].row).names if columns is None else columns
        parts = self.parts(table)
        try:  # part by part: polars copies what Arrow read, and two copies of a whole table are too many
            frames = [self.read_part(table, part, names) for part in parts]
        except FileNotFoundError:  # a writer replaced the table in between: its new parts are listed by now
            if self.parts(table) == parts:
                raise self._damaged(table) from None
            return self.read(table, columns)
        return pl.concat([self.empty(table, names), *frames])

    def empty(self, table: str, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """No rows, with the table's columns."""
        empty = pl.DataFrame(schema=frame_schema(TABLES[table].row))
        return empty if columns is None else empty.select(columns)

    def height(self, table: str) -> int:
        """How many rows a table has, from the ends of its parts alone."""
        return sum(rows for rows, _ in self.part_sizes(table))

    def part_sizes(self, table: str) -> list[tuple[int, int]]:
        """Rows of each part, and their bytes before compression, from the ends of the parts alone."""
        paths = [self.at(f"tables/{table}/{part}") for part in self.parts(table)]
        ends = [pq.read_metadata(path, filesystem=self.fs) for path in paths]
        return [(e.num_rows, sum(e.row_group(n).total_byte_size for n in range(e.num_row_groups))) for e in ends]

    def read_parts(self, table: str, columns: Sequence[str] | None = None) -> Iterator[pl.DataFrame]:
        """The table part by part, so that memory does not grow with it."""
        for part in self.parts(table):
            try:
                yield self.read_part(table, part, columns)
            except FileNotFoundError:
                raise self._damaged(table) from None

    def read_slices(
        self, table: str, columns: Sequence[str] | None = None, rows: int = SLICE_ROWS
    ) -> Iterator[pl.DataFrame]:
        """The table some rows at a time, of long ones fewer, however large its parts are."""
        for part in self.parts(table):
            yield from self.part_slices(table, part, columns, rows)

    def part_slices(
        self, table: str, part: str, columns: Sequence[str] | None = None, rows: int = SLICE_ROWS
    ) -> Iterator[pl.DataFrame]:
        """One part some rows at a time; `turns.list.element.text_id` in place of a column is no more than that leaf."""
        names = arrow_schema(TABLES[table].row).names if columns is None else list(columns)
        try:
            file = self._opened_in_pieces(table, part)
            if file is None:
                yield from self.read_part(table, part, names).iter_slices(rows)
                return
            self._require_columns(table, names, file.schema_arrow)
            some_rows = min(rows, rows_in(SLICE_BYTES, file.metadata, names))
            for batch in file.iter_batches(some_rows, columns=names, use_threads=False):
                some = pa.table(batch).replace_schema_metadata(None).select(top_columns(names))
                yield cast(pl.DataFrame, pl.from_arrow(some))
        except (pa.ArrowInvalid, FileNotFoundError):
            raise self._damaged(table) from None

    def _opened_in_pieces(self, table: str, part: str) -> pq.ParquetFile | None:
        """A part of which no more is read than is asked for; None for a small one elsewhere: it is one request."""
        path = self.at(f"tables/{table}/{part}")
        if not isinstance(self.fs, LocalFileSystem) and self.fs.size(path) <= SLICE_BYTES:
            return None
        return pq.ParquetFile(path, filesystem=self.fs, buffer_size=_READ_BYTES, pre_buffer=False)

    def local_part(self, table: str, part: str) -> str | None:
        """The file of a part; None when it is not on this machine."""
        return self.at(f"tables/{table}/{part}") if isinstance(self.fs, LocalFileSystem) else None

    def read_part_batches(self, table: str, part: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """One part as Arrow, for images; of a local folder 32 rows at a time."""
        path = self.local_part(table, part)
        if path is not None:
            yield from pq.ParquetFile(path, memory_map=True).iter_batches(32, columns=list(columns), use_threads=False)
        else:
            yield from self._read_part(table, part, columns).to_batches()

    def read_part(self, table: str, part: str, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """One part of a table."""
        try:
            return cast(pl.DataFrame, pl.from_arrow(self._read_part(table, part, columns)))
        except pa.ArrowInvalid:
            raise self._damaged(table) from None

    def replace(self, table: str, frame: pl.DataFrame) -> None:
        """Make `frame` the whole content of the table, sorted by the table's key. Nothing else stays on disk."""
        part = self.write_part(table, frame)
        self._list(table, [part])
        self._remove_all_but(table, {part, _LIST})

    def append(self, table: str, frame: pl.DataFrame) -> None:
        """Add the rows of `frame` as one part. The same rows again are the same part."""
        if not frame.is_empty():
            self.add_parts(table, [self.write_part(table, frame)])

    def write_part(self, table: str, rows: pl.DataFrame | pa.Table) -> str:
        """Write a part that counts once it is listed; its name. Frames are sorted by the key, Arrow tables are not."""
        declared = TABLES[table]
        if isinstance(rows, pl.DataFrame):
            rows = conform(rows.sort(declared.sort, maintain_order=True), arrow_schema(declared.row))
        content = encode_parquet(rows, declared.compression)
        name = f"{hashlib.blake2b(content, digest_size=10).hexdigest()}.parquet"
        self.write_bytes(f"tables/{table}/{name}", content)
        return name

    def add_parts(self, table: str, parts: Sequence[str]) -> None:
        """List more parts, which were written before. What others are writing meanwhile stays on disk."""
        listed = self.parts(table)
        new = [part for part in parts if part not in listed]
        if new:
            self._list(table, [*listed, *new])

    def list_parts(self, table: str, parts: Sequence[str]) -> None:
        """Make exactly these parts the table. Nothing else stays on disk."""
        self._list(table, list(parts))
        self._remove_all_but(table, {*parts, _LIST})

    def purge(self, table: str) -> None:
        """Remove what killed writers left in a table's folder."""
        if self.fs.isdir(self.at(f"tables/{table}")):
            self._remove_all_but(table, {*self.parts(table), _LIST})

    def read_loose(self, relative: str, columns: Sequence[str]) -> pl.DataFrame:
        """Some columns of a Parquet file of the store that is not part of a table, such as a release's shard."""
        read = pq.read_table(self.at(relative), columns=columns, filesystem=self.fs)
        return cast(pl.DataFrame, pl.from_arrow(read.replace_schema_metadata(None)))

    def _read_part(self, table: str, part: str, columns: Sequence[str] | None) -> pa.Table:
        # not `pq.read_table`, which imports datasets and with them pandas: half a second in every process
        with pq.ParquetFile(self.at(f"tables/{table}/{part}"), filesystem=self.fs, pre_buffer=True) as file:
            names = file.schema_arrow.names if columns is None else list(columns)
            self._require_columns(table, names, file.schema_arrow)
            return file.read(names).replace_schema_metadata(None).select(top_columns(names))

    def _require_columns(self, table: str, names: Sequence[str], part: pa.Schema) -> None:
        if not {*top_columns(names)} <= {*part.names}:
            raise BadInput(
                f"store {self.root!r} was written by another version: table {table!r} lacks a column; start a new store"
            )

    def _damaged(self, table: str) -> StoreUnwell:
        return StoreUnwell(
            f"store {self.root!r} is damaged: a part of table {table!r}, or the list of them, is lost or broken; put a "
            "copy of the store in its place, or start a new one"
        )

    def _list(self, table: str, parts: list[str]) -> None:
        self.write_bytes(f"tables/{table}/{_LIST}", json.dumps(parts).encode())

    def _remove_all_but(self, table: str, names: set[str]) -> None:
        """Old parts, and what killed writers left: content that was replaced is content that is gone."""
        for path in self.fs.ls(self.at(f"tables/{table}"), detail=False, refresh=True):
            if path.rsplit("/", 1)[-1] not in names:
                self.fs.rm_file(path)


@cache
def frame_schema(row: type[BaseModel]) -> pl.Schema:
    """The polars schema of a row type."""
    return cast(pl.DataFrame, pl.from_arrow(no_rows(arrow_schema(row)))).schema


def frame_of(row: type[BaseModel], rows: Iterable[BaseModel]) -> pl.DataFrame:
    """Rows of a declared type as a frame, with the declared columns even when there are no rows."""
    return pl.DataFrame([each.model_dump() for each in rows], schema=frame_schema(row))
