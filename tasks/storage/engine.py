"""Questions in SQL to the tables of a store: DuckDB over views, with the rows read by `Store`.

In: a query over the tables of `schemas.tables` and the views of `views.sql`, and values for its `$names`; a value that
is a polars frame is a table of that name, and so is, for `answer_in_batches`, an iterator of frames. Out: a polars
frame (`whole_answer`), or frames of bounded size (`answer_in_batches`). DuckDB opens no file itself: it asks for the
columns that it needs, and gets the rows of the listed parts, with every checksum verified, as Arrow batches. A join is
done as it is written: the left side streams, the right side is held in memory, so texts belong to the left. A new view
is a statement with one comment in `views.sql`.
"""

import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
from duckdb.func import ARROW
from duckdb.sqltypes import VARCHAR
from pyarrow.fs import LocalFileSystem

from schemas.errors import BadInput, StoreUnwell
from schemas.row import arrow_schema
from schemas.tables import TABLES
from tasks.runtime.memory import Limits, limits
from tasks.storage.content_id import text_id
from tasks.storage.database import engine_errors, lock, new_connection, new_folder, with_plain_types
from tasks.storage.parquet import frame_types

if TYPE_CHECKING:
    from tasks.storage.tables import Store

ASK_BYTES = 256 * 1024 * 1024
"""Largest result of `whole_answer`."""
VIEWS_FILE = Path(__file__).with_name("views.sql")
_VIEW = re.compile(r"(?P<comment>(?:^-- .*\n)+)^CREATE VIEW (?P<name>\w+) AS\n(?P<query>(?s:.*?));\n", re.MULTILINE)
_MACRO = re.compile(r"^CREATE MACRO .*?;\n", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r'"(?P<quoted>[^"]+)"|(?P<word>\w+)')


def whole_answer(store: "Store", query: str, values: Mapping[str, Any]) -> pl.DataFrame:
    """All rows of a query.

    If a writer replaced a part meanwhile, the query runs once more on the new list of parts. Raises BadInput where the
    rows take more than ASK_BYTES or `memory_gb` is too little for the query, and StoreUnwell for a damaged part or a
    full temporary folder; also TypeError for a value that is an iterator, which could not be read again.
    """
    if any(isinstance(value, Iterator) for value in values.values()):
        raise TypeError("an iterator of frames is a value for `batches` alone")
    parts = _listed_parts(store, query)
    try:
        return _whole(_Question(store, query, values, parts))
    except StoreUnwell:
        later_parts = _listed_parts(store, query)
        if later_parts == parts:
            raise
        return _whole(_Question(store, query, values, later_parts))


def answer_in_batches(store: "Store", query: str, rows: int, values: Mapping[str, Any]) -> Iterator[pl.DataFrame]:
    """The rows of a query, at most `rows` at a time, in at least one frame; raises as `whole_answer` does.

    Raises also for a part that was replaced meanwhile. A value that is an iterator of frames is a table whose rows the
    query may read once; with ORDER BY, for example, rows are sorted that are more than memory holds.
    """
    for batch in arrow_batches(store, query, rows, values):
        yield _frame(batch)


