"""The page of every key of a policy file, docs/policies.md: `python -m tasks.policy.reference` prints it."""

import sys
from collections.abc import Iterable
from enum import StrEnum
from inspect import getdoc, isclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin

from pydantic_core import PydanticUndefined

from schemas import policy
from schemas.row import Row
from schemas.tables import SIGNALS
from tasks.policy import SHIPPED
from tasks.policy.policy_file import load_policy
from tasks.policy.rules import BATTLE_COLUMNS, CONVERSATION_COLUMNS, DESCRIBED_ON, MEASURED_ON, stated_types
from tasks.storage.tables import frame_schema

INTRODUCTION = Path(__file__).with_name("reference.md")


def reference() -> str:
    """The page in Markdown."""
    rows: list[type[Row]] = [policy.Policy, policy.Extension, *_parts()]
    keys = "\n\n".join(map(_section, rows))
    page = INTRODUCTION.read_text(encoding="utf-8").replace("SHIPPED", _shipped())
    return page.replace("KEYS", keys).replace("SIGNALS", _signals())


def _parts() -> list[type[Row]]:
    """The rows that keys of a policy hold, in the order of the keys."""
    fields = policy.Policy.model_fields.values()
    return [row for field in fields for row in _classes(field.annotation) if isclass(row) and issubclass(row, Row)]


def _shipped() -> str:
    lines = ["| policy | for | `publishable` |", "|---|---|---|"]
    for each in map(load_policy, SHIPPED):
        lines.append(f"| `{each.name}` | {each.about} | {'yes' if each.publishable else 'no'} |")
    return "\n".join(lines)


def _section(row: type[Row]) -> str:
    title = {policy.Policy: "The file", policy.Rule: "`rules`"}.get(row) or _title(row)
    lines = [f"### {title}", "", getdoc(row) or "", "", "| key | value | default | meaning |", "|---|---|---|---|"]
    for name, field in row.model_fields.items():
        meaning = " ".join((field.description or "").split())
        lines.append(f"| `{name}` | {_kind(field.annotation)} | {_default(field.get_default())} | {meaning} |")
    return "\n".join(lines)


def _title(row: type[Row]) -> str:
    keys = [name for name, field in policy.Policy.model_fields.items() if row in _classes(field.annotation)]
    return f"`{keys[0]}`" if keys else "A file that extends another policy"


def _classes(annotation: Any) -> list[Any]:
    inner = [found for each in get_args(annotation) for found in _classes(each)]
    return inner or [annotation]


def _kind(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return ", ".join(str(each) for each in get_args(annotation))
    if isclass(annotation) and issubclass(annotation, StrEnum):
        return ", ".join(each.value for each in annotation)
    if get_origin(annotation) is list:
        return f"list of {_kind(get_args(annotation)[0])}"
    if isinstance(annotation, UnionType) or get_args(annotation):
        return " or ".join(_kind(each) for each in get_args(annotation))
    names = {str: "text", bool: "true or false", int: "whole number", float: "number", NoneType: "null"}
    return names.get(annotation, "time" if annotation.__name__ == "datetime" else "keys below")


def _default(value: Any) -> str:
    if value is PydanticUndefined:
        return "required"
    if isinstance(value, Row):
        return "as below"
    if isinstance(value, list) or value == "":
        return "empty"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _signals() -> str:
    lines = ["| signal | type | over | pass |", "|---|---|---|---|"]
    for table, columns in (("conversation", CONVERSATION_COLUMNS), ("battle", BATTLE_COLUMNS)):
        lines += _columns(table, {name: stated_types()[table][name] for name in columns}.items(), (table,), "first")
    for on, number in ((MEASURED_ON, "first"), (DESCRIBED_ON, "second")):
        for signal, parts in on.items():
            lines += _columns(signal, frame_schema(SIGNALS[signal]).items(), parts, number)
    return "\n".join(lines)


def _columns(table: str, columns: Iterable[tuple[str, Any]], parts: Iterable[str], number: str) -> list[str]:
    kinds = ((name, _compared(dtype)) for name, dtype in columns)
    return [f"| `{table}.{name}` | {kind} | {', '.join(parts)} | {number} |" for name, kind in kinds if kind]


def _compared(dtype: Any) -> str:
    """Comparisons that fit a column, in words; empty for one that rules cannot compare."""
    if dtype.is_numeric():
        return "number"
    return {"Boolean": "true or false", "String": "text", "List(String)": "list"}.get(str(dtype), "")


if __name__ == "__main__":
    sys.stdout.write(reference())
