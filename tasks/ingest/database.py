"""Reads a PostgreSQL database as if each of its days were a file of a format.

In: the address of a database and the tables of a format (`formats/database_tables.py`). Out: a `DatabaseDay` a day,
which `read_new` reads as it reads any source: skipped while its version is the one that was read, else read again as a
whole, its rows in place of the old ones. Days are listed in the store's tables some at a time (`read_days`), so a
database that goes away costs no more than those: the next run goes on behind them.

Every query is in a transaction that only reads. Passwords come from PGPASSWORD or ~/.pgpass, which the driver reads
itself, and are in no address, table or message.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any

import asyncpg
import orjson
from anyio.from_thread import BlockingPortal, start_blocking_portal

from schemas.errors import BadInput, known_values, why_unreadable, window_in_words
from schemas.items.conversation import LogFileRead
from tasks.ingest.formats import BUILT_IN, adapter
from tasks.ingest.formats.database_tables import Columns, ColumnType, DatabaseTables, QueriedRow, column_type, misfits
from tasks.ingest.log_files import Stamp
from tasks.ingest.read_new import read_new
from tasks.ingest.scrub import is_as_read
from tasks.storage.tables import Store

RECORDS_AT_ONCE = 256
"""Records that are fetched, and held, at a time."""
ROWS_LISTED_AT_ONCE = 20_000
"""Days are listed in the store's tables as soon as so many of their records were read."""
_ROW_BYTES = 2048
"""Assumed size of a record, for the display of progress."""
_CONNECT_SECONDS, _FETCH_SECONDS = 15.0, 900.0
"""Time to connect, and to answer: the days of a whole database are asked for at once."""
_TOLD_CLASSES = ("28", "3D", "42", "53", "57")
"""Classes of PostgreSQL's error codes whose texts are about accounts, names and the server, never about data."""
_COLUMNS = """
    -- a row is one column of the tables that the account sees
    SELECT table_name, column_name, data_type
    FROM information_schema.columns
    WHERE table_schema = ANY(current_schemas(false))
"""


class DatabaseLost(Exception):
    """A database that cannot be reached or read; the text says why and holds neither its address nor its data."""


class Database:
    """An open connection that only reads. Its event loop runs on a thread of its own."""

    def __init__(self, portal: BlockingPortal, connection: asyncpg.Connection) -> None:
        self._portal = portal
        self._connection = connection

    def ask(self, query: str) -> list[QueriedRow]:
        """All records of a query. Raises DatabaseLost."""
        with _lost():
            return [dict(record) for record in self._portal.call(_records, self._connection, query)]

    def stream(self, query: str, *values: Any) -> Iterator[QueriedRow]:
        """The records of a query, RECORDS_AT_ONCE at a time, as they are at its beginning. Raises DatabaseLost."""
        with _lost():
            transaction = self._connection.transaction(isolation="repeatable_read", readonly=True)
            self._portal.call(transaction.start)
            cursor = self._portal.call(_cursor, self._connection, query, values)
        while True:
            with _lost():
                records = self._portal.call(cursor.fetch, RECORDS_AT_ONCE)
            if not records:
                break
            yield from map(dict, records)
        with _lost():
            self._portal.call(transaction.rollback)

    def columns(self) -> Columns:
        """Table -> column -> type of all that the account sees. Raises DatabaseLost."""
        columns: dict[str, dict[str, ColumnType]] = {}
        for record in self.ask(_COLUMNS):
            columns.setdefault(record["table_name"], {})[record["column_name"]] = column_type(record["data_type"])
        return columns


async def _records(connection: asyncpg.Connection, query: str) -> Sequence[asyncpg.Record]:
    async with connection.transaction(readonly=True):
        records: Sequence[asyncpg.Record] = await connection.fetch(query)
        return records


async def _cursor(connection: asyncpg.Connection, query: str, values: Sequence[Any]) -> Any:
    return await connection.cursor(query, *values)


