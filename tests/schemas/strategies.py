"""Hypothesis strategies for rows of any declared type."""

import types
import typing
from datetime import UTC, date, datetime
from enum import StrEnum

import pyarrow as pa
from hypothesis import strategies as st
from pydantic import BaseModel

_SCALARS = {
    str: st.text(max_size=8), bool: st.booleans(), int: st.integers(-(2**63), 2**63 - 1),
    float: st.floats(allow_nan=False), bytes: st.binary(max_size=8), date: st.dates(),
    datetime: st.datetimes(timezones=st.just(UTC)),
}  # fmt: skip
_MARKED = {
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.float32(): st.floats(allow_nan=False, width=32),
    pa.list_(pa.float32()): st.lists(st.floats(allow_nan=False, width=32), max_size=3),
}


def rows(row: type[BaseModel]) -> st.SearchStrategy[BaseModel]:
    """Any row of a declared type."""
    return st.builds(
        row, **{name: _values(field.annotation, field.metadata) for name, field in row.model_fields.items()}
    )


def _values(annotation, marks=()) -> st.SearchStrategy:
    marked = next((mark for mark in marks if isinstance(mark, pa.DataType)), None)
    if marked is not None:
        return _MARKED[marked]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _values(arguments[0], arguments[1:])
    if origin in (typing.Union, types.UnionType):
        return st.one_of(st.none(), *(_values(each) for each in arguments if each is not type(None)))
    if origin is list:
        return st.lists(_values(arguments[0]), max_size=3)
    if issubclass(annotation, StrEnum):
        return st.sampled_from(annotation)
    return rows(annotation) if issubclass(annotation, BaseModel) else _SCALARS[annotation]
