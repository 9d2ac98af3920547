"""The pages of data: docs/reference-data.md (keys, tables, released columns, rejects), and benchmarks/README.md."""

import json
from collections.abc import Iterable, Iterator
from inspect import getdoc, isclass
from pathlib import Path
from typing import Any

from flows.reference.fields import classes, key_table, page_with, table
from flows.running.settings_file import section_of
from schemas.items.reject import REJECT_TEXTS
from schemas.policy import Extension, Policy, Rule
from schemas.row import Row, arrow_schema, described_columns, inner_rows
from schemas.settings import Settings
from schemas.tables import SIGNALS, TABLES
from tasks.policy import SHIPPED
from tasks.policy.policy_file import load_policy
from tasks.policy.rules import BATTLE_COLUMNS, CONVERSATION_COLUMNS, DESCRIBED_ON, MEASURED_ON, stated_types
from tasks.providers import EMBEDDED_RECALL
from tasks.release.registered import RELEASED_TABLES
from tasks.storage.tables import frame_schema

_COLUMNS = ("column", "type", "meaning")


def reference_data() -> str:
    """The page in Markdown."""
    parts = {
        "SHIPPED": shipped_policies(),
        "KEYS": policy_keys(),
        "COMPARED": compared_signals(),
        "SETTINGS": "\n\n".join(_settings()),
        "TABLES": table(("table", "one row is", "columns"), map(_table_line, TABLES)),
        "RELEASED": "\n\n".join(_released()),
        "REJECTS": table(
            ("reason", "the line or image is"), ((f"`{each}`", text) for each, text in REJECT_TEXTS.items())
        ),
    }
    return page_with("data.md", parts)


def _settings() -> Iterator[str]:
    yield key_table(Settings)
    for name, field in Settings.model_fields.items():
        if section := section_of(field):
            yield f"### `{name}`\n\n{key_table(section)}"


def _table_line(name: str) -> tuple[str, str, str]:
    row = TABLES[name].row
    return f"`{name}`", _about(row), ", ".join(arrow_schema(row).names)


def _released() -> Iterator[str]:
    """A section for each released table, and one for each row inside of them, once."""
    released = [each.row for each in RELEASED_TABLES.values()]
    inside = dict.fromkeys(inner for row in released for inner in inner_rows(row))
    titles = [*(f"`{name}`" for name in RELEASED_TABLES), *(row.__name__ for row in inside)]
    for title, row in zip(titles, [*released, *inside], strict=True):
        columns = ((f"`{name}`", kind, meaning) for name, kind, meaning in described_columns(row))
        yield f"### {title}\n\n{_about(row)}\n\n{table(_COLUMNS, columns)}"


def _about(row: Any) -> str:
    return " ".join((getdoc(row) or "").split())


def shipped_policies() -> str:
    """A line for each policy that ships."""
    rows = ((f"`{each.name}`", each.about, "yes" if each.publishable else "no") for each in map(load_policy, SHIPPED))
    return table(("policy", "for", "`publishable`"), rows)


def policy_keys() -> str:
    """A section for the file, for a file that extends another, and for each row that a key holds, in their order."""
    fields = Policy.model_fields.values()
    rows: list[type[Row]] = [Policy, Extension]
    rows += [row for field in fields for row in classes(field.annotation) if isclass(row) and issubclass(row, Row)]
    return "\n\n".join(f"### {_policy_title(row)}\n\n{getdoc(row)}\n\n{key_table(row)}" for row in rows)


def _policy_title(row: type[Row]) -> str:
    keys = [name for name, field in Policy.model_fields.items() if row in classes(field.annotation)]
    titles = {Policy: "A policy file", Extension: "A file that extends another policy", Rule: "`rules`"}
    return titles.get(row) or f"`{keys[0]}`"


def compared_signals() -> str:
    """A line for each signal that rules may compare."""
    lines: list[tuple[str, str, str, str]] = []
    for name, columns in (("conversation", CONVERSATION_COLUMNS), ("battle", BATTLE_COLUMNS)):
        lines += _signal_lines(name, ((each, stated_types()[name][each]) for each in columns), (name,), "first")
    for on, number in ((MEASURED_ON, "first"), (DESCRIBED_ON, "second")):
        for signal, parts in on.items():
            lines += _signal_lines(signal, frame_schema(SIGNALS[signal]).items(), parts, number)
    return table(("signal", "type", "over", "pass"), lines)


def _signal_lines(
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


RESULTS = Path(__file__).parents[2] / "benchmarks" / "results.jsonl"


def measured_figures() -> str:
    """The page in Markdown."""
    rows = [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]
    beside = [row for row in rows if "ratio" in row]
    others = [row for row in rows if "ratio" not in row]
    parts = {
        "PEERS": table(("benchmark", "n", "ours, s", "peer", "peer, s", "ratio"), map(_beside, beside)),
        "OTHERS": table(("benchmark", "n", "figures"), ((r["bench"], f"{r['n']:,}", _rest(r)) for r in others)),
        "RECALL": table(("capability", "measured"), ((f"`{name}`", line) for name, line in EMBEDDED_RECALL.items())),
    }
    return page_with("figures.md", parts)


def _beside(row: dict[str, Any]) -> tuple[str, ...]:
    seconds = (f"{row[name]:.3g}" if row[name] < 1000 else f"{row[name]:,.0f}" for name in ("ours_s", "peer_s"))
    ours, theirs = seconds
    return row["bench"], f"{row['n']:,}", ours, row["peer"], theirs, f"{row['ratio']:.3g}"


def _rest(row: dict[str, Any]) -> str:
    return ", ".join(f"{name} {_short(value)}" for name, value in row.items() if name not in ("bench", "n", "peer"))


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return "(" + ", ".join(f"{name} {_short(each)}" for name, each in value.items()) + ")"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
