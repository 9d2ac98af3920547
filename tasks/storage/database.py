"""A temporary DuckDB database for joins larger than memory, and stores divided by it into blocks of rows by time.

SQL statements are constant text; values are passed as parameters. A block is the store showing some conversations or
battles, and the rows of other tables that belong to them: memory does not grow with its tables. Those of a block are in
one temporary file a table, because they are read often.
"""

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa

from tasks.storage.tables import Store

MEMORY = "384MB"
"""DuckDB's memory limit; data beyond it is spilled to a temporary folder (`TMPDIR`)."""


class TemporaryDatabase:
    """Tables loaded from polars frames. The temporary files are deleted with the object."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="curate-join-")
        """For temporary files, which are deleted with the object."""
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": MEMORY,
            "temp_directory": self.folder,
            "threads": 2,  # every thread needs its own share of the memory
            "preserve_insertion_order": False,
            "autoinstall_known_extensions": False,
        }
        self._connection = duckdb.connect(":memory:", config=settings)
        self._connection.execute("SET TimeZone = 'UTC'")

    def load(self, name: str, frames: Iterable[pl.DataFrame]) -> None:
        """Create a table from one or more frames of one schema. The column `place` numbers the rows."""
        self.run(f'CREATE TABLE "{name}" AS SELECT * FROM loaded', loaded=frames)  # noqa: S608

    def load_table(self, store: Store, name: str, columns: Sequence[str]) -> None:
        """Create a table from columns of a table of a store."""
        self.load(name, chain([store.empty(name, columns)], store.read_slices(name, columns)))

    def append(self, name: str, frame: pl.DataFrame) -> None:
        """Add rows to a table; their `place` is null where it has one."""
        self.run(f'INSERT INTO "{name}" BY NAME SELECT * EXCLUDE place FROM added', added=[frame])  # noqa: S608

    def run(self, statement: str, **frames: Iterable[pl.DataFrame]) -> None:
        """Run a statement that reads each of `frames` once, by its name. The column `place` numbers their rows.

        An error raised while the frames are read is raised as it is, not as a DuckDB error.
        """
        failed: list[BaseException] = []
        for name, some in frames.items():
            self._connection.register(name, _reader(some, failed))
        try:
            self._connection.execute(statement)
        except Exception:
            if failed:
                raise failed[0] from None
            raise
        finally:
            for name in frames:
                self._connection.unregister(name)

    def read(self, query: str, *values: Any) -> pl.DataFrame:
        """The rows of a query."""
        return self._connection.sql(query, params=list(values)).pl()

    def read_batches(self, query: str, rows: int) -> Iterator[pl.DataFrame]:
        """The rows of a query, at most `rows` at a time."""
        for batch in self._connection.sql(query).to_arrow_reader(rows):
            yield pl.DataFrame(batch)


def _reader(frames: Iterable[pl.DataFrame], failed: list[BaseException]) -> pa.RecordBatchReader:
    numbered = _numbered(frames)
    first = next(numbered)

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            for table in chain([first], numbered):
                yield from table.to_batches()
        except BaseException as error:  # DuckDB would replace it by an error of its own
            failed.append(error)
            raise

    return pa.RecordBatchReader.from_batches(first.schema, batches())


def _numbered(frames: Iterable[pl.DataFrame]) -> Iterator[pa.Table]:
    place = 0
    for frame in frames:
        yield frame.with_row_index("place", place).to_arrow(compat_level=pl.CompatLevel.oldest())
        place += frame.height


BLOCK_ROWS = 16_384
ROW_BYTES = 4_096
"""Mean row size above which a block gets fewer than `BLOCK_ROWS` rows, so that its memory is bounded."""
_OF_TEXTS = [f"signals/{name}" for name in ("tokens", "code", "refusal", "markdown", "named_entities")]
_OF_DOCUMENTS = [f"signals/{name}" for name in ("categories", "criteria", "taxonomy")]

Wanted = Callable[[Store], pl.Series]
"""A block -> ids of rows of another table that belong to it."""


def _columns(table: str, *names: str) -> Wanted:
    return lambda block: pl.concat(block.read(table, names).get_columns())


_CONVERSATION = _columns("conversations", "conversation_id")


class Blocks:
    """The rows of `conversations` or `battles` by time, in blocks of about `block_rows`, fewer where rows are long.

    Rows with the same time are in the same block.
    """

    def __init__(self, store: Store, table: str, block_rows: int = BLOCK_ROWS) -> None:
        self._store, self._divided, self._database = store, {table}, TemporaryDatabase()
        starts = _starts(store, table, block_rows)
        self.number = len(starts) + 1
        self._database.run(
            f'CREATE TABLE "{table}" AS SELECT * FROM given ORDER BY block, place',  # noqa: S608
            given=(r.with_columns(block=starts.search_sorted(r["tstamp"], "right")) for r in _slices(store, table)),
        )
        self._to_files(table)

    def __iter__(self) -> Iterator[Store]:
        """The blocks. Tables that were not divided are read from the whole store."""
        for number in range(self.number):
            yield self._store.showing({table: partial(self._rows, table, number) for table in self._divided})

    def _rows(self, table: str, number: int, columns: Sequence[str] | None) -> pl.DataFrame:
        """A block's rows of a table, in the order of the table."""
        return pl.read_ipc(self._file(table, number), columns=None if columns is None else [*columns])

    def _file(self, table: str, number: int) -> Path:
        return Path(self._database.folder, f"{table.replace('/', '-')}-{number}.arrow")

    def _to_files(self, table: str) -> None:
        query = f'SELECT * EXCLUDE (block, place) FROM "{table}" WHERE block = ? ORDER BY place'  # noqa: S608
        schema = self._store.empty(table).schema
        for number in range(self.number):
            self._database.read(query, number).cast(schema).write_ipc(self._file(table, number))
        self._database.run(f'DROP TABLE "{table}"')

    def divide(self, tables: Sequence[str], key: str, wanted: Wanted) -> None:
        """Assign to every block the rows of `tables` whose column `key` is one of the ids `wanted(block)`."""
        self._database.run("CREATE OR REPLACE TABLE wanted (id VARCHAR, block BIGINT)")
        for number, block in enumerate(self):
            ids = pl.DataFrame({"id": wanted(block).drop_nulls().unique()})
            self._database.append("wanted", ids.with_columns(block=pl.lit(number)))
        for table in tables:
            self._database.run(
                f'CREATE TABLE "{table}" AS SELECT given.*, wanted.block FROM given JOIN wanted '  # noqa: S608
                f'ON given."{key}" = wanted.id ORDER BY block, place',
                given=_slices(self._store, table),
            )
            self._to_files(table)
        self._divided |= {*tables}

    def divide_signals(self) -> None:
        """Divide redactions, topics and signals, except embeddings, by the conversations of the blocks."""
        self.divide(["redacted_conversations"], "conversation_id", _CONVERSATION)
        texts = pl.col("turns").list.eval(pl.element().struct.field("text_id"))
        self.divide(_OF_TEXTS, "content_id", _of_both(pl.concat_list(texts, "image_ids").explode()))
        self.divide(["signals/language"], "content_id", _of_both(pl.col("prompt_id")))
        self.divide(_OF_DOCUMENTS, "content_id", _of_both(pl.col("document_id")))
        self.divide(["topics"], "document_id", _of_both(pl.col("document_id")))


