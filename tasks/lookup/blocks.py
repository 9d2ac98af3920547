"""A store in blocks of rows that follow each other in time, so that a join of its tables has a bound.

Every block is a store of its own with the rows of other tables that its rows need, so what is computed of a whole store
is computed of each block in turn. What a block needs is found by hash: wanted keys and rows of a table go to shares on
disk by the hash of the key, and each share is joined in memory (a Grace hash join; Kitsuregawa et al., "Application of
hash to data base machine and its architecture", 1983). Rows that no block wants are left out first, but for a few, by
marks at the hashes of the wanted keys (Bloom, "Space/time trade-offs in hash coding with allowable errors", 1970).
The work grows with the rows, not with rows times blocks.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tasks.store.spooled_frames import SpooledFrames
from tasks.tables import Store

BLOCK_ROWS = 16_384
ROW_BYTES = 4_096
"""What a row of a block may weigh; of longer conversations fewer make a block, so that its memory has a bound."""
SHARE_BLOCKS = 4
"""Blocks whose keys are as many as one share's; one where rows hold texts."""
MARKS = 2**27
"""Bits, one of which is set for each wanted key: with ten million of them 7 % of the other keys pass."""
_TEXTS = {"conversations", "redacted_conversations"}
TEXT_SIGNALS = ("tokens", "code", "refusal", "markdown", "named_entities")
PROMPT_SIGNALS = ("language",)
DOCUMENT_SIGNALS = ("categories", "criteria", "taxonomy")

Wanted = Callable[["Block"], pl.Series]


