"""Fields of rows in Markdown: the type, default and docstring of each."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from inspect import isclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from schemas.row import Row

_NAMES: dict[Any, str] = {
    str: "text", bool: "true or false", int: "whole number", float: "number", NoneType: "null", Any: "anything",
}  # fmt: skip


def page_with(page: str, parts: Mapping[str, str]) -> str:
    """The text of a page around its generated parts, with the parts in it."""
    text = Path(__file__).with_name(page).read_text(encoding="utf-8")
    for name, part in parts.items():
        text = text.replace(f"{{{name}}}", part)
    return text


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    cells = ([" ".join(cell.split()).replace("|", r"\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(each)} |" for each in cells)


def key_table(row: type[Row]) -> str:
    """A line for each field of a row: name, type, default, docstring."""
    return table(("key", "value", "default", "meaning"), map(_key_line, row.model_fields, row.model_fields.values()))


def _key_line(name: str, field: FieldInfo) -> Sequence[str]:
    return f"`{name}`", kind(field.annotation), default(field), field.description or ""


def kind(annotation: Any) -> str:
    """A type in words."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ", ".join(map(str, inner))
    if isclass(annotation) and issubclass(annotation, StrEnum):
        return ", ".join(each.value for each in annotation)
    if origin in (list, Annotated):
        return f"list of {kind(inner[0])}" if origin is list else kind(inner[0])
    if origin is dict:
        return "NAME: VALUE pairs"
    if isinstance(annotation, UnionType) or inner:
        return " or ".join(map(kind, inner))
    return _NAMES.get(annotation, annotation.__name__ if annotation.__module__ == "datetime" else "keys below")


def default(field: FieldInfo) -> str:
    """The default of a field in words."""
    value = field.get_default()
    if value is PydanticUndefined or field.default_factory:
        return "required" if field.is_required() else "by this machine"
    if isinstance(value, Row):
        return "as below"
    if value in ([], {}, ""):
        return "empty"
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def classes(annotation: Any) -> Iterator[Any]:
    """The classes that an annotation is made of."""
    inner = get_args(annotation)
    for each in inner:
        yield from classes(each)
    if not inner:
        yield annotation
