"""Reads stored signal values (the tables `signals/*`), many vectors into a temporary file mapped into memory."""

import mmap
import os
import tempfile
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.errors import BadInput
from tasks.storage.content_id import among, number_of
from tasks.storage.tables import Store

Vectors = npt.NDArray[np.float32]
Versions = Mapping[str, str]
"""Signal name -> the version that this run uses."""


def table_name(signal: str) -> str:
    """Name of the table with a signal's values."""
    return f"signals/{signal}"


def signal_values(
    store: Store,
    signal: str,
    version: str,
    columns: Sequence[str] | None = None,
    content_ids: Collection[str] | None = None,
) -> pl.DataFrame:
    """The stored values of one signal and version: `content_id` and `columns`, one row for each content id.

    With `content_ids`, only the rows of these.
    """
    names = None if columns is None else ["content_id", "version", *columns]
    wanted = pl.col("version") == version
    if content_ids is None:
        rows = store.read(table_name(signal), names).filter(wanted)
    else:
        among = wanted & pl.col("content_id").is_in(list(content_ids))
        none = store.empty(table_name(signal), names)
        rows = pl.concat([none, *(part.filter(among) for part in store.read_parts(table_name(signal), names))])
    if rows.is_empty():
        return rows.drop("version")
    return rows.unique("content_id", keep="first", maintain_order=True).drop("version")


def signal_facts(
    store: Store, signal: str, version: str, facts: Mapping[str, pl.Expr], content_ids: pl.Series | None = None
) -> pl.DataFrame:
    """`content_id`, as `number_of` gives it, and facts: expressions over the values of one signal and version.

    One row for each content id, with `content_ids` only of these numbers. Values are read some at a time, and only the
    facts are kept.
    """
    columns = {name: None for fact in facts.values() for name in fact.meta.root_names()}
    names, number = ["content_id", "version", *columns], number_of(pl.col("content_id"))
    every = chain([store.empty(table_name(signal), names)], store.read_slices(table_name(signal), names))
    slices = every if content_ids is None else among(every, number, content_ids)
    told = (rows.filter(version=version).select(number, **facts) for rows in slices)
    rows = pl.concat(told)
    again = rows["content_id"].n_unique() < rows.height  # which takes a tenth of the memory
    return rows.unique("content_id", keep="first") if again else rows


def several_lengths(signal: str, version: str, lengths: Collection[int]) -> str:
    """The error for vectors of one version that have several lengths."""
    return (
        f"{signal}: vectors of version {version!r} have {' and '.join(map(str, sorted(lengths)))} dimensions; "
        "one version has one: remove its rows and run `curate measure` again"
    )


def on_disk(rows: int, columns: int) -> Vectors:
    """Zeros, float32 (rows, columns), in a file of `TMPDIR` that ends with the process or the array.

    Raises OSError with the folder when it has no room; found out later, by a write into the mapping, it would end the
    process.
    """
    with tempfile.TemporaryFile(prefix="curate-vectors-") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, max(1, rows * columns) * np.dtype(np.float32).itemsize)
        except OSError as error:
            raise OSError(error.errno, error.strerror, tempfile.gettempdir()) from None
        return np.memmap(file, np.float32, "w+", shape=(max(1, rows), columns))[:rows]


def unload(vectors: npt.NDArray[Any]) -> None:
    """Give the memory of an array of `on_disk` back to the system; the file keeps the content."""
    whole: object = vectors
    while isinstance(whole, np.ndarray):
        whole = whole.base
    if isinstance(whole, mmap.mmap):
        whole.madvise(mmap.MADV_DONTNEED)


class StoredVectors:
    """Vectors of a signal in a temporary file, in the order in which their ids are first asked for.

    None when `versions` does not name the signal.
    """

    def __init__(self, store: Store, signal: str, versions: Versions, ids: pl.Series) -> None:
        name, version = table_name(signal), versions.get(signal, "")
        wanted = pl.DataFrame({"content_id": ids.drop_nulls().unique(maintain_order=True)}).with_row_index("row")
        self.matrix, self.width = np.empty((0, 1), np.float32), 0
        has, lengths = np.zeros(wanted.height, bool), set[int]()
        for rows in store.read_slices(name, ["content_id", "version", "vector"]) if wanted.height else ():
            there = rows.filter(version=version).join(wanted, on="content_id", maintain_order="left")
            there = there.filter(~pl.Series(has[there["row"].to_numpy()])).unique("row", keep="first")
            lengths |= set(there["vector"].list.len())
            if len(lengths) > 1 or lengths == {0}:
                raise BadInput(several_lengths(signal, version, lengths))
            if there.is_empty():
                continue
            if not self.width:
                (self.width,) = lengths
                self.matrix = on_disk(wanted.height, self.width)
            at = there["row"].to_numpy()
            has[at] = True
            self.matrix[at] = there["vector"].explode().to_numpy().reshape(len(at), self.width)
            unload(self.matrix)
        self._row_of = wanted.filter(pl.Series(has))

    def have(self, ids: pl.Series) -> pl.Series:
        """Boolean for each id: whether it has a vector."""
        return ids.is_in(self._row_of["content_id"].implode())

    def of(self, ids: pl.Series) -> dict[str, Vectors]:
        """Id -> vector, for those that have one."""
        known = pl.DataFrame({"content_id": ids.drop_nulls().unique()}).join(self._row_of, on="content_id")
        return dict(zip(known["content_id"], self.matrix[known["row"].to_numpy()], strict=True))

    def all(self) -> dict[str, Vectors]:
        """Id -> vector, which stays in the file until it is used, for all that have one."""
        rows = np.asarray(self.matrix)
        return {name: rows[row] for row, name in self._row_of.iter_rows()}