def arrow_batches(store: "Store", query: str, rows: int, values: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    """The rows of `answer_in_batches` as Arrow; values of types that polars lacks, such as intervals, are texts."""
    question = _Question(store, query, values, _listed_parts(store, query))
    with question.errors():
        reader = with_plain_types(question.run()).to_arrow_reader(rows)
    yield from whole_stream(reader, question.errors)


def _whole(question: "_Question") -> pl.DataFrame:
    with question.errors():
        reader = question.run().to_arrow_reader()
        rows, size_bytes = list[pa.RecordBatch](), 0
        for batch in reader:
            rows.append(batch)
            size_bytes += batch.nbytes
            if size_bytes > ASK_BYTES:
                raise BadInput(
                    f"the answer to a question to store {question.store.root!r} has rows of more than "
                    f"{ASK_BYTES / 1e6:.0f} MB; ask for fewer columns or rows, or read them with `batches`"
                )
        return _frame(pa.Table.from_batches(rows, reader.schema))


class _Place(NamedTuple):
    """The limits and the `TMPDIR` of a database; a question under others needs another one."""

    limits: Limits
    temporary: str


@dataclass
class _EmptyDuckDB:
    """A DuckDB without rows, and the folder for what it spills."""

    folder: str
    is_sound: bool = True
    """Whether no question failed on it."""

    @cached_property
    def connection(self) -> duckdb.DuckDBPyConnection:
        connection = new_connection(self.folder)
        connection.create_function("text_id", _text_ids, [VARCHAR], VARCHAR, type=ARROW)
        # DuckDB cannot know how many rows a table has here, and would hold the texts of either side of a join. As joins
        # are written, the left side streams and the right side is held.
        connection.execute("SET disabled_optimizers = 'join_order, build_side_probe_side'")
        for macro in _macros():
            connection.execute(macro)
        lock(connection)
        return connection


class _Database:
    """An empty DuckDB, whose one memory limit and temporary folder all open questions of the process share.

    The folder is deleted with the last of them. The DuckDB is kept for the next: making one takes longer than most
    questions.
    """

    def __init__(self, place: _Place) -> None:
        kept = _idle.pop(place, None)
        if kept is not None:
            try:
                Path(kept.folder).mkdir(mode=0o700)
            except FileExistsError:  # made by somebody else, who could read what is spilled
                kept = None
        self.empty = kept or _EmptyDuckDB(new_folder())
        weakref.finalize(self, _end, place, self.empty)


_open: dict[_Place, "weakref.ref[_Database]"] = {}
"""The database of the questions that are open."""
_idle: dict[_Place, _EmptyDuckDB] = {}
"""The one of the last questions. A forked process makes its own: a thread that it lacks may hold a lock of this one."""
os.register_at_fork(after_in_child=_idle.clear)


def _end(place: _Place, empty: _EmptyDuckDB) -> None:
    shutil.rmtree(empty.folder, ignore_errors=True)
    _idle.clear()
    if empty.is_sound:
        _idle[place] = empty


def _database() -> _Database:
    """The database of the questions that are open, or one for the first of them."""
    place = _Place(limits(), tempfile.gettempdir())
    reference = _open.get(place)
    database = None if reference is None else reference()
    if database is None:
        database = _Database(place)
        _open.clear()
        _open[place] = weakref.ref(database)
    return database


def _text_ids(texts: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The function `text_id` of queries; DuckDB gives it no nulls."""
    return pa.array([text_id(text) for text in texts.to_pylist()], pa.string())


def _listed_parts(store: "Store", query: str) -> dict[str, list[str]]:
    """Table -> its listed parts, of the tables that a query needs."""
    return {name: store.parts(name) for name in needed_names(query) if name in TABLES}


class _Question:
    """One query with its values and parts, and what went wrong while their rows were read."""

    def __init__(
        self, store: "Store", query: str, values: Mapping[str, Any], parts: Mapping[str, Sequence[str]]
    ) -> None:
        """A frame in `values` may take the place of a view, and of no table."""
        self.store, self._query, self._parts = store, query, parts
        self._frames = {name: value for name, value in values.items() if isinstance(value, pl.DataFrame | Iterator)}
        self._scalars = {name: value for name, value in values.items() if name not in self._frames}
        self._reading_error: BaseException | None = None
        self._database: _Database | None = None

    def run(self) -> duckdb.DuckDBPyRelation:
        """Make the tables and views that the query needs, and start it. The database stays as long as this object."""
        self._database = _database()
        connection = self._database.empty.connection.cursor()  # on one connection, it would end another one's rows
        for name, rows in self._frames.items():
            if isinstance(rows, pl.DataFrame):
                connection.register(name, rows.to_arrow(compat_level=pl.CompatLevel.oldest()))
            else:
                connection.register(name, GivenFrames(rows, self._keep_error))
        named_queries = list[str]()
        for name in needed_names(self._query):
            if name in TABLES:
                parts = ListedParts(self.store, name, self._parts[name], self._keep_error)
                connection.register(f"parts of {name}", parts)
                named_queries.append(f'"{name}" AS NOT MATERIALIZED ({_rows_of_parts(name)})')
            elif name not in self._frames:
                named_queries.append(f"{name} AS NOT MATERIALIZED ({view_queries()[name]})")
        query = f"WITH {', '.join(named_queries)} {self._query}" if named_queries else self._query
        return connection.sql(query, params=self._scalars)

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Raises what went wrong while rows were read, instead of DuckDB's error about it."""
        try:
            with engine_errors():
                yield
        except BaseException:
            if self._database is not None:
                self._database.empty.is_sound = False
            if self._reading_error is not None:
                raise self._reading_error from None
            raise

    def _keep_error(self, error: BaseException) -> None:
        self._reading_error = error


@cache
def _rows_of_parts(table: str) -> str:
    """The query that gives a table, from its parts as they are registered.

    A CASE around a column of floats, or of structs, which may hold floats, gives it unchanged, and keeps DuckDB from
    leaving comparisons with it to the filter of `scanner`: to Arrow, where NaN is not greater than a number. In DuckDB
    and polars it is.
    """
    values = list[str]()
    for name, of_column in column_types(table).items():
        if of_column.is_float():
            values.append(f'CASE WHEN isnan("{name}") THEN \'NaN\' ELSE "{name}" END AS "{name}"')
        elif isinstance(of_column, pl.Struct):
            values.append(f'CASE WHEN "{name}" IS NULL THEN NULL ELSE "{name}" END AS "{name}"')
        else:
            values.append(f'"{name}"')
    return f'SELECT {", ".join(values)} FROM "parts of {table}"'  # noqa: S608 - names of our own


def whole_stream(
    batches: pa.RecordBatchReader, errors: Callable[[], AbstractContextManager[None]]
) -> Iterator[pa.RecordBatch]:
    """The batches of a reader, each read inside `errors`; one without rows where there is none, for its columns."""
    has_rows = False
    while True:
        with errors():
            batch = next(batches, None)
        if batch is None:
            break
        has_rows = True
        yield batch
    if not has_rows:
        yield pa.RecordBatch.from_pylist([], batches.schema)


def _frame(rows: pa.Table | pa.RecordBatch) -> pl.DataFrame:
    """Rows from DuckDB, with the name of the time zone that stored times have; DuckDB calls it Etc/UTC."""
    frame = cast(pl.DataFrame, pl.from_arrow(rows))
    named = {name: _in_utc(of_type) for name, of_type in frame.schema.items()}
    return frame.cast({name: of_type for name, of_type in named.items() if of_type != frame.schema[name]})


def _in_utc(of_type: pl.DataType) -> pl.DataType:
    """The type with its times in UTC, also those inside lists and structs."""
    if isinstance(of_type, pl.Datetime) and of_type.time_zone:
        return pl.Datetime(of_type.time_unit, "UTC")
    if isinstance(of_type, pl.List):
        return pl.List(_in_utc(cast(pl.DataType, of_type.inner)))
    if isinstance(of_type, pl.Struct):
        return pl.Struct({part.name: _in_utc(cast(pl.DataType, part.dtype)) for part in of_type.fields})
    return of_type


class ScannedRows(ds.InMemoryDataset):  # type: ignore[misc]  # pyarrow is untyped
    """Rows as DuckDB scans them: it takes this class for a dataset of Arrow, and calls `scanner` for a query."""

    def __init__(self, schema: pa.Schema, on_error: Callable[[BaseException], None]) -> None:
        super().__init__([], schema=schema)
        self._on_error = on_error

    def scanner(
        self, columns: Sequence[str] | None = None, filter: ds.Expression | None = None, **_: Any
    ) -> "_Reading":
        """Rows that pass the filter, of these columns."""
        names = self.schema.names if columns is None else [*columns]
        schema = pa.schema([self.schema.field(name) for name in names])
        return _Reading(pa.RecordBatchReader.from_batches(schema, self._batches(names, schema, filter)))

    def _batches(
        self, names: Sequence[str], schema: pa.Schema, filter: ds.Expression | None
    ) -> Iterator[pa.RecordBatch]:
        try:
            for rows in self._frames(names, filter):
                table = rows.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(schema)
                yield from (table if filter is None else table.filter(filter)).to_batches()
        except GeneratorExit:  # the query needs no more rows
            raise
        except BaseException as error:
            self._on_error(error)
            raise

    def _frames(self, names: Sequence[str], filter: ds.Expression | None) -> Iterator[pl.DataFrame]:
        """Frames of these columns; rows that do not pass the filter may be left out."""
        raise NotImplementedError


class ListedParts(ScannedRows):
    """A table: its columns and, for each column of lists of structs, a list column a field.

    `turns.role` is the field `role` of the column `turns`; it is read without the other fields. Parts that hold no row
    of a query's times are not read: DuckDB makes bounds of the values that a join looks for, too, so a block of
    conversations that is joined by `tstamp` and id reads the parts of its time.
    """

    def __init__(
        self, store: "Store", table: str, parts: Sequence[str], on_error: Callable[[BaseException], None]
    ) -> None:
        super().__init__(_columns_as_scanned(table), on_error)
        self._columns = column_types(table)
        self._store, self._table, self._parts = store, table, parts

    def _frames(self, names: Sequence[str], filter: ds.Expression | None) -> Iterator[pl.DataFrame]:
        paths = [name.replace(".", ".list.element.") for name in names]
        # A row is one of the table. Of `turns.role` it has a list with the role of each struct in `turns`.
        values = [_field(name) if "." in name else pl.col(name) for name in names]
        types = pl.Schema({name: self._columns[name] for name in names})
        for part in self._parts_with_rows(filter):
            for rows in self._store.part_slices(self._table, part, paths):
                yield rows.select(values).cast(types)

    def _parts_with_rows(self, filter: ds.Expression | None) -> Sequence[str]:
        """The parts that may hold rows that pass the filter, if it bounds the column by which the table is ordered."""
        column = TABLES[self._table].sort[0]
        if filter is None or len(self._parts) == 1 or f"({column} " not in str(filter):
            return self._parts
        bounds = [self._store.bounds(self._table, part, column) for part in self._parts]
        of_type, field = self.schema.field(column).type, ds.field(column)
        within = [
            ds.scalar(True) if pair is None
            else (field >= pa.scalar(pair[0], of_type)) & (field <= pa.scalar(pair[1], of_type))
            for pair in bounds
        ]  # fmt: skip
        # Arrow compares the filter with what is known of each part; the files are not opened here.
        parts = ds.FileSystemDataset.from_paths(
            self._parts, self.schema, ds.ParquetFileFormat(), LocalFileSystem(), within
        )
        return [part.path for part in parts.get_fragments(filter)]


class GivenFrames(ScannedRows):
    """The rows of an iterator of frames of one schema, of which there is at least one. A query may scan them once."""

    def __init__(self, frames: Iterator[pl.DataFrame], on_error: Callable[[BaseException], None]) -> None:
        first = next(frames, None)
        if first is None:
            raise ValueError("an iterator of frames gives at least one, which may be empty, for the columns")
        super().__init__(schema_as_scanned(first.schema), on_error)
        self._given = chain([first], frames)
        self._is_scanned = False

    def _frames(self, names: Sequence[str], filter: ds.Expression | None) -> Iterator[pl.DataFrame]:
        if self._is_scanned:
            raise ValueError("a query names an iterator of frames twice; give it a frame, or name it once")
        self._is_scanned = True
        return (rows.select(names) for rows in self._given)


class _Reading(NamedTuple):
    """The rows of a scan, read when they are asked for.

    Arrow's own scanner reads ahead on a thread; one that still runs Python when a query fails keeps the process alive.
    """

    reader: pa.RecordBatchReader

    def to_reader(self) -> pa.RecordBatchReader:
        return self.reader


def _field(name: str) -> pl.Expr:
    column, _, field = name.partition(".")
    return pl.col(column).list.eval(pl.element().struct.field(field)).alias(name)


def schema_as_scanned(types: Mapping[str, Any]) -> pa.Schema:
    """Arrow's schema of columns, of which each name has a polars type."""
    return pl.DataFrame(schema=types).to_arrow(compat_level=pl.CompatLevel.oldest()).schema


@cache
def _columns_as_scanned(table: str) -> pa.Schema:
    return schema_as_scanned(column_types(table))


@cache
def column_types(table: str) -> dict[str, Any]:
    """Name -> polars type of each column of a table as a query sees it, fields of lists of structs last."""
    columns = dict(frame_types(arrow_schema(TABLES[table].row)))
    fields = dict[str, Any]()
    for name, of_column in columns.items():
        if isinstance(of_column, pl.List) and isinstance(of_column.inner, pl.Struct):
            for field in of_column.inner.fields:
                fields[f"{name}.{field.name}"] = pl.List(field.dtype)
    return columns | fields


@cache
def view_queries() -> dict[str, str]:
    """Name -> query of each view of `views.sql`."""
    text = VIEWS_FILE.read_text()
    return {view["name"]: view["query"] for view in _VIEW.finditer(text)}


@cache
def view_comments() -> dict[str, str]:
    """Name of each view of `views.sql` -> the comment above it: what one of its rows is."""
    text = VIEWS_FILE.read_text()
    return {view["name"]: " ".join(view["comment"].replace("-- ", " ").split()) for view in _VIEW.finditer(text)}


@cache
def _macros() -> list[str]:
    """The statements of `views.sql` that create macros."""
    return _MACRO.findall(VIEWS_FILE.read_text())


@cache
def needed_names(query: str, of_views: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Tables and views whose names stand in a query, each behind those that it needs itself.

    `of_views`: the view whose query this is, and those that need it. Their names in it are those of columns, or stand
    in comments.
    """
    # SQL does not tell cases apart. Any word counts, also the name of a column: a table that is registered and not
    # asked costs no reading.
    needed = dict[str, None]()
    for match in _NAME.finditer(query):
        name = (match["quoted"] or match["word"]).lower()
        if name in needed or name in of_views:
            continue
        if name in view_queries():
            needed |= dict.fromkeys((*needed_names(view_queries()[name], of_views | {name}), name))
        elif name in TABLES:
            needed[name] = None
    return tuple(needed)
