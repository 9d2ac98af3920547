"""Reads the facts that signals left in a store."""

from collections.abc import Mapping, Sequence

import polars as pl

from tasks.tables import Store

Versions = Mapping[str, str]
"""Signal name -> the version that this run uses."""


def table_name(signal: str) -> str:
    """Name of the table that holds a signal's facts."""
    return f"signals/{signal}"


def facts(store: Store, signal: str, version: str, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """The stored facts of one signal and version: `content_id` and the columns, one row for each content id."""
    names = None if columns is None else ["content_id", "version", *columns]
    rows = store.read(table_name(signal), names).filter(pl.col("version") == version)
    return rows.unique("content_id", keep="first", maintain_order=True).drop("version")
