"""The tables of a store, in a local folder or on an object store.

A table is a folder of Parquet files, its parts, and a list of the parts that count (`parts.json`). Writers write a part
first and list it last, so readers never see half a table, and a killed writer leaves only an unlisted file. The list of
a new table is there, without a part, before the first part: parts without a list are damage, and are never deleted.
"""

import json
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, Self, cast
from uuid import uuid4

import fsspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.implementations.local import LocalFileSystem
from pydantic import BaseModel

from schemas.errors import BadInput, StoreUnwell, why_unreadable
from schemas.row import Row, Table, arrow_schema
from schemas.tables import TABLES
from tasks.runtime.parallel import map_ordered
from tasks.storage import parquet
from tasks.storage.layout import (
    Differences,
    is_release,
    is_unmade,
    not_a_store,
    part_differences,
    state_layout,
    stated_layout,
    unknown_tables,
    why_not_read,
    with_nulls,
)
from tasks.storage.parquet import REQUESTS_AT_ONCE, conform, encode_parquet, frame_types, top_columns

LIST_FILE, PART_END = "parts.json", ".parquet"
SLICE_ROWS, SLICE_BYTES, PART_ROWS = 16_384, 4 * 1024 * 1024, 262_144
AT_ONCE_BYTES = 16 * 1024 * 1024
"""Columns of a part on an object store that take no more are fetched at once."""
_UNKNOWN = Table(Row, (), {})
"""Stands for a table that this version does not know, of an earlier version or another package."""
HOLDS: dict[str, Callable[[], None]] = {}
"""Path of a store whose lease this process holds -> a function that raises when another run has taken it over."""
LISTS: dict[tuple[str, str], list[str]] = {}
"""(path of such a store, table) -> its listed parts, which nobody else changes meanwhile."""


_CLIENTS = {"aiobotocore", "aiohttp", "botocore", "gcsfs"}
"""Packages of object stores' clients, which have errors of their own."""


def from_object_store(error: BaseException | None) -> bool:
    """Whether an error, or one that caused it, is from an object store's client; a missing file does not count."""
    while error is not None and not isinstance(error, FileNotFoundError):
        if type(error).__module__.partition(".")[0] in _CLIENTS:
            return True
        error = error.__cause__
    return False


@contextmanager
def _reached(root: str, what: str, then: str) -> Iterator[None]:
    """Raises BadInput when a store cannot be `what`, whose line ends with what to do; other errors pass unchanged."""
    try:
        yield
    except Exception as error:
        if not (isinstance(error, OSError) or from_object_store(error)):
            raise
        raise BadInput(f"store {root!r} cannot be {what} ({why_unreadable(error)}); {then}") from None