class Block(Store):
    """Some rows of a store's tables; tables that were not divided are those of the whole store."""

    def __init__(self, store: Store, number: int, tables: dict[str, SpooledFrames]) -> None:
        self.root, self.fs, self.path = store.root, store.fs, store.path
        self._number = number
        self._tables = tables

    def read(self, table: str, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """The block's rows of a table, in the order of the table."""
        divided = self._tables.get(table)
        return super().read(table, columns) if divided is None else divided.read(self._number, columns)

    def read_parts(self, table: str, columns: Sequence[str] | None = None) -> Iterator[pl.DataFrame]:
        """The same as one part."""
        yield from super().read_parts(table, columns) if table not in self._tables else [self.read(table, columns)]


class Blocks:
    """The rows of `conversations` or `battles` in order of time, about `block_rows` at a time, of long ones fewer.

    Rows of one microsecond are in one block. Where the table fits in one block, and so do the `others` rows of the
    largest table that is divided by it, nothing is copied.
    """

    def __init__(self, store: Store, table: str, block_rows: int = BLOCK_ROWS, others: int = 0) -> None:
        self.table = table
        self._store = store
        self._tables: dict[str, SpooledFrames] = {}
        self._starts = _starts(store, table, block_rows)
        self._whole = self.number == 1 and others <= block_rows
        if not self._whole:
            self._spread()

    @property
    def number(self) -> int:
        """How many blocks there are; one at least."""
        return len(self._starts) + 1

    def __iter__(self) -> Iterator[Block]:
        for number in range(self.number):
            yield Block(self._store, number, self._tables)

    def divide(self, tables: Sequence[str], key: str, wanted: Wanted) -> None:
        """Give every block the rows of `tables` whose `key` is among `wanted` of the block."""
        if self._whole:
            return
        shares = -(-self.number // (1 if _TEXTS & {*tables} else SHARE_BLOCKS))
        asked = self._asked(key, wanted, shares)
        for table in tables:
            self._tables[table] = asked.found(self._store, table)

    def _spread(self) -> None:
        rows = self._tables[self.table] = SpooledFrames(self._store.empty(self.table))
        for some in self._store.read_slices(self.table):
            number = np.searchsorted(self._starts, _microseconds(some["tstamp"]), side="right")
            rows.add_parts(some.with_columns(block=pl.Series(number)), "block")

    def _asked(self, key: str, wanted: Wanted, shares: int) -> "_Asked":
        asked = _Asked(key, shares)
        for number, block in enumerate(self):
            asked.add(number, wanted(block).drop_nulls().unique())
        return asked


class _Asked:
    """Which blocks want the rows with which values of a key, in shares by the hash of the value."""

    def __init__(self, key: str, shares: int) -> None:
        self._key, self._shares = key, shares
        self._blocks = SpooledFrames(pl.DataFrame(schema={key: pl.String, "block": pl.Int64}))
        self._marks = np.zeros(1 + MARKS // 8, np.uint8)

    def add(self, block: int, values: pl.Series) -> None:
        """A block wants the rows with these values, each named once."""
        np.bitwise_or.at(self._marks, *self._marked(values))
        self._spool(self._blocks, pl.DataFrame({self._key: values}).with_columns(block=pl.lit(block, pl.Int64)))

    def found(self, store: Store, table: str) -> SpooledFrames:
        """Rows of a table, by block."""
        empty = store.empty(table)
        rows, found = SpooledFrames(empty), SpooledFrames(empty)
        for some in store.read_slices(table) if self._blocks.filled else ():
            byte, bit = self._marked(some[self._key])
            self._spool(rows, some.filter(pl.Series(self._marks[byte] & bit > 0)))
        for share in range(self._shares):
            found.add_parts(
                rows.read(share).join(self._blocks.read(share), on=self._key, maintain_order="left"), "block"
            )
        return found

    def _marked(self, values: pl.Series) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
        """Where the mark of each value is: byte, and bit of the byte."""
        place = (values.hash(seed=1).to_numpy() % np.uint64(MARKS)).astype(np.int64)
        return place >> 3, (1 << (place & 7)).astype(np.uint8)

    def _spool(self, frames: SpooledFrames, rows: pl.DataFrame) -> None:
        frames.add_parts(rows.with_columns(share=pl.col(self._key).hash() % self._shares), "share")


def conversation_blocks(store: Store, block_rows: int = BLOCK_ROWS) -> Blocks:
    """Conversations with what is decided and measured of them and their parts, but for embeddings."""
    blocks = Blocks(store, "conversations", block_rows)
    blocks.divide(["decisions"], "item_id", _column("conversations", "conversation_id"))
    _divide_facts(blocks)
    return blocks


def battle_blocks(store: Store, block_rows: int = BLOCK_ROWS) -> Blocks:
    """Battles with their conversations, and what is decided and measured of all."""
    conversations = sum(rows.height for rows in store.read_slices("conversations", ["line"]))
    blocks = Blocks(store, "battles", block_rows, conversations)
    blocks.divide(["conversations"], "conversation_id", _sides)
    blocks.divide(
        ["decisions"], "item_id", lambda block: pl.concat([block.read("battles")["battle_id"], _sides(block)])
    )
    _divide_facts(blocks)
    return blocks


def _divide_facts(blocks: Blocks) -> None:
    blocks.divide(["redacted_conversations"], "conversation_id", _column("conversations", "conversation_id"))
    blocks.divide(_signals(TEXT_SIGNALS), "content_id", _of_both(pl.col("turns").explode().struct.field("text_id")))
    blocks.divide(_signals(PROMPT_SIGNALS), "content_id", _of_both(pl.col("prompt_id")))
    blocks.divide(_signals(DOCUMENT_SIGNALS), "content_id", _of_both(pl.col("document_id")))
    blocks.divide(["topics"], "document_id", _of_both(pl.col("document_id")))


def _signals(names: Sequence[str]) -> list[str]:
    return [f"signals/{name}" for name in names]


def _column(table: str, name: str) -> Wanted:
    return lambda block: block.read(table, [name])[name]


def _of_both(ids: pl.Expr) -> Wanted:
    """Ids in conversations as they were taken in and as they are redacted."""
    tables = ("conversations", "redacted_conversations")
    return lambda block: pl.concat([block.read(table).select(ids.alias("id"))["id"] for table in tables])


def _sides(block: Block) -> pl.Series:
    battles = block.read("battles", ["conversation_a", "conversation_b"])
    return pl.concat([battles["conversation_a"], battles["conversation_b"]])


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