@contextmanager
def connected(address: str) -> Iterator[Database]:
    """A connection until the block ends. Raises DatabaseLost when the database cannot be reached."""
    with start_blocking_portal() as portal:
        with _lost():
            connection = portal.call(_connect, address)
        try:
            yield Database(portal, connection)
        finally:
            with suppress(Exception):  # a connection that is lost cannot be closed in good order
                portal.call(_close, connection)


async def _connect(address: str) -> asyncpg.Connection:
    # Poolers refuse most other options of a start, and would leave what a session sets to the next one; between
    # transactions they know no prepared statements.
    settings = {"application_name": "curate", "timezone": "UTC"}
    connection = await asyncpg.connect(
        address,
        timeout=_CONNECT_SECONDS,
        command_timeout=_FETCH_SECONDS,
        server_settings=settings,
        statement_cache_size=0,
    )
    for name in ("json", "jsonb"):
        await connection.set_type_codec(name, encoder=_refused, decoder=orjson.loads, schema="pg_catalog")
    return connection


def _refused(value: Any) -> str:
    raise TypeError("nothing is written")


async def _close(connection: asyncpg.Connection) -> None:
    connection.terminate() if connection.is_closed() else await connection.close(timeout=5)


@contextmanager
def _lost() -> Iterator[None]:
    """Errors of the driver as DatabaseLost; BadInput for a value that would be wrong the next time, too."""
    try:
        yield
    except asyncpg.PostgresError as error:
        is_told = str(error.sqlstate).startswith(_TOLD_CLASSES)
        raise DatabaseLost(str(error).splitlines()[0] if is_told else type(error).__name__) from None
    except ValueError as error:  # a value that is none of its type
        raise BadInput(f"--source holds a value that cannot be read ({type(error).__name__})") from None
    except asyncpg.InterfaceError as error:
        raise DatabaseLost(type(error).__name__) from None
    except OSError as error:  # a TimeoutError, too
        raise DatabaseLost(why_unreadable(error)) from None


@dataclass(frozen=True)
class DatabaseDay:
    """The records of one day of a database, as a source of rows (`RecordSource`)."""

    address: str
    format: str
    day: date
    row_count: int
    version: str
    query: str
    """Query of the records, `DatabaseTables.records`."""

    @property
    def source(self) -> str:
        """Name in the tables of the store, such as comparison/2026-01-05."""
        return f"{_tables(self.format).table}/{self.day}"

    @property
    def csam(self) -> bool:
        """No: only names of files say that."""
        return False

    @property
    def folder(self) -> str:
        """No folder."""
        return ""

    def stamp(self) -> Stamp:
        """The version of the day."""
        return Stamp(_ROW_BYTES * self.row_count, 0, self.version)

    def is_read_whole(self) -> bool:
        """Yes: its rows have no place that stays."""
        return True

    def rows(self, facts: Set[str] = frozenset()) -> Iterator[dict[str, Any]]:
        """The rows of the format, in order. Raises DatabaseLost."""
        tables = _tables(self.format)
        with connected(self.address) as database:
            records = database.stream(self.query, self.day, self.day + timedelta(days=1))
            for _, together in groupby(records, key=itemgetter(tables.key)):
                yield from tables.rows(list(together))


def _tables(format_name: str) -> DatabaseTables:
    """The tables of a format. Raises BadInput for a format that is read from files alone."""
    tables = adapter(format_name).database
    if tables is None:
        of_databases = [name for name, shape in BUILT_IN.items() if shape.database is not None]
        raise BadInput(f"--format of a database: {known_values(format_name, of_databases)}")
    return tables


_WHAT_TO_DO = "check the address, that the server runs, and PGPASSWORD"


def check_database(address: str, format_name: str | None) -> None:
    """Raises BadInput when a database cannot be read, or its tables are not those of the format."""
    with _connected_for(address) as database:
        _checked_columns(database, _format_of(format_name))


