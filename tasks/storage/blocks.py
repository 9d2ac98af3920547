"""Stores divided into blocks of rows by time: memory does not grow with their tables.

A block is the store showing some conversations or battles, and the rows of other tables that belong to them. Those of a
block are in one temporary file a table, because they are read often.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import polars as pl

from tasks.storage.database import BlockFiles, TemporaryDatabase
from tasks.storage.tables import Store

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
        self._store, self._divided, self._files = store, {table}, BlockFiles()
        starts = _starts(store, table, block_rows)
        self.number = len(starts) + 1
        for rows in _slices(store, table):
            self._files.add(table, rows, starts.search_sorted(rows["tstamp"], "right"))

    def __iter__(self) -> Iterator[Store]:
        """The blocks. Tables that were not divided are read from the whole store."""
        for number in range(self.number):
            yield self._store.showing({table: partial(self._rows, table, number) for table in self._divided})

    def _rows(self, table: str, number: int, columns: Sequence[str] | None) -> pl.DataFrame:
        """A block's rows of a table, in the order of the table."""
        rows = self._files.read(table, number, columns)
        return self._store.empty(table, columns) if rows is None else rows

    def divide(self, tables: Sequence[str], key: str, wanted: Wanted) -> None:
        """Assign to every block the rows of `tables` whose column `key` is one of the ids `wanted(block)`."""
        database = TemporaryDatabase()
        database.run("CREATE TABLE wanted (id VARCHAR, block BIGINT)")
        for number, block in enumerate(self):
            ids = pl.DataFrame({"id": wanted(block).drop_nulls().unique()})
            database.append("wanted", ids.with_columns(block=pl.lit(number)))
        for table in tables:
            database.load("given", (rows.select(id=key) for rows in _slices(self._store, table, [key])))
            # one row for each row of the table and block that it belongs to; the rows are not joined, but their places
            database.run("CREATE TABLE places AS SELECT place, block FROM given JOIN wanted USING (id)")
            self._write(table, database)
            self._divided.add(table)
            database.run("DROP TABLE given; DROP TABLE places")

    def _write(self, table: str, database: TemporaryDatabase) -> None:
        """Write the rows of a table to the blocks of `places`."""
        first = 0
        for rows in _slices(self._store, table):
            query = "SELECT place - ? AS row, block FROM places WHERE place >= ? AND place < ? ORDER BY ALL"
            there = database.read(query, first, first, first + rows.height)
            self._files.add(table, rows[there["row"]], there["block"])
            first += rows.height

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


def _slices(store: Store, table: str, columns: Sequence[str] | None = None) -> Iterator[pl.DataFrame]:
    """A table in slices; the first frame is empty, so that there is at least one."""
    empty = store.empty(table, columns)
    yield empty
    for rows in store.read_slices(table, columns):
        yield rows.cast(empty.schema)


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