class Store:
    """A local folder or an object store address (`s3://…`, `gs://…`) that holds all tables of one arena."""

    any_layout = False
    """Whether columns that a part lacks are null in every table, to look at or take down from an older store."""
    _has_stated_layout = False

    def __init__(self, root: str) -> None:
        try:
            if not root:
                raise ValueError("it is empty")
            if "\0" in root:
                raise ValueError("it has a null character")
            fs, path = fsspec.core.url_to_fs(root)
        except (ValueError, ImportError) as error:  # an unknown protocol, or one whose package is not installed
            raise BadInput(
                f"store {root!r} cannot be opened ({error}); give a folder, or s3://… (pip install 's3fs')"
            ) from None
        self.root = root
        self.fs: fsspec.AbstractFileSystem = fs
        self.path: str = path.rstrip("/")
        self._begun = set[str]()
        """Tables whose lists were there when this object wrote a part of them."""

    @classmethod
    def open(cls, root: str, any_layout: bool = False) -> Self:
        """Open a store for writing; it is created if it does not exist.

        Raises BadInput when it is not writable, is a release, says no layout, or, without `any_layout`, another one.
        """
        store = cls(root)
        store.any_layout = any_layout
        if store.path in HOLDS:  # this process found it writable
            return store
        allowed = "give a folder you may write, or the credentials of the object store"
        with _reached(root, "opened", allowed):
            if is_release(store):
                raise BadInput(not_a_store(store))
            store._require_readable()
        with _reached(root, "written to", allowed):
            store.write_bytes("tables/.writable", b"")
            store.fs.rm_file(store.at("tables/.writable"))
        return store

    @classmethod
    def existing(cls, root: str, any_layout: bool = False) -> Self:
        """Open a store that already has tables. Raises BadInput otherwise, and for its layout as `open` does."""
        store = cls(root)
        store.any_layout = any_layout
        with _reached(root, "read", "check the address and the credentials"):
            if not store.fs.isdir(store.at("tables")):
                raise BadInput(not_a_store(store))
            store._require_readable()
        return store

    def awaits_first_run(self) -> bool:
        """Whether a first run would make a store here. Raises BadInput when the place cannot be read."""
        with _reached(self.root, "read", "check the address and the credentials"):
            return is_unmade(self)

    def _require_readable(self) -> None:
        if (why := why_not_read(self)) and not (self.any_layout and stated_layout(self)):
            raise BadInput(why)

    def ask(self, query: str, **values: Any) -> pl.DataFrame:
        """The rows of a query over tables and the views of `views.sql`; `values` are its `$names` and its own tables.

        Raises as `engine.whole_answer`.
        """
        from tasks.storage import engine  # it reads this class's parts

        return engine.whole_answer(self, query, values)

    def batches(self, query: str, rows: int = SLICE_ROWS, **values: Any) -> Iterator[pl.DataFrame]:
        """The rows of a query some at a time. Raises as `engine.answer_in_batches`."""
        from tasks.storage import engine

        return engine.answer_in_batches(self, query, rows, values)

    def arrow_batches(self, query: str, rows: int = SLICE_ROWS, **values: Any) -> Iterator[pa.RecordBatch]:
        """The rows of `batches` as Arrow. Raises as `engine.answer_in_batches`."""
        from tasks.storage import engine

        return engine.arrow_batches(self, query, rows, values)

    def at(self, relative: str) -> str:
        """Full path of something inside the store."""
        return f"{self.path}/{relative}"

    def json_files(self, folder: str) -> list[str]:
        """Names of the `.json` files in a folder of the store, sorted; none without the folder. Reads no cache."""
        self.fs.invalidate_cache()
        try:
            paths = self.fs.ls(self.at(folder), detail=False)
        except FileNotFoundError:
            return []
        return sorted(name for path in paths if (name := path.rsplit("/", 1)[-1]).endswith(".json"))

    def read_bytes(self, relative: str) -> bytes | None:
        """Content of a file, or None when it does not exist."""
        try:
            return parquet.whole_file(self.fs, self.at(relative))
        except FileNotFoundError:
            return None

    def write_bytes(self, relative: str, content: bytes) -> None:
        """Write a file atomically: readers see the old content or the new one."""
        if isinstance(self.fs, LocalFileSystem):
            with self._half(relative, content) as half:
                os.replace(half, self.at(relative))
        else:  # without `makedirs`, which would create a bucket when the name is misspelt
            self.require_held()
            self.fs.pipe_file(self.at(relative), content)

    def create_bytes(self, relative: str, content: bytes) -> None:
        """Write a whole file that must not exist. Raises FileExistsError."""
        if isinstance(self.fs, LocalFileSystem):
            with self._half(relative, content) as half:
                os.link(half, self.at(relative))
                Path(half).unlink(missing_ok=True)
        else:
            self.fs.pipe_file(self.at(relative), content, mode="create")

    @contextmanager
    def _half(self, relative: str, content: bytes) -> Iterator[str]:
        """Path of a file beside that one in a local folder, with its content; no other thread or machine writes it."""
        target = self.at(relative)
        half = f"{target}.{uuid4().int}.tmp"
        self.fs.makedirs(target.rsplit("/", 1)[0], exist_ok=True)
        try:
            self.fs.pipe_file(half, content)
            yield half
        except OSError:
            Path(half).unlink(missing_ok=True)  # frees room on a full disk
            raise

    def require_held(self) -> None:
        """Raises StoreUnwell when this process was suspended so long that another run has taken the store over."""
        HOLDS.get(self.path, bool)()

    def parts(self, table: str) -> list[str]:
        """Names of the listed parts of a table, oldest first."""
        if (cached_parts := LISTS.get((self.path, table))) is not None and self.path in HOLDS:
            return list(cached_parts)
        content = self._content_of_list(table)
        try:
            parts = [] if content is None else json.loads(content)
        except ValueError:
            raise self._damaged(table) from None
        if not isinstance(parts, list) or not all(
            isinstance(part, str) and parquet.PART_NAME.fullmatch(part) for part in parts
        ):
            raise self._damaged(table)
        if self.path in HOLDS:
            LISTS[self.path, table] = list(parts)
        return parts

    def _content_of_list(self, table: str) -> bytes | None:
        """Content of the list of a table; None for a table without parts.

        Raises StoreUnwell for parts without a list: it was there before the first of them, so it was lost.
        """
        list_path = f"tables/{table}/{LIST_FILE}"
        content = self.read_bytes(list_path)
        if content is None and any(path.endswith(PART_END) for path in self._files(table)):
            content = self.read_bytes(list_path)  # a writer may have begun the table just now
            if content is None:
                raise self._without_list(table)
        return content

    def _files(self, table: str) -> list[str]:
        """Paths of the files in the folder of a table, by no cache."""
        try:
            return list(self.fs.ls(self.at(f"tables/{table}"), detail=False, refresh=True))
        except FileNotFoundError:
            return []

    def _begin(self, table: str) -> None:
        """Have a new table list no part before its first one is written: parts without a list say that it was lost."""
        if table in self._begun or LISTS.get((self.path, table)):
            return
        if self._content_of_list(table) is None:
            self._state_layout()
            with suppress(FileExistsError):  # another thread or process was faster
                self.create_bytes(f"tables/{table}/{LIST_FILE}", b"[]")
        self._begun.add(table)

    def read(self, table: str, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """The whole table; an empty frame with the same columns when nothing was written yet."""
        names = list(TABLES[table].row.model_fields) if columns is None else columns
        parts = self.parts(table)
        try:  # part by part: polars copies what Arrow reads, so memory never holds the whole table twice
            frames = list(self._read_parts(table, parts, names))
        except StoreUnwell:  # perhaps a writer replaced the table meanwhile: read the new list
            if self.parts(table) == parts:
                raise
            return self.read(table, columns)
        return pl.concat([self.empty(table, names), *frames])

    def empty(self, table: str, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """An empty frame with the table's columns."""
        empty = pl.DataFrame(schema=frame_schema(TABLES[table].row))
        return empty if columns is None else empty.select(columns)

    def height(self, table: str) -> int:
        """Number of rows of a table. Reads only the footers of its parts."""
        return sum(rows for rows, _ in self.part_sizes(table))

    def part_sizes(self, table: str) -> list[tuple[int, int]]:
        """(rows, uncompressed bytes) of each part. Reads only the footers."""
        footers = map_ordered(partial(self._footer, table), self.parts(table), REQUESTS_AT_ONCE)
        return [(f.num_rows, sum(f.row_group(n).total_byte_size for n in range(f.num_row_groups))) for f in footers]

    def _footer(self, table: str, part: str) -> pq.FileMetaData:
        with self._sound(table, part):
            return parquet.read_footer(self.fs, self._at(table, part))

    def bounds(self, table: str, part: str, column: str) -> tuple[Any, Any] | None:
        """The least and the greatest value of a column in a part, by its footer; None where the footer does not say."""
        with self._sound(table, part):
            return parquet.bounds(self.fs, self._at(table, part), column)

    def read_parts(self, table: str, columns: Sequence[str] | None = None) -> Iterator[pl.DataFrame]:
        """The table one part at a time."""
        return self._read_parts(table, self.parts(table), columns)

    def _read_parts(self, table: str, parts: Sequence[str], columns: Sequence[str] | None) -> Iterator[pl.DataFrame]:
        """Parts in order; from an object store some at a time, because each waits for its requests."""
        read = partial(self.read_part, table, columns=columns)
        return map(read, parts) if isinstance(self.fs, LocalFileSystem) else map_ordered(read, parts, REQUESTS_AT_ONCE)

    def read_slices(
        self, table: str, columns: Sequence[str] | None = None, rows: int = SLICE_ROWS
    ) -> Iterator[pl.DataFrame]:
        """The table in slices of at most `rows` rows and about 4 MB, however large its parts are."""
        return (piece for part in self.parts(table) for piece in self.part_slices(table, part, columns, rows))

    def part_slices(
        self, table: str, part: str, columns: Sequence[str] | None = None, rows: int = SLICE_ROWS
    ) -> Iterator[pl.DataFrame]:
        """One part in slices. `columns` may name nested ones: `turns.list.element.text_id` reads nothing else."""
        names = list(TABLES[table].row.model_fields) if columns is None else list(columns)
        with self._sound(table, part):
            file = parquet.open_in_pieces(self.fs, self._at(table, part), AT_ONCE_BYTES, names)
            if file is None or any(part_differences(table, file.schema_arrow, names)):
                yield from self.read_part(table, part, names).iter_slices(rows)
            else:
                yield from parquet.in_slices(file, names, rows, SLICE_BYTES)

    def slices_as_written(self, table: str, part: str, rows: int = SLICE_ROWS) -> Iterator[pl.DataFrame]:
        """One part in slices, with all columns that it has, whatever version wrote it and whatever the table is."""
        with self._sound(table, part):
            path = self._at(table, part)
            file = parquet.open_in_pieces(self.fs, path, AT_ONCE_BYTES) or parquet.open_part(self.fs, path)
            yield from parquet.in_slices(file, file.schema_arrow.names, rows, SLICE_BYTES)

    def part_schema(self, table: str, part: str) -> pa.Schema:
        """The schema with which a part was written. Reads only the footer."""
        return self._footer(table, part).schema.to_arrow_schema().remove_metadata()

    def arrow_part(self, table: str, part: str) -> pa.Table:
        """One part with all columns that it has."""
        with self._sound(table, part), parquet.open_part(self.fs, self._at(table, part), pre_buffer=True) as file:
            return file.read().replace_schema_metadata(None)

    def group_of_rows(self, table: str, part: str) -> pl.Series:
        """Number of the row group of each row of a part. Reads only the footer."""
        return parquet.group_of_rows(self._footer(table, part))

    def read_group(self, table: str, part: str, group: int, columns: Sequence[str]) -> pl.DataFrame:
        """One row group of a part."""
        with self._sound(table, part), parquet.open_part(self.fs, self._at(table, part), columns, group) as file:
            rows = file.read_row_group(group, list(columns)).replace_schema_metadata(None)
            return cast(pl.DataFrame, pl.from_arrow(rows)).select(columns)

    def _at(self, table: str, part: str) -> str:
        return self.at(f"tables/{table}/{part}")

    def read_part(self, table: str, part: str, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """One part of a table."""
        names = list(TABLES[table].row.model_fields) if columns is None else list(columns)
        with self._sound(table, part):
            return self._read_part(table, part, names)

    def replace(self, table: str, frame: pl.DataFrame) -> None:
        """Make `frame` the whole content of the table, sorted by the table's key; earlier parts are deleted."""
        many = frame.height > PART_ROWS
        slices = frame.sort(TABLES[table].sort, maintain_order=True).iter_slices(PART_ROWS) if many else [frame]
        self.list_parts(table, [self.write_part(table, rows) for rows in slices])

    def append(self, table: str, frame: pl.DataFrame) -> None:
        """Add the rows of `frame` as one part. The same rows give the same part, so adding them again is harmless."""
        if not frame.is_empty():
            self.add_parts(table, [self.write_part(table, frame)])

    def write_part(self, table: str, rows: pl.DataFrame | pa.Table) -> str:
        """Write a part without listing it; returns its name. Frames are sorted by the table's key, Arrow tables not."""
        declared = TABLES.get(table, _UNKNOWN)
        if isinstance(rows, pl.DataFrame):
            rows = conform(rows.sort(declared.sort, maintain_order=True), arrow_schema(declared.row))
        content = encode_parquet(rows, declared.compression)
        name = parquet.part_name(content)
        if name not in LISTS.get((self.path, table), ()):
            self._begin(table)
            self.write_bytes(f"tables/{table}/{name}", content)
        return name

    def add_parts(self, table: str, parts: Sequence[str]) -> None:
        """Add written parts to the list. Unlisted parts that other threads are writing stay on disk."""
        listed = self.parts(table)
        all_parts = list(dict.fromkeys([*listed, *parts]))
        if all_parts != listed:
            self._list(table, all_parts)

    def list_parts(self, table: str, parts: Sequence[str]) -> None:
        """Make exactly these parts the table; all other files of it are deleted."""
        if LISTS.get((self.path, table)) != [*parts]:
            self._list(table, parts)
            self.purge(table)

    def purge(self, table: str, found: Iterable[str] | None = None) -> None:
        """Delete replaced parts and what killed writers left; `found` are the table's files, if they are known."""
        listed = {*self.parts(table), LIST_FILE}
        for path in found or self._files(table):
            if path.rsplit("/", 1)[-1] not in listed:
                self.require_held()
                with suppress(FileNotFoundError):  # another process deleted it
                    self.fs.rm_file(path)

    def damage(self) -> Iterator[str]:
        """One line for each table with a part, or a list of parts, that is lost or has other bytes than were written.

        Every byte of every part is read and compared with the digest in the part's name.
        """
        for table in [*TABLES, *unknown_tables(self)]:
            try:
                for part in self.parts(table):
                    with self._sound(table, part):
                        content = parquet.whole_file(self.fs, self._at(table, part))
                    if not part.startswith(parquet.digest_of(content)):
                        raise self._damaged(table)
            except StoreUnwell as error:
                yield str(error)

    def read_loose(self, relative: str, columns: Sequence[str]) -> pl.DataFrame:
        """Columns of a Parquet file of the store that is not part of a table, such as a shard of a release."""
        read = pq.read_table(self.at(relative), columns=columns, filesystem=self.fs)
        return cast(pl.DataFrame, pl.from_arrow(read.replace_schema_metadata(None)))

    def _read_part(self, table: str, part: str, names: Sequence[str]) -> pl.DataFrame:
        # not `pq.read_table`, which imports pyarrow.dataset and pandas: half a second in every process
        read, schema = parquet.read_columns(self.fs, self._at(table, part), names)
        rows, differ = cast(pl.DataFrame, pl.from_arrow(read)), part_differences(table, schema, names)
        rows = self._completed(table, rows, names, differ) if any(differ) else rows
        return rows.select(*dict.fromkeys(top_columns(names)))

    @contextmanager
    def _sound(self, table: str, part: str) -> Iterator[None]:
        """Raises StoreUnwell for what Arrow raises when the part is lost or broken."""
        try:
            yield
        except (pa.ArrowException, FileNotFoundError, UnicodeDecodeError):
            raise self._damaged(table) from None
        except OSError as error:
            if type(error) is OSError and error.errno is None:  # Arrow's own, such as for a checksum
                raise self._damaged(table) from None
            raise

    def _completed(self, table: str, rows: pl.DataFrame, names: Sequence[str], differ: Differences) -> pl.DataFrame:
        if differ.changed or not (self.any_layout or differ.are_read(table)):
            whole = shlex.quote(self.root.removesuffix("/canaries"))
            raise BadInput(
                f"store {self.root!r} was written by another version: a part of table {table!r} {differ}; "
                f"`curate migrate {whole}` brings it on, or else use that version"
            )
        return with_nulls(table, rows, names)

    def _damaged(self, table: str) -> StoreUnwell:
        again = f"delete {self.at('tables/' + table)!r}, and the next run makes the table again"
        copy = "put a copy of the store in its place, or start a new one"
        return StoreUnwell(
            f"store {self.root!r} is damaged: a part of table {table!r}, or the list of them, is lost or broken; "
            + (again if TABLES.get(table, _UNKNOWN).derived else copy)
        )

    def _without_list(self, table: str) -> StoreUnwell:
        folder, is_derived = repr(self.at(f"tables/{table}")), TABLES.get(table, _UNKNOWN).derived
        return StoreUnwell(
            f"store {self.root!r} is damaged: table {table!r} has parts and no {LIST_FILE}, the list of those that "
            f"count; none was removed. Put its {LIST_FILE} of a backup back, or make a whole store with `curate backup "
            f"BACKUP NEW_STORE`; delete {folder} "
            + (
                "to have the next run make it again"
                if is_derived
                else "only if an earlier version's first run was killed"
            )
        )

    def _state_layout(self) -> None:
        if not (self.any_layout or self._has_stated_layout):
            state_layout(self)
            self._has_stated_layout = True

    def _list(self, table: str, parts: Sequence[str]) -> None:
        self._state_layout()
        LISTS.pop((self.path, table), None)
        self.write_bytes(f"tables/{table}/{LIST_FILE}", json.dumps(list(parts)).encode())
        if self.path in HOLDS:
            LISTS[self.path, table] = list(parts)


@cache
def frame_schema(row: type[BaseModel]) -> pl.Schema:
    """The polars schema of a row type."""
    return frame_types(arrow_schema(row))


def frame_of(row: type[BaseModel], rows: Iterable[BaseModel]) -> pl.DataFrame:
    """Rows of a declared type as a frame; without rows, an empty frame with the declared columns."""
    return pl.DataFrame([instance.model_dump() for instance in rows], schema=frame_schema(row))