def conversation_blocks(store: Store, block_rows: int = BLOCK_ROWS) -> Blocks:
    """Blocks of conversations with their decisions, redactions, topics and signals, except embeddings."""
    blocks = Blocks(store, "conversations", block_rows)
    blocks.divide(["decisions"], "item_id", _CONVERSATION)
    blocks.divide_signals()
    return blocks


def battle_blocks(store: Store, block_rows: int = BLOCK_ROWS) -> Blocks:
    """Blocks of battles with their conversations, and the decisions, redactions, topics and signals of both."""
    blocks = Blocks(store, "battles", block_rows)
    blocks.divide(["conversations"], "conversation_id", _columns("battles", "conversation_a", "conversation_b"))
    blocks.divide(["decisions"], "item_id", _columns("battles", "battle_id", "conversation_a", "conversation_b"))
    blocks.divide_signals()
    return blocks


def _of_both(ids: pl.Expr) -> Wanted:
    """Ids in the original and in the redacted conversations of a block."""
    tables = ("conversations", "redacted_conversations")
    return lambda block: pl.concat([block.read(table).select(ids.alias("id"))["id"] for table in tables])


def _slices(store: Store, table: str) -> Iterator[pl.DataFrame]:
    """A table in slices; the first frame is empty, so that there is at least one."""
    yield store.empty(table)
    for rows in store.read_slices(table):
        yield rows.cast(store.empty(table).schema)


def _starts(store: Store, table: str, block_rows: int) -> pl.Series:
    """The times at which the blocks after the first start.

    A row weighs as much as the mean conversation by `ROW_BYTES`: of its part, or of all for battles; at least 1.
    """
    sizes = store.part_sizes("conversations")
    if table != "conversations":
        rows, size = (sum(each) for each in zip((0, 0), *sizes, strict=True))
        sizes = [(rows, size)] * len(store.parts(table))
    frames = [store.empty(table, ["tstamp"]).with_columns(weight=pl.lit(1.0))]
    for part, (rows, size) in zip(store.parts(table), sizes, strict=True):
        weight = max(1.0, size / max(1, rows) / ROW_BYTES)
        frames.append(store.read_part(table, part, ["tstamp"]).with_columns(weight=pl.lit(weight)))
    times = pl.concat(frames).group_by("tstamp").agg(pl.col("weight").sum()).sort("tstamp")
    block = (pl.col("weight").cum_sum() - pl.col("weight")) // block_rows
    return times.filter(block > block.shift())["tstamp"]
