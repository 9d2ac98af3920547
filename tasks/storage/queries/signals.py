"""Reads stored signal values (the tables `signals/*`)."""

from collections.abc import Collection, Mapping, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.errors import BadInput
from tasks.storage.content_id import number_of
from tasks.storage.tables import Store

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


def signal_facts(store: Store, signal: str, version: str, facts: Mapping[str, pl.Expr]) -> pl.DataFrame:
    """`content_id`, as `number_of` gives it, and facts: expressions over the values of one signal and version.

    One row for each content id. Values are read some at a time, and only the facts are kept.
    """
    columns = {name: None for fact in facts.values() for name in fact.meta.root_names()}
    names = ["content_id", "version", *columns]
    slices = chain([store.empty(table_name(signal), names)], store.read_slices(table_name(signal), names))
    told = (rows.filter(version=version).select(number_of(pl.col("content_id")), **facts) for rows in slices)
    return pl.concat(told).unique("content_id", keep="first")


def embeddings(store: Store, signal: str, versions: Versions, ids: pl.Series) -> dict[str, npt.NDArray[np.float32]]:
    """Content id -> vector, for the given ids that have an embedding, sorted by id.

    Raises BadInput when the vectors have several lengths.
    """
    stored = signal_values(store, signal, versions[signal], ["vector"], ids.drop_nulls().unique().to_list()).sort(
        "content_id"
    )
    widths = sorted(stored["vector"].list.len().unique())
    if len(widths) > 1 or widths == [0]:
        raise BadInput(several_lengths(signal, versions[signal], widths))
    matrix = stored["vector"].explode().to_numpy().astype(np.float32, copy=False).reshape(stored.height, *widths)
    return dict(zip(stored["content_id"], matrix, strict=True))


def several_lengths(signal: str, version: str, lengths: Collection[int]) -> str:
    """The error for vectors of one version that have several lengths."""
    return (
        f"{signal}: vectors of version {version!r} have {' and '.join(map(str, sorted(lengths)))} dimensions; "
        "one version has one: remove its rows and run `curate measure` again"
    )
