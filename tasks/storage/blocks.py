"""Stores divided into blocks of rows by time: memory does not grow with their tables.

In: a store. Out: one store a block (`conversation_blocks`, `battle_blocks`), which shows some conversations or battles,
and the rows of other tables that belong to them. The rows of a block are in one temporary file a table, because they
are read often. A further table of signals that a release reads is a name in `_SIGNALS_OF_TEXTS` or
`_SIGNALS_OF_DOCUMENTS`, or one more `divide`.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import polars as pl

from tasks.storage.database import BlockFiles, TemporaryDatabase
from tasks.storage.tables import Store

BLOCK_ROWS = 16_384
"""Conversations or battles in a block, of up to `ROW_BYTES` each."""
ROW_BYTES = 4_096
"""Mean stored bytes of a conversation up to which a block has `BLOCK_ROWS` rows; of twice as long ones it has half."""
_SIGNALS_OF_TEXTS = [f"signals/{name}" for name in ("tokens", "code", "refusal", "markdown", "named_entities")]
"""Tables whose `content_id` is that of a text or an image."""
_SIGNALS_OF_DOCUMENTS = [f"signals/{name}" for name in ("categories", "criteria", "taxonomy")]
"""Tables whose `content_id` is a `document_id`: the prompt and the images of a conversation."""

IdsOfBlock = Callable[[Store], pl.Series]
"""A block -> ids (String) of the rows of another table that belong to it, in any order and number."""


def _ids_in_columns(table: str, *columns: str) -> IdsOfBlock:
    """The values of some columns of a block's rows of a table."""

    def ids(block: Store) -> pl.Series:
        return pl.concat(block.read(table, columns).get_columns())

    return ids


def _ids_in_conversations(ids: pl.Expr) -> IdsOfBlock:
    """Values of an expression over a block's conversations, and over its redacted conversations.

    A redacted text is another text, which has an id and signals of its own.
    """

    def ids_of_both(block: Store) -> pl.Series:
        original = block.read("conversations").select(id=ids)
        redacted = block.read("redacted_conversations").select(id=ids)
        return pl.concat([original["id"], redacted["id"]])

    return ids_of_both


_CONVERSATION_IDS = _ids_in_columns("conversations", "conversation_id")


class Blocks:
    """The rows of `conversations` or `battles` by time, in blocks of about `block_rows`, fewer where rows are long.

    Rows with the same time are in the same block.
    """

    def __init__(self, store: Store, table: str, block_rows: int = BLOCK_ROWS) -> None:
        self._store = store
        self._divided_tables = {table}
        self._files = BlockFiles()
        starts = _block_starts(store, table, block_rows)
        self.number = len(starts) + 1
        for rows in _slices(store, table):
            blocks = starts.search_sorted(rows["tstamp"], "right")
            self._files.add(table, rows, blocks)

    def __iter__(self) -> Iterator[Store]:
        """The blocks. Tables that were not divided are read from the whole store."""
        for number in range(self.number):
            readers = {table: partial(self._rows, table, number) for table in self._divided_tables}
            yield self._store.showing(readers)

    def _rows(self, table: str, number: int, columns: Sequence[str] | None) -> pl.DataFrame:
        """A block's rows of a table, in the order of the table."""
        rows = self._files.read(table, number, columns)
        return self._store.empty(table, columns) if rows is None else rows

    def divide(self, tables: Sequence[str], key: str, ids_of_block: IdsOfBlock) -> None:
        """Assign to every block the rows of `tables` whose column `key` is one of the ids of the block.

        A row may belong to several blocks.
        """
        database = TemporaryDatabase()
        # A row is an id and a block that needs the rows with this id.
        database.run("CREATE TABLE ids_of_blocks (id VARCHAR, block BIGINT)")
        for number, block in enumerate(self):
            ids = pl.DataFrame({"id": ids_of_block(block).drop_nulls().unique()})
            database.append("ids_of_blocks", ids.with_columns(block=pl.lit(number)))
        for table in tables:
            # A row is one of the table: its key, and its number as `place`.
            database.load("keys", (rows.select(id=key) for rows in _slices(self._store, table, [key])))
            # A row is one of the table and a block that it belongs to. Only numbers of rows are joined: DuckDB would
            # hold the rows themselves whole.
            database.run("CREATE TABLE places AS SELECT place, block FROM keys JOIN ids_of_blocks USING (id)")
            self._write(table, database)
            self._divided_tables.add(table)
            database.run("DROP TABLE keys; DROP TABLE places")

    def _write(self, table: str, database: TemporaryDatabase) -> None:
        """Write the rows of a table to the blocks of `places`."""
        first = 0
        for rows in _slices(self._store, table):
            # The blocks of each row of the slice, whose rows are numbered from 0; in the order of the table.
            query = "SELECT place - ? AS row, block FROM places WHERE place >= ? AND place < ? ORDER BY ALL"
            row_blocks = database.read(query, first, first, first + rows.height)
            self._files.add(table, rows[row_blocks["row"]], row_blocks["block"])
            first += rows.height

    def divide_signals(self) -> None:
        """Divide redactions, topics and signals, except embeddings, by the conversations of the blocks."""
        self.divide(["redacted_conversations"], "conversation_id", _CONVERSATION_IDS)
        text_ids = pl.col("turns").list.eval(pl.element().struct.field("text_id"))
        text_and_image_ids = pl.concat_list(text_ids, "image_ids").explode()
        document_ids = _ids_in_conversations(pl.col("document_id"))
        self.divide(_SIGNALS_OF_TEXTS, "content_id", _ids_in_conversations(text_and_image_ids))
        self.divide(["signals/language"], "content_id", _ids_in_conversations(pl.col("prompt_id")))
        self.divide(_SIGNALS_OF_DOCUMENTS, "content_id", document_ids)
        self.divide(["topics"], "document_id", document_ids)


