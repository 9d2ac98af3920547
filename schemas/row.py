"""The base class of table rows, and the Arrow schema of a row type."""

import types
import typing
from datetime import date, datetime
from enum import StrEnum
from functools import cache
from typing import Annotated, Any

import pyarrow as pa
from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo


class Row(BaseModel):
    """One row of a declared table: frozen, no unknown keys, every field documented."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


# Types with an Arrow type that Python's own types do not express.
Int32 = Annotated[int, pa.int32()]
Float32 = Annotated[float, pa.float32()]
FloatVector = Annotated[list[float], pa.list_(pa.float32())]
"""float32 (dimension,). A list, because the dimension depends on the model."""

_SCALARS: dict[type, pa.DataType] = {
    str: pa.string(),
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    bytes: pa.binary(),
    date: pa.date32(),
    datetime: pa.timestamp("us", tz="UTC"),
}


def _arrow_type(annotation: Any, explicit: pa.DataType | None = None) -> pa.DataType:
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        inner, *marks = typing.get_args(annotation)
        found = next((mark for mark in marks if isinstance(mark, pa.DataType)), None)
        return found if found is not None else _arrow_type(inner, explicit)
    if explicit is not None:
        return explicit
    if origin in (typing.Union, types.UnionType):
        (inner,) = [a for a in typing.get_args(annotation) if a is not type(None)]
        return _arrow_type(inner)
    if origin is list or origin is tuple:
        return pa.list_(_arrow_type(typing.get_args(annotation)[0]))
    if origin is typing.Literal:
        return pa.string()
    if isinstance(annotation, type):
        if issubclass(annotation, StrEnum):
            return pa.string()
        if issubclass(annotation, BaseModel):
            return pa.struct(list(arrow_schema(annotation)))
        if annotation in _SCALARS:
            return _SCALARS[annotation]
    raise TypeError(f"no Arrow type is declared for {annotation!r}")


def _explicit(field: FieldInfo) -> pa.DataType | None:
    return next((mark for mark in field.metadata if isinstance(mark, pa.DataType)), None)


@cache
def arrow_schema(row: type[BaseModel]) -> pa.Schema:
    """The Arrow schema of a row type; each field's docstring becomes its `comment` metadata."""
    fields = [
        pa.field(
            name,
            _arrow_type(field.annotation, _explicit(field)),
            metadata={"comment": (field.description or "").strip()},
        )
        for name, field in row.model_fields.items()
    ]
    return pa.schema(fields)


def described_columns(row: type[BaseModel]) -> list[tuple[str, str, str]]:
    """(name, type, description) of every column, for the dataset card and the documentation.

    A struct's type is the name of its row, a list's `list of` its elements' type.
    """
    schema = arrow_schema(row)
    return [
        (
            name,
            _type_words(schema.field(name).type, _inner_row(field.annotation))
            + (" or null" if type(None) in typing.get_args(field.annotation) else ""),
            (field.description or "").strip(),
        )
        for name, field in row.model_fields.items()
    ]


def inner_rows(row: type[BaseModel]) -> list[type[BaseModel]]:
    """The row types nested in a row type, recursively, in order, without repeats."""
    found: dict[type[BaseModel], None] = {}
    for field in row.model_fields.values():
        if inner := _inner_row(field.annotation):
            found |= dict.fromkeys([inner, *inner_rows(inner)])
    return list(found)


def _type_words(kind: pa.DataType, inner: type[BaseModel] | None) -> str:
    if pa.types.is_list(kind):
        return f"list of {_type_words(kind.value_type, inner)}"
    return inner.__name__ if inner and pa.types.is_struct(kind) else str(kind)


def _inner_row(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_inner_row, typing.get_args(annotation))), None)
