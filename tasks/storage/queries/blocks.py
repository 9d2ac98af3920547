"""Splits a store into blocks of rows ordered by time, so that memory does not grow with its tables.

A block is a `Store` with some conversations or battles and the rows of other tables that belong to them, so functions
that take a store also work on a block. The rows of all blocks are in a temporary DuckDB database.
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
"""Mean row size above which a block gets fewer than `BLOCK_ROWS` rows, so that its memory is bounded."""
TEXT_SIGNALS = ("tokens", "code", "refusal", "markdown", "named_entities")
PROMPT_SIGNALS = ("language",)
DOCUMENT_SIGNALS = ("categories", "criteria", "taxonomy")

Wanted = Callable[["Block"], pl.Series]


class Block(Store):
    """A block of a store. Tables that were not divided are read from the whole store."""

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
        """The block's rows of a table as one part."""
        yield from [self.read(table, columns)] if table in self._divided else super().read_parts(table, columns)


class Blocks:
    """The rows of `conversations` or `battles` by time, in blocks of about `block_rows`, fewer where rows are long.

    Rows with the same time are in the same block.
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
        """Number of blocks; at least one."""
        return len(self._starts) + 1

    def __iter__(self) -> Iterator[Block]:
        for number in range(self.number):
            yield Block(self._store, number, self._divided, self._database)

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
        self._divided |= {*tables}

    def _block_of(self, times: pl.Series) -> pl.Series:
        return pl.Series(np.searchsorted(self._starts, _microseconds(times), side="right"), dtype=pl.Int64)


def conversation_blocks(store: Store, block_rows: int = BLOCK_ROWS) -> Blocks:
    """Blocks of conversations with their decisions, redactions, topics and signals, except embeddings."""
    blocks = Blocks(store, "conversations", block_rows)
    blocks.divide(["decisions"], "item_id", _column("conversations", "conversation_id"))
    _divide_signals(blocks)
    return blocks


def battle_blocks(store: Store, block_rows: int = BLOCK_ROWS) -> Blocks:
    """Blocks of battles with their conversations, and the decisions, redactions, topics and signals of both."""
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
    """Ids in the original and in the redacted conversations of a block."""
    tables = ("conversations", "redacted_conversations")
    return lambda block: pl.concat([block.read(table).select(ids.alias("id"))["id"] for table in tables])


def _sides(block: Block) -> pl.Series:
    battles = block.read("battles", ["conversation_a", "conversation_b"])
    return pl.concat([battles["conversation_a"], battles["conversation_b"]])


def _slices(store: Store, table: str) -> Iterator[pl.DataFrame]:
    """A table in slices; the first frame is empty, so that there is at least one."""
    yield store.empty(table)
    for rows in store.read_slices(table):
        yield rows.cast(store.empty(table).schema)


def _starts(store: Store, table: str, block_rows: int) -> npt.NDArray[np.int64]:
    """Start times in microseconds of all blocks but the first."""
    slices = store.read_slices(table, ["tstamp"])
    times = np.concatenate([np.zeros(0, np.int64), *(_microseconds(rows["tstamp"]) for rows in slices)])
    order = np.argsort(times, kind="stable")
    times, weight = times[order], np.cumsum(_weights(store, table)[order], dtype=np.float64)
    full = np.arange(block_rows, weight[-1] if len(weight) else 0, block_rows)
    first = np.searchsorted(weight, full) + 1
    starts = np.unique(times[first[first < len(times)]])
    return starts[starts > times[:1]] if len(times) else starts


def _weights(store: Store, table: str) -> npt.NDArray[np.float32]:
    """Weight of each row, at least 1: mean conversation size (of its part, or of all for battles) by `ROW_BYTES`."""
    sizes = np.array(store.part_sizes("conversations"), np.int64).reshape(-1, 2)
    if table == "conversations":
        rows, mean = sizes[:, 0], sizes[:, 1] / np.maximum(sizes[:, 0], 1)
    else:
        rows, mean = np.array([store.height(table)]), np.array([sizes[:, 1].sum() / max(1, sizes[:, 0].sum())])
    return np.repeat(np.maximum(mean / ROW_BYTES, 1).astype(np.float32), rows)


def _microseconds(times: pl.Series) -> npt.NDArray[Any]:
    return times.dt.timestamp("us").to_numpy()
