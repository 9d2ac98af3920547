"""Keys of a policy file, the policies that ship, and the signals that rules may compare, in Markdown."""

from collections.abc import Iterable, Iterator
from inspect import getdoc, isclass
from typing import Any

from flows.reference.fields import classes, key_table, table
from schemas.policy import Extension, Policy, Rule
from schemas.row import Row
from schemas.tables import SIGNALS
from tasks.policy import SHIPPED
from tasks.policy.policy_file import load_policy
from tasks.policy.rules import BATTLE_COLUMNS, CONVERSATION_COLUMNS, DESCRIBED_ON, MEASURED_ON, stated_types
from tasks.storage.tables import frame_schema


def shipped_policies() -> str:
    """A line for each policy that ships."""
    rows = ((f"`{each.name}`", each.about, "yes" if each.publishable else "no") for each in map(load_policy, SHIPPED))
    return table(("policy", "for", "`publishable`"), rows)


def policy_keys() -> str:
    """A section for the file, for a file that extends another, and for each row that a key holds, in their order."""
    fields = Policy.model_fields.values()
    rows: list[type[Row]] = [Policy, Extension]
    rows += [row for field in fields for row in classes(field.annotation) if isclass(row) and issubclass(row, Row)]
    return "\n\n".join(f"### {_title(row)}\n\n{getdoc(row)}\n\n{key_table(row)}" for row in rows)


def _title(row: type[Row]) -> str:
    keys = [name for name, field in Policy.model_fields.items() if row in classes(field.annotation)]
    titles = {Policy: "A policy file", Extension: "A file that extends another policy", Rule: "`rules`"}
    return titles.get(row) or f"`{keys[0]}`"


def compared_signals() -> str:
    """A line for each signal that rules may compare."""
    lines: list[tuple[str, str, str, str]] = []
    for name, columns in (("conversation", CONVERSATION_COLUMNS), ("battle", BATTLE_COLUMNS)):
        lines += _columns(name, ((each, stated_types()[name][each]) for each in columns), (name,), "first")
    for on, number in ((MEASURED_ON, "first"), (DESCRIBED_ON, "second")):
        for signal, parts in on.items():
            lines += _columns(signal, frame_schema(SIGNALS[signal]).items(), parts, number)
    return table(("signal", "type", "over", "pass"), lines)


def _columns(
    name: str, columns: Iterable[tuple[str, Any]], parts: Iterable[str], number: str
) -> Iterator[tuple[str, str, str, str]]:
    for column, dtype in columns:
        if compared := _compared(dtype):
            yield f"`{name}.{column}`", compared, ", ".join(parts), number


def _compared(dtype: Any) -> str:
    """Comparisons that fit a column, in words; empty for one that rules cannot compare."""
    if dtype.is_numeric():
        return "number"
    return {"Boolean": "true or false", "String": "text", "List(String)": "list"}.get(str(dtype), "")
