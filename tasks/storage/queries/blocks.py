"""A store in blocks of rows that follow each other in time, so that memory does not grow with its tables.

Every block is a store of its own with the rows of other tables that its rows need, so what is computed of a whole store
is computed of each block in turn. The rows of all blocks lie in a temporary DuckDB database, whose joins may be larger
than memory.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tasks.storage.database import TemporaryDatabase
from tasks.storage.tables import Store

BLOCK_ROWS = 16_384
ROW_BYTES = 4_096
"""What a row of a block may weigh; of longer conversations fewer make a block, so that its memory has a bound."""
TEXT_SIGNALS = ("tokens", "code", "refusal", "markdown", "named_entities")
PROMPT_SIGNALS = ("language",)
DOCUMENT_SIGNALS = ("categories", "criteria", "taxonomy")

Wanted = Callable[["Block"], pl.Series]


class Block(Store):
    """Some rows of a store's tables; tables that were not divided are those of the whole store."""

    def __init__(self, store: Store, number: int, divided: set[str], database: TemporaryDatabase) -> None:
        self.root, self.fs, self.path = store.root, store.fs, store.path
        self._number, self._divided, self._database = number, divided, database

    def read(self, table: str, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """The block's rows of a table, in the order of the table."""
        if table not in self._divided:
            return super().read(table, columns)
        empty = self.empty(table, columns)
        names = ", ".join(f'"{name}"' for name in empty.columns)
        query = f'SELECT {names} FROM "{table}" WHERE block = ? ORDER BY place'  # noqa: S608 - names are declared ones
        return self._database.read(query, self._number).cast(empty.schema)

    def read_parts(self, table: str, columns: Sequence[str] | None = None) -> Iterator[pl.DataFrame]:
        """The same as one part."""
        yield from [self.read(table, columns)] if table in self._divided else super().read_parts(table, columns)


class Blocks:
    """The rows of `conversations` or `battles` in order of time, about `block_rows` at a time, of long ones fewer.

    Rows of one microsecond are in one block.
    """

    def __init__(self, store: Store, table: str, block_rows: int = BLOCK_ROWS) -> None:
        self._store, self._divided, self._database = store, {table}, TemporaryDatabase()
        self._starts = _starts(store, table, block_rows)
        self._database.run(
            f'CREATE TABLE "{table}" AS SELECT * FROM given ORDER BY block, place',  # noqa: S608
            given=(rows.with_columns(block=self._block_of(rows["tstamp"])) for rows in _slices(store, table)),
        )

    @property
    def number(self) -> int:
        """How many blocks there are; one at least."""
        return len(self._starts) + 1

    def __iter__(self) -> Iterator[Block]:
        for number in range(self.number):
            yield Block(self._store, number, self._divided, self._database)

    def divide(self, tables: Sequence[str], key: str, wanted: Wanted) -> None:
        """Give every block the rows of `tables` whose `key` is among `wanted` of the block."""
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
        self._divided |= {*tables}

    def _block_of(self, times: pl.Series) -> pl.Series:
        return pl.Series(np.searchsorted(self._starts, _microseconds(times), side="right"), dtype=pl.Int64)


def conversation_blocks(store: Store, block_rows: int = BLOCK_ROWS) -> Blocks:
    """Conversations with what is decided and measured of them and their parts, but for embeddings."""
    blocks = Blocks(store, "conversations", block_rows)
    blocks.divide(["decisions"], "item_id", _column("conversations", "conversation_id"))
    _divide_signals(blocks)
    return blocks


def battle_blocks(store: Store, block_rows: int = BLOCK_ROWS) -> Blocks:
    """Battles with their conversations, and what is decided and measured of all."""
    blocks = Blocks(store, "battles", block_rows)
    blocks.divide(["conversations"], "conversation_id", _sides)
    blocks.divide(
        ["decisions"], "item_id", lambda block: pl.concat([block.read("battles")["battle_id"], _sides(block)])
    )
    _divide_signals(blocks)
    return blocks


def _divide_signals(blocks: Blocks) -> None:
    blocks.divide(["redacted_conversations"], "conversation_id", _column("conversations", "conversation_id"))
    blocks.divide(_tables(TEXT_SIGNALS), "content_id", _of_both(pl.col("turns").explode().struct.field("text_id")))
    blocks.divide(_tables(PROMPT_SIGNALS), "content_id", _of_both(pl.col("prompt_id")))
    blocks.divide(_tables(DOCUMENT_SIGNALS), "content_id", _of_both(pl.col("document_id")))
    blocks.divide(["topics"], "document_id", _of_both(pl.col("document_id")))


def _tables(signals: Sequence[str]) -> list[str]:
    return [f"signals/{name}" for name in signals]


def _column(table: str, name: str) -> Wanted:
    return lambda block: block.read(table, [name])[name]


def _of_both(ids: pl.Expr) -> Wanted:
    """Ids in conversations as they were taken in and as they are redacted."""
    tables = ("conversations", "redacted_conversations")
    return lambda block: pl.concat([block.read(table).select(ids.alias("id"))["id"] for table in tables])


def _sides(block: Block) -> pl.Series:
    battles = block.read("battles", ["conversation_a", "conversation_b"])
    return pl.concat([battles["conversation_a"], battles["conversation_b"]])


def _slices(store: Store, table: str) -> Iterator[pl.DataFrame]:
    """A table some rows at a time, after a frame without rows."""
    yield store.empty(table)
    for rows in store.read_slices(table):
        yield rows.cast(store.empty(table).schema)


def _starts(store: Store, table: str, block_rows: int) -> npt.NDArray[np.int64]:
    """Times at which all blocks begin but the first."""
    slices = store.read_slices(table, ["tstamp"])
    times = np.concatenate([np.zeros(0, np.int64), *(_microseconds(rows["tstamp"]) for rows in slices)])
    order = np.argsort(times, kind="stable")
    times, heavy = times[order], np.cumsum(_weights(store, table)[order], dtype=np.float64)
    full = np.arange(block_rows, heavy[-1] if len(heavy) else 0, block_rows)
    first = np.searchsorted(heavy, full) + 1
    starts = np.unique(times[first[first < len(times)]])
    return starts[starts > times[:1]] if len(times) else starts


def _weights(store: Store, table: str) -> npt.NDArray[np.float32]:
    """Of each row of a table, in multiples of `ROW_BYTES`, what conversations of its part weigh; of a vote, of all."""
    sizes = np.array(store.part_sizes("conversations"), np.int64).reshape(-1, 2)
    if table == "conversations":
        rows, mean = sizes[:, 0], sizes[:, 1] / np.maximum(sizes[:, 0], 1)
    else:
        rows, mean = np.array([store.height(table)]), np.array([sizes[:, 1].sum() / max(1, sizes[:, 0].sum())])
    return np.repeat(np.maximum(mean / ROW_BYTES, 1).astype(np.float32), rows)


def _microseconds(times: pl.Series) -> npt.NDArray[Any]:
    return times.dt.timestamp("us").to_numpy()