def conversation_blocks(store: Store, block_rows: int = BLOCK_ROWS) -> Blocks:
    """Blocks of conversations with their decisions, redactions, topics and signals, except embeddings."""
    blocks = Blocks(store, "conversations", block_rows)
    blocks.divide(["decisions"], "item_id", _CONVERSATION_IDS)
    blocks.divide_signals()
    return blocks


def battle_blocks(store: Store, block_rows: int = BLOCK_ROWS) -> Blocks:
    """Blocks of battles with their conversations, and the decisions, redactions, topics and signals of both."""
    blocks = Blocks(store, "battles", block_rows)
    conversation_ids = _ids_in_columns("battles", "conversation_a", "conversation_b")
    blocks.divide(["conversations"], "conversation_id", conversation_ids)
    item_ids = _ids_in_columns("battles", "battle_id", "conversation_a", "conversation_b")
    blocks.divide(["decisions"], "item_id", item_ids)
    blocks.divide_signals()
    return blocks


def _slices(store: Store, table: str, columns: Sequence[str] | None = None) -> Iterator[pl.DataFrame]:
    """A table in slices; the first frame is empty, so that there is at least one."""
    empty = store.empty(table, columns)
    yield empty
    for rows in store.read_slices(table, columns):
        yield rows.cast(empty.schema)


def _block_starts(store: Store, table: str, block_rows: int) -> pl.Series:
    """The times (Datetime, ascending) at which the blocks after the first start.

    The rows of a block have a weight of about `block_rows` together. A row weighs 1 if the mean stored conversation has
    up to `ROW_BYTES`, 2 if it has twice as many, and so on. The mean is that of the row's part; for battles, which have
    no texts themselves, it is that of all conversations.
    """
    conversation_sizes = store.part_sizes("conversations")
    parts = store.parts(table)
    if table == "conversations":
        weights = [_row_weight(rows, size_bytes) for rows, size_bytes in conversation_sizes]
    else:
        rows_of_all = sum(rows for rows, _ in conversation_sizes)
        bytes_of_all = sum(size_bytes for _, size_bytes in conversation_sizes)
        weights = [_row_weight(rows_of_all, bytes_of_all)] * len(parts)
    frames = [store.empty(table, ["tstamp"]).with_columns(weight=pl.lit(1.0))]
    for part, weight in zip(parts, weights, strict=True):
        frames.append(store.read_part(table, part, ["tstamp"]).with_columns(weight=pl.lit(weight)))
    # A row is a time, with the weight of all rows of that time: they are in one block.
    times = pl.concat(frames).group_by("tstamp").agg(pl.col("weight").sum()).sort("tstamp")
    weight_before = pl.col("weight").cum_sum() - pl.col("weight")
    block = weight_before // block_rows
    return times.filter(block > block.shift())["tstamp"]


def _row_weight(rows: int, size_bytes: int) -> float:
    """Weight of a row where `rows` stored conversations take `size_bytes`; at least 1."""
    return max(1.0, size_bytes / max(1, rows) / ROW_BYTES)
