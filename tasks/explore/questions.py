"""Questions in SQL that people ask a store or a release: one reading statement, over tables and views, and its rows.

In: a store (`AskedStore`) or a folder of a release, and the text of a question. Out: `Questions.answer`, batches of
Arrow, and `Questions.views`, what may be named. `checked_question` reads the statement as DuckDB parses it: the tables
and functions that it names are looked up there, never guessed from its text. The engine opens no file and no address
besides.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from schemas.errors import BadInput, CurateError, known_values
from schemas.row import Row, described_columns
from schemas.tables import TABLES
from tasks.explore.asked_store import AskedStore, Treatment, offered, treatments_of
from tasks.release.checks.footers import check_shards
from tasks.release.fetched import read_manifest
from tasks.release.registered import RELEASED_TABLES, table_of
from tasks.runtime.untrusted import one_line
from tasks.shown import ViewColumn
from tasks.storage.database import engine_errors, lock, temporary_connection, with_plain_types
from tasks.storage.engine import ScannedRows, needed_names, schema_as_scanned, view_comments, view_queries, whole_stream
from tasks.storage.parquet import read_parquet_groups

ANSWER_ROWS_AT_ONCE = 2_048
"""Rows of an answer that are in memory at a time."""
_TABLE_FUNCTIONS = frozenset({"range", "generate_series", "unnest"})
"""Functions that may stand behind FROM; others read files, other databases or settings of the engine."""
_FUNCTIONS_OF_THE_ENGINE = frozenset({"current_setting", "getenv", "which_secret", "in_search_path"})
"""Functions that tell of this machine."""
_COLUMN = re.compile(r'column (?:named )?"(?P<name>[^"]+)"', re.IGNORECASE)
_BOARDS = "boards"
"""The view of a release with all boards of votes."""


class Questions(Protocol):
    """A store or a release that is asked."""

    @property
    def masks_lifted(self) -> bool:
        """Whether what is masked for others is given."""

    def check(self, question: str) -> None:
        """Raises BadInput for a question that may not be asked."""

    def views(self) -> Mapping[str, str]:
        """Name of each table and view -> what one of its rows is."""

    def columns(self, view: str) -> list[ViewColumn]:
        """The columns of a table or view. Raises BadInput for an unknown one."""

    def answer(self, question: str) -> Iterator[pa.RecordBatch]:
        """The rows of a question, in at least one batch. Raises BadInput, in one line, for one that cannot be asked."""


class Statement(NamedTuple):
    """A question that may be asked."""

    text: str
    """The text without the semicolon."""
    names: frozenset[str]
    """The tables and views that it names."""

    @property
    def inside(self) -> str:
        """A statement around it, before which the engine can put views."""
        return f"SELECT * FROM (\n{self.text}\n)"  # noqa: S608 - the checked statement of whoever asks


def checked_question(question: str, tables: Iterable[str]) -> Statement:
    """The one statement of a question. Raises BadInput unless it only reads what is known."""
    tables = set(tables)
    with duckdb.connect(":memory:") as parser, sql_errors():
        lock(parser)
        statements = parser.extract_statements(question)
        if not statements:
            raise BadInput(
                "SQL: the question is empty; ask one such as SELECT winner, count(*) FROM battles GROUP BY 1"
            )
        if len(statements) > 1:
            raise BadInput("SQL: give one statement at a time")
        text = _without_semicolon(statements[0].query)
        (parsed,) = parser.execute("SELECT json_serialize_sql($1::VARCHAR)", [text]).fetchone() or ("{}",)
    tree = json.loads(parsed)
    if tree.get("error", True):
        raise BadInput(
            "SQL: only questions are asked here: one SELECT, WITH, FROM, VALUES, DESCRIBE or SUMMARIZE statement"
        )
    names = set[str]()
    # names that the statement itself gives to a part of it, in WITH
    local = {entry["key"].lower() for node in _nodes(tree) for entry in (node.get("cte_map") or {}).get("map", ())}
    for node in _nodes(tree):
        _check_node(node)
        if node.get("type") == "BASE_TABLE":
            names |= _named_table(node, tables, local)
    return Statement(text, frozenset(names))


def _without_semicolon(statement: str) -> str:
    """The statement without the semicolon that ends it, and what stands behind that."""
    encoded = statement.encode()
    starts = [start for start, _ in duckdb.tokenize(statement) if encoded[start : start + 1] == b";"]
    return encoded[: max(starts, default=len(encoded))].decode()


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Every mapping in a parsed statement."""
    waiting = [tree]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def _check_node(node: Mapping[str, Any]) -> None:
    """Raises BadInput for a part of a statement that reads something besides tables and views."""
    if node.get("type") == "TABLE_FUNCTION" and (name := node["function"]["function_name"]) not in _TABLE_FUNCTIONS:
        allowed = ", ".join(sorted(_TABLE_FUNCTIONS))
        raise BadInput(f"SQL: function {one_line(name)!r} may not stand behind FROM; {allowed} may, and tables")
    if node.get("class") == "FUNCTION" and str(node.get("function_name")).lower() in _FUNCTIONS_OF_THE_ENGINE:
        raise BadInput(f"SQL: function {node['function_name']!r} tells of this machine and cannot be asked")
    if node.get("type") == "SHOW_REF" and not node.get("query"):
        raise BadInput("SQL: write .tables at the prompt for what can be asked, or DESCRIBE and a name")