def database_days(address: str, format_name: str | None) -> list[DatabaseDay]:
    """All days of a database, in order. Without a format, it is the only one that has tables.

    Raises BadInput when the database cannot be read, or its tables are not those of the format.
    """
    name = _format_of(format_name)
    tables = _tables(name)
    with _connected_for(address) as database:
        columns = _checked_columns(database, name)
        days = database.ask(tables.days(columns))
    query = tables.records(columns)
    return [DatabaseDay(address, name, day["day"], day["row_count"], day["version"], query) for day in days]


def _format_of(format_name: str | None) -> str:
    return format_name or next(name for name, shape in BUILT_IN.items() if shape.database is not None)


@contextmanager
def _connected_for(address: str) -> Iterator[Database]:
    """A connection before anything is read. Raises BadInput when the database cannot be read."""
    try:
        with connected(address) as database:
            yield database
    except DatabaseLost as error:
        raise BadInput(f"--source cannot be read ({error}); {_WHAT_TO_DO}") from None


def _checked_columns(database: Database, format_name: str) -> Columns:
    """The columns of a database. Raises BadInput when they are not those of the format."""
    columns = database.columns()
    if words := misfits(_tables(format_name), columns):
        raise BadInput(f"--source is no database of {format_name}: {'; '.join(words)}{_nearest(columns)}")
    return columns


def _nearest(columns_of_tables: Columns) -> str:
    """The format whose columns the tables have most of, in words; empty where none comes near."""
    shares = {}
    for name, shape in BUILT_IN.items():
        columns = set[str]().union(*(of_table.keys() for of_table in columns_of_tables.values()))
        share = max(len(names & columns) / len(names) for names in shape.column_sets if names)
        shares[name] = share
    nearest = max(shares, key=lambda name: shares[name])
    if shares[nearest] < 0.75:
        return ""
    return f". Nearest is {nearest}, whose rows are read from a file: export the tables to Parquet or JSON"


def days_in_window(days: Sequence[DatabaseDay], since: date | None, until: date | None) -> list[DatabaseDay]:
    """The days from `since` to `until`, both included. Raises BadInput when there is none."""
    window_days = [day for day in days if (since is None or day.day >= since) and (until is None or day.day <= until)]
    if not window_days and days:
        raise BadInput(f"no day {window_in_words(since, until)}; the database holds {days[0].day} to {days[-1].day}")
    return window_days


def read_days(
    store: Store, days: Sequence[DatabaseDay], all_days: Sequence[DatabaseDay], workers: int, accept_shrunk: bool
) -> dict[str, int]:
    """Read the days whose version is not the one that was read; counts as those of `read_new`.

    `all_days`: every day of the database, also those that are not to be read. Raises BadInput when the database goes
    away; what was listed before stays.
    """
    before = {row["source"]: LogFileRead(**row) for row in store.read("log_files").iter_rows(named=True)}
    sources = {day.source for day in all_days}
    counts = Counter[str]()
    days_done = 0
    for group in _groups(days, before):
        files = [(day, day.format) for day in group]
        try:
            counts.update(read_new(store, files, None, workers, accept_shrunk, sources))
        except DatabaseLost as error:
            raise BadInput(
                f"the database went away ({error}) after {days_done:,} of {len(days):,} days, which are read and kept; "
                "run this again, and it goes on from there"
            ) from None
        days_done += len(group)
    return dict(counts)


def _groups(days: Sequence[DatabaseDay], before: Mapping[str, LogFileRead]) -> Iterator[list[DatabaseDay]]:
    """Days in order, with about ROWS_LISTED_AT_ONCE records to read in each group; one group at least."""
    group: list[DatabaseDay] = []
    rows_waiting = 0
    for day in days:
        group.append(day)
        rows_waiting += 0 if is_as_read(day, before.get(day.source)) else day.row_count
        if rows_waiting >= ROWS_LISTED_AT_ONCE:
            yield group
            group, rows_waiting = [], 0
    if group or not days:
        yield group
