"""Tables of a database whose records are rows of a format: which columns are read, and how records become rows.

A format that is read from a database has a `DatabaseTables` in its adapter (`comparia_tables.py`), so that its records
pass through the same adapter as the rows of its files. Columns that nothing here names are never selected.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

QueriedRow = Mapping[str, Any]
"""Column of a query -> value; JSON is parsed."""
Columns = Mapping[str, "Mapping[str, ColumnType]"]
"""Table -> column -> type."""


class ColumnType(StrEnum):
    """Type of a column, as far as readers tell types apart."""

    TEXT = "text"
    UUID = "uuid"
    TIME = "timestamp"
    TRUTH = "boolean"
    JSON = "jsonb"
    OTHER = "another type"


_TYPES = {
    "character varying": ColumnType.TEXT,
    "text": ColumnType.TEXT,
    "uuid": ColumnType.UUID,
    "timestamp without time zone": ColumnType.TIME,
    "timestamp with time zone": ColumnType.TIME,
    "boolean": ColumnType.TRUTH,
    "jsonb": ColumnType.JSON,
    "json": ColumnType.JSON,
}
"""`data_type` of PostgreSQL's information_schema -> type."""


def column_type(data_type: str) -> ColumnType:
    """The type of a column by its `data_type` in PostgreSQL's information_schema."""
    return _TYPES.get(data_type, ColumnType.OTHER)


class DatabaseTables(NamedTuple):
    """The tables of a format, read a day at a time."""

    table: str
    """Table of which a record's day is that of its creation; it names the days in the tables of a store."""
    columns: Mapping[str, Mapping[str, Sequence[ColumnType]]]
    """Table -> column -> types that it may have. All of them must be there."""
    further_columns: Mapping[str, Mapping[str, Sequence[ColumnType]]]
    """The same of columns that some versions of the source lack; they are read where they are."""
    days: Callable[[Columns], str]
    """Query by the columns that are there: a row is a `day`, its number of rows `row_count`, and its `version`, a text
    that is another one as soon as a record of the day was changed, added or deleted."""
    records: Callable[[Columns], str]
    """Query of the records from day $1 up to day $2, exclusive; those that are read together follow each other."""
    key: str
    """Column of `records` that is the same in records that are read together."""
    rows: Callable[[Sequence[QueriedRow]], list[dict[str, Any]]]
    """The rows of the format that some records with the same key are."""


def misfits(tables: DatabaseTables, there: Columns) -> list[str]:
    """Everything that the columns of a database lack or have of another type, in words; empty where all fit."""
    words = []
    for table, columns in tables.columns.items():
        if table not in there:
            words.append(f"there is no table {table}")
            continue
        lacking = sorted(columns.keys() - there[table].keys())
        if lacking:
            words.append(f"{table} lacks {', '.join(lacking)}")
    for expected in (tables.columns, tables.further_columns):
        for table, columns in expected.items():
            for column, types in columns.items():
                present = there.get(table, {}).get(column)
                if present is not None and present not in types:
                    words.append(f"{table}.{column} is {present} in place of {' or '.join(types)}")
    return words
