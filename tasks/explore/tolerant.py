"""Reads tables of a store for looking: a damaged part is named once and left out, and everything else is shown."""

from collections.abc import Collection, Iterator, Sequence
from functools import partial

import polars as pl

from schemas.errors import StoreUnwell
from schemas.row import Held
from schemas.tables import TABLES
from tasks.storage.content_id import text_id
from tasks.storage.tables import Store


class TolerantTables:
    """Tables of a store, part by part. `problems` and `damaged` name the tables with parts that cannot be read."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.problems: list[str] = []
        self.damaged: set[str] = set()

    def parts(self, table: str, columns: Sequence[str] | None = None) -> Iterator[tuple[int, pl.DataFrame]]:
        """(number of the part, its rows), without parts that are lost or broken."""
        try:
            names = self.store.parts(table)
        except StoreUnwell:
            self._name(table)
            return
        for number, part in enumerate(names):
            try:
                yield number, self.store.read_part(table, part, columns)
            except StoreUnwell:
                self._name(table)

    def read(self, table: str, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """The readable rows of a table."""
        return pl.concat([self.store.empty(table, columns), *(rows for _, rows in self.parts(table, columns))])

    def latest(
        self, signal: str, columns: Sequence[str], content_ids: pl.Series | None = None, strict: bool = False
    ) -> pl.DataFrame:
        """`content_id` and columns of the value of a signal that was measured last, for each content id.

        With `strict`, no values when a part cannot be read: it may hold a later value than the other parts.
        """
        table = f"signals/{signal}"
        names = ["content_id", "measured_at", *columns]
        frames = [self.store.empty(table, names)]
        for _, rows in self.parts(table, names):
            frames.append(
                rows if content_ids is None else rows.filter(pl.col("content_id").is_in(content_ids.implode()))
            )
        if strict and table in self.damaged:
            frames = frames[:1]
        last = pl.concat(frames).sort("measured_at", maintain_order=True).unique("content_id", keep="last")
        return last.drop("measured_at")

    def _name(self, table: str) -> None:
        self.damaged.add(table)
        problem = f"table {table}: a part is lost or broken and is left out; what is shown is incomplete"
        if problem not in self.problems:
            self.problems.append(problem)


def narrowed(store: Store, conversation_ids: Collection[str]) -> Store:
    """The store as if it held only some conversations and battles, and what belongs to them.

    The functions that explain one item then read each table once for many items, and parts without them not at all.
    Tables that are not about items or contents are whole.
    """
    rows = _Narrow(store, conversation_ids)
    return store.showing({table: partial(rows.read, table) for table in TABLES})


class _Narrow:
    """Rows of the tables of a store that belong to some conversations, each table read once."""

    def __init__(self, store: Store, conversation_ids: Collection[str]) -> None:
        self._whole, self._known = store, dict[str, pl.DataFrame]()
        wanted = pl.Series(sorted(conversation_ids), dtype=pl.String)
        self._known["battles"] = self._rows("battles", ["conversation_a", "conversation_b"], wanted)
        sides = pl.concat([self._known["battles"][side] for side in ("conversation_a", "conversation_b")])
        items = pl.concat([wanted, sides, self._known["battles"]["battle_id"]])
        self._known["decisions"] = self._rows("decisions", ["item_id"], items)
        twins = self._known["decisions"]["duplicate_of"].drop_nulls()
        self._known["conversations"] = self._rows("conversations", ["conversation_id"], pl.concat([items, twins]))
        rows = self._known["conversations"]
        texts = rows["turns"].explode().struct.field("text_id")
        every = [texts, rows["prompt_id"], rows["document_id"], rows["image_ids"].explode()]
        self._content_ids = pl.concat(every).drop_nulls().unique()

    def read(self, table: str, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """The rows of a table that belong to the items."""
        if table not in self._known:
            if columns_of_items := TABLES[table].named(Held.CONVERSATION):
                rows = self._rows(table, columns_of_items, self._known["conversations"]["conversation_id"])
            elif table.startswith("signals/"):
                rows = self._rows(table, ["content_id"], self._content_ids)
            else:
                rows = self._whole.read(table)
            self._known[table] = rows
            if table == "signals/image_text":
                texts = [text_id(text) for text in rows["text"] if text]  # they have signals of their own
                self._content_ids = pl.concat([self._content_ids, pl.Series(texts, dtype=pl.String)]).unique()
        rows = self._known[table]
        return rows if columns is None else rows.select(columns)

    def _rows(self, table: str, keys: Sequence[str], ids: pl.Series) -> pl.DataFrame:
        """Rows that have one of the ids in a column of `keys`."""
        chosen = pl.any_horizontal(pl.col(keys).is_in(ids.implode()))
        frames = [self._whole.empty(table)]
        for number, known in TolerantTables(self._whole).parts(table, keys):
            if known.select(chosen.any()).item():
                frames.append(self._whole.read_part(table, self._whole.parts(table)[number]).filter(chosen))
        return pl.concat(frames)
