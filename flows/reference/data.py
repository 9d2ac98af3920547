"""The page docs/reference-data.md: policy keys, settings, tables, released columns and reject reasons."""

from collections.abc import Iterator
from inspect import getdoc
from typing import Any

from flows.reference.fields import key_table, page_with, table
from flows.reference.policy_keys import compared_signals, policy_keys, shipped_policies
from flows.running.settings_file import section_of
from schemas.items.reject import REJECT_TEXTS
from schemas.row import arrow_schema, described_columns, inner_rows
from schemas.settings import Settings
from schemas.tables import TABLES
from tasks.release.registered import RELEASED_TABLES

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
        yield f"### {title}\n\n{_about(row)}\n\n{_columns(row)}"


def _columns(row: Any) -> str:
    return table(_COLUMNS, ((f"`{name}`", kind, meaning) for name, kind, meaning in described_columns(row)))


def _about(row: Any) -> str:
    return " ".join((getdoc(row) or "").split())