def _named_table(node: Mapping[str, Any], table_names: set[str], local: set[str]) -> set[str]:
    """The known table that a part of a statement names; nothing for a name of the statement itself."""
    name, of_schema = str(node["table_name"]), node.get("schema_name") or node.get("catalog_name")
    if not of_schema and name.lower() in table_names:
        return {name.lower()}
    if not of_schema and name.lower() in local:
        return set()
    whole = f"{of_schema}.{name}" if of_schema else name
    near = get_close_matches(name.lower(), table_names, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise BadInput(f"SQL: there is no table {one_line(whole)!r}{hint or '; .tables at the prompt lists them'}")


@contextmanager
def sql_errors(columns: Callable[[], Iterable[str]] = tuple) -> Iterator[None]:
    """Raises BadInput in one line for what DuckDB says of a question; `columns` are those of what it names."""
    try:
        yield
    except CurateError:
        raise
    except duckdb.Error as error:
        first = one_line(str(error).partition("\n")[0].partition("Error: ")[2] or type(error).__name__, 300)
        column = _COLUMN.search(str(error))
        near = get_close_matches(column["name"], sorted({*columns()}), n=1, cutoff=0.5) if column else []
        hint = f"; did you mean {near[0]}?" if near else ""
        raise BadInput(f"SQL: {first.rstrip('!.')}{hint}") from None


class OfAskedStore:
    """A store that is asked. `versions` gives the frame of signals in use, which some views need."""

    def __init__(self, store: AskedStore, versions: Callable[[], pl.DataFrame]) -> None:
        self._store, self._versions = store, versions

    @property
    def masks_lifted(self) -> bool:
        """Whether texts are given as they are."""
        return self._store.unmasked

    def check(self, question: str) -> None:
        """Raises BadInput for a question that may not be asked."""
        checked_question(question, self.views())

    def views(self) -> Mapping[str, str]:
        """Name of each table and view -> what one of its rows is."""
        comments = view_comments()
        return {
            name: comments[name] if name in comments else _first_line(TABLES[name].row.__doc__) for name in offered()
        }

    def columns(self, view: str) -> list[ViewColumn]:
        """The columns of a table or view; of a view without words."""
        _require_known(view, self.views())
        if view in TABLES:
            return [
                ViewColumn(name, of_type, about, "" if self.masks_lifted else _treatments(view, name))
                for name, of_type, about in described_columns(TABLES[view].row)
            ]
        (batch, *_) = self.answer(f'SELECT * FROM "{view}" LIMIT 0')  # noqa: S608 - a name of ours
        return [ViewColumn(field.name, str(field.type), "", "") for field in batch.schema]

    def answer(self, question: str) -> Iterator[pa.RecordBatch]:
        """The rows of a question."""
        statement = checked_question(question, self.views())
        needed = needed_names(statement.text)
        of_views = [view_queries()[name] for name in needed if name in view_queries()]
        values = {"versions": self._versions()} if any("versions" in query for query in of_views) else {}

        def columns() -> Iterator[str]:
            for name in statement.names:
                yield from (column.name for column in self.columns(name))

        with sql_errors(columns):
            yield from self._store.arrow_batches(statement.inside, ANSWER_ROWS_AT_ONCE, **values)


class OfAskedRelease:
    """A folder of a release that is asked. Raises BadInput where it cannot be read."""

    masks_lifted = False
    """Nothing of a release is masked."""

    def __init__(self, folder: Path) -> None:
        check_shards(folder, read_manifest(folder))
        self._files = dict[str, list[Path]]()
        for path in sorted(folder.rglob("*.parquet")):
            table = table_of(path.relative_to(folder).as_posix())
            if table in RELEASED_TABLES:
                self._files.setdefault(_BOARDS if table == "leaderboard" else table, []).append(path)

    def check(self, question: str) -> None:
        """Raises BadInput for a question that may not be asked."""
        checked_question(question, self.views())

    def views(self) -> Mapping[str, str]:
        """Name of each table -> what one of its rows is."""
        return {name: _first_line(_released(name).__doc__) for name in self._files}

    def columns(self, view: str) -> list[ViewColumn]:
        """The columns of a table."""
        _require_known(view, self.views())
        return [ViewColumn(name, of_type, about, "") for name, of_type, about in described_columns(_released(view))]

    def answer(self, question: str) -> Iterator[pa.RecordBatch]:
        """The rows of a question."""
        statement = checked_question(question, self.views())
        reading_errors = list[BaseException]()

        @contextmanager
        def errors() -> Iterator[None]:
            try:
                with engine_errors():
                    yield
            except BaseException:
                if reading_errors:
                    raise reading_errors[0] from None
                raise

        columns = (column.name for name in statement.names for column in self.columns(name))
        with temporary_connection() as connection:
            lock(connection)
            with sql_errors(lambda: columns), errors():
                for name in statement.names:
                    connection.register(name, _ReleasedRows(self._files[name], reading_errors.append))
                batches = with_plain_types(connection.sql(statement.inside)).to_arrow_reader(ANSWER_ROWS_AT_ONCE)
            with sql_errors(lambda: columns):
                yield from whole_stream(batches, errors)


class _ReleasedRows(ScannedRows):
    """The rows of the files of a table of a release."""

    def __init__(self, paths: Sequence[Path], on_error: Callable[[BaseException], None]) -> None:
        without_rows = pl.DataFrame(pq.read_schema(paths[0]).remove_metadata().empty_table())
        super().__init__(schema_as_scanned(without_rows.schema), on_error)
        self._paths = paths

    def _frames(self, names: Sequence[str], filter: ds.Expression | None) -> Iterator[pl.DataFrame]:
        for path in self._paths:
            try:
                yield from read_parquet_groups(path, [*names])
            except (pa.ArrowException, OSError) as error:
                raise BadInput(
                    f"{path.name!r} cannot be read ({type(error).__name__}); `curate verify` says what is wrong with it"
                ) from None


def _released(view: str) -> type[Row]:
    return RELEASED_TABLES["leaderboard" if view == _BOARDS else view].row


def _require_known(view: str, views: Iterable[str]) -> None:
    if view not in views:
        raise BadInput(f"there is no table {known_values(view, views)}")


def _first_line(docstring: str | None) -> str:
    text = " ".join((docstring or "").split("\n\n")[0].split())
    return text[:1].lower() + text[1:]


def _treatments(table: str, column: str) -> str:
    """The treatments of the texts of a column, in words."""
    return ", ".join(sorted(treatments_of(table, column) - {Treatment.SHOWN}))
