"""Reads the facts that signals left in a store."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from tasks.storage.tables import Store

Versions = Mapping[str, str]
"""Signal name -> the version that this run uses."""


def table_name(signal: str) -> str:
    """Name of the table that holds a signal's facts."""
    return f"signals/{signal}"


def facts(
    store: Store,
    signal: str,
    version: str,
    columns: Sequence[str] | None = None,
    content_ids: Collection[str] | None = None,
) -> pl.DataFrame:
    """The stored facts of one signal and version: `content_id` and the columns, one row for each content id.

    With `content_ids` only those are kept in memory.
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


def embeddings(store: Store, signal: str, versions: Versions, ids: pl.Series) -> dict[str, npt.NDArray[np.float32]]:
    """The vector of each of the content ids that has one, in the order of the ids."""
    stored = facts(store, signal, versions[signal], ["vector"], ids.to_list())
    if stored.is_empty():
        return {}
    vectors = stored["vector"].explode().to_numpy().astype(np.float32, copy=False).reshape(stored.height, -1)
    place = {name: row for row, name in enumerate(stored["content_id"])}
    return {name: vectors[place[name]] for name in ids.sort() if name in place}
