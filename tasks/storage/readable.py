"""A store to look at: what can be read is shown, and a table with damage is named once.

In: the address of a store. Out: a `ReadableStore`, whose `ask`, `batches` and `read` answer from the parts that can be
read. Damage is found by the checks of every read: a part that is missing, or whose footer or page has another checksum.
A further table without which nothing may be shown is an entry of `_NEEDED`.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import polars as pl

from schemas.errors import StoreUnwell
from tasks.storage.tables import Store

_NEEDED = ("quarantine",)
"""Tables with what may never be shown: a read raises when a part of one is lost or broken."""
Answer = TypeVar("Answer")


class ReadableStore(Store):
    """A store whose lost or broken parts are left out, each from the first read that finds it. It is not written."""

    whole_or_none: Collection[str] = ()
    """Tables, named by a subclass, that are read as empty when a part is left out: it may hold the latest values."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.damaged: set[str] = set()
        """Tables with a part, or a list of parts, that is left out."""
        self._left_out = set[tuple[str, str]]()
        """Table and name of each part that is left out."""
        self._parts_gone = 0
        """How often a part could not be read because a writer had replaced it."""

    @property
    def problems(self) -> list[str]:
        """One line for each damaged table."""
        incomplete = "a part is lost or broken and is left out; what is shown is incomplete"
        return [f"table {table}: {incomplete}" for table in sorted(self.damaged)]

    def parts(self, table: str) -> list[str]:
        """Names of the listed parts that no read found to be lost or broken, oldest first."""
        try:
            listed = super().parts(table)
        except StoreUnwell:
            if table in _NEEDED:
                raise
            self.damaged.add(table)
            return []
        if table in self.damaged and table in self.whole_or_none:
            return []
        return [part for part in listed if (table, part) not in self._left_out]

    def ask(self, query: str, **values: Any) -> pl.DataFrame:
        """The rows of a query over the parts that can be read."""
        ask = super().ask
        return self.again(lambda: ask(query, **values))

    def again(self, read: Callable[[], Answer]) -> Answer:
        """Result of `read`, which is called again when a part breaks, or is replaced, while it reads.

        `batches` needs this: rows that it gave before a part broke cannot be taken back.
        """
        while True:
            before = len(self._left_out), self._parts_gone
            try:
                return read()
            except StoreUnwell:
                if before == (len(self._left_out), self._parts_gone):
                    raise

    @contextmanager
    def _sound(self, table: str, part: str) -> Iterator[None]:
        try:
            with super()._sound(table, part):
                yield
        except StoreUnwell:
            self._note_unread(table, part)
            raise

    def _note_unread(self, table: str, part: str) -> None:
        """The part is left out from now on, unless a writer has replaced it, or nothing may be shown without it."""
        if part not in super().parts(table):
            self._parts_gone += 1
        elif table not in _NEEDED:
            self.damaged.add(table)
            self._left_out.add((table, part))

    def _list(self, *_: Any) -> None:
        raise TypeError("a store that may leave parts out is not written: its lists would lose them")
