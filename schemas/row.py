"""The base class of rows, the Arrow schema of a row type, and how a table is declared: its order, whose ids."""

import ast
import inspect
import sys
import types
import typing
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from functools import cache
from itertools import pairwise
from typing import Annotated, Any

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema


class Row(BaseModel):
    """One row of a declared table: frozen, no unknown keys, every field documented."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """The JSON schema with the fields' docstrings, which the form of a deployment shows."""
        json_schema = handler(core_schema)
        properties = handler.resolve_ref_schema(json_schema).get("properties", {})
        for name, description in field_descriptions(cls).items():
            properties.get(cls.model_fields[name].alias or name, {}).setdefault("description", description)
        return json_schema


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
        marked_type = next((mark for mark in marks if isinstance(mark, pa.DataType)), None)
        return marked_type if marked_type is not None else _arrow_type(inner, explicit)
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


@cache
def _docstrings_in(module: str) -> dict[str, dict[str, str]]:
    """Class -> field -> the docstring below it, of all classes in the source of a module."""
    docstrings: dict[str, dict[str, str]] = {}
    for node in ast.walk(ast.parse(inspect.getsource(sys.modules[module]))):
        if isinstance(node, ast.ClassDef):
            fields = docstrings.setdefault(node.name, {})
            for field_line, line_after in pairwise(node.body):
                match field_line, line_after:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                        fields[name] = inspect.cleandoc(text)
    return docstrings


@cache
def field_descriptions(row: type[BaseModel]) -> dict[str, str]:
    """Field -> its docstring, also of inherited fields; without the fields that have none.

    Read from the source when somebody asks: pydantic reads them as each class is made, which took a fifth of the time
    in which `curate --help` starts. A class that the program made, or one without source, adds none.
    """
    descriptions: dict[str, str] = {}
    for base in reversed(row.__mro__):
        if issubclass(base, Row):
            with suppress(OSError, TypeError):  # there is no source
                descriptions |= _docstrings_in(base.__module__).get(base.__name__, {})
    return {name: descriptions[name] for name in row.model_fields if name in descriptions}


@cache
def arrow_schema(row: type[BaseModel]) -> pa.Schema:
    """The Arrow schema of a row type; each field's docstring becomes its `comment` metadata."""
    fields, descriptions = [], field_descriptions(row)
    for name, info in row.model_fields.items():
        explicit = next((mark for mark in info.metadata if isinstance(mark, pa.DataType)), None)
        comment = {"comment": descriptions.get(name, "")}
        fields.append(pa.field(name, _arrow_type(info.annotation, explicit), metadata=comment))
    return pa.schema(fields)


def described_columns(row: type[BaseModel]) -> list[tuple[str, str, str]]:
    """(name, type, description) of every column, for the dataset card and the documentation.

    A struct's type is the name of its row, a list's `list of` its elements' type.
    """
    schema, descriptions = arrow_schema(row), field_descriptions(row)
    return [
        (
            name,
            _type_words(schema.field(name).type, _inner_row(field.annotation))
            + (" or null" if type(None) in typing.get_args(field.annotation) else ""),
            descriptions.get(name, ""),
        )
        for name, field in row.model_fields.items()
    ]


def inner_rows(row: type[BaseModel]) -> list[type[BaseModel]]:
    """The row types nested in a row type, recursively, in order, without repeats."""
    row_types: dict[type[BaseModel], None] = {}
    for column in row.model_fields.values():
        if inner := _inner_row(column.annotation):
            row_types |= dict.fromkeys([inner, *inner_rows(inner)])
    return list(row_types)


def _type_words(kind: pa.DataType, inner: type[BaseModel] | None) -> str:
    if pa.types.is_list(kind):
        return f"list of {_type_words(kind.value_type, inner)}"
    return inner.__name__ if inner and pa.types.is_struct(kind) else str(kind)


def _inner_row(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_inner_row, typing.get_args(annotation))), None)


class Held(StrEnum):
    """Kind of thing that an id column names; a list column holds several of the kind."""

    CONVERSATION = "conversation"
    """A conversation, a battle by its left side, or an item of a benchmark."""
    CONTENT = "content"
    """Content id of a text, prompt, document or image."""
    IMAGE = "image"
    """Content id of an image."""
    IMAGE_NAME = "image name"
    """Name of an image file, as logged or with an extension."""
    USER = "user"
    """Keyed hash of a user or voter."""
    LINE = "line"
    """conv_id of a raw log line."""
    PLACE = "place"
    """A log file, or for a reject without a line an image file."""
    WITHHELD = "withheld"
    """conv_id or image name that is quarantined."""


BY_NAME = {
    **dict.fromkeys(("conversation_id", "conversation_a", "conversation_b", "battle_id"), Held.CONVERSATION),
    **dict.fromkeys(("item_id", "question_id"), Held.CONVERSATION),
    **dict.fromkeys(("image_id", "image_ids", "image_a", "image_b", "source_image_id"), Held.IMAGE),
    **dict.fromkeys(("content_id", "document_id", "document_ids"), Held.CONTENT),
    "conv_id": Held.LINE,
    "user_id": Held.USER,
}
"""Name of a column -> what it names as a rule."""


@dataclass(frozen=True)
class Table:
    """A table. Raises TypeError for an id column that is neither in `holds` nor in `mentions`."""

    row: type[BaseModel]
    sort: tuple[str, ...]
    """Columns by which rows are sorted."""
    holds: Mapping[str, Held]
    """Column -> what it names. A row is removed with what it names, and when the store holds that no longer."""
    mentions: Mapping[str, Held] = field(default_factory=dict)
    """Columns whose ids the store need not hold, such as a prompt of another store or a document as it was. A row is
    removed when what it names is taken down or purged, not because the store does not hold it."""
    derived: bool = False
    """Whether a run makes the whole table again from others."""
    grown: bool = False
    """Whether older parts may lack later columns, which are then null."""
    later: tuple[str, ...] = ()
    """The only columns that older parts may lack where the table has not `grown`; null means as before they came."""
    compression: str = "zstd"
    """Parquet codec; lz4 for tables that are written once and read once."""

    def __post_init__(self) -> None:
        columns, declared = self.row.model_fields.keys(), {*self.holds, *self.mentions}
        if unknown := declared - columns:
            raise TypeError(f"{self.row.__name__} has no column {', '.join(sorted(unknown))}")
        if missing := (columns & BY_NAME.keys()) - declared:
            raise TypeError(
                f"{self.row.__name__}: say in `holds` or `mentions` what {', '.join(sorted(missing))} names"
            )

    def named(self, *kinds: Held) -> list[str]:
        """Columns that name one of these kinds."""
        return [column for column, kind in {**self.holds, **self.mentions}.items() if kind in kinds]
