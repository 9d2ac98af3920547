"""Rows of a declared type as a frame, with the declared columns even when there are no rows."""

from collections.abc import Iterable

import polars as pl
from pydantic import BaseModel

from schemas.row import arrow_schema


def frame_schema(row: type[BaseModel]) -> pl.Schema:
    """The polars schema of a row type."""
    frame = pl.from_arrow(arrow_schema(row).empty_table())
    assert isinstance(frame, pl.DataFrame)
    return frame.schema


def frame_of(row: type[BaseModel], rows: Iterable[BaseModel]) -> pl.DataFrame:
    """A frame of rows."""
    return pl.DataFrame([r.model_dump(mode="python") for r in rows], schema=frame_schema(row))
