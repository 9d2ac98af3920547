"""The generated pages: docs/reference-commands.md, docs/reference-data.md and benchmarks/README.md.

Commands have options, exit statuses and environment variables; data are keys, tables, released columns and rejects.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from inspect import getdoc, isclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from typer.main import get_command

from flows.commands import command_line
from flows.running.settings_file import section_of
from schemas.items.reject import REJECT_TEXTS
from schemas.policy import Extension, Policy, Rule
from schemas.row import Row, arrow_schema, described_columns, field_descriptions, inner_rows
from schemas.settings import Settings
from schemas.tables import SIGNALS, TABLES
from schemas.tags import TAGS
from tasks.policy import SHIPPED_POLICIES
from tasks.policy.policy_file import load_policy
from tasks.policy.rules import BATTLE_COLUMNS, CONVERSATION_COLUMNS, DESCRIBED_ON, MEASURED_ON, stated_types
from tasks.providers.embedded_figures import FIGURES, stated, tag_answers
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
        "TABLES": table(
            ("table", "one row is", "columns"),
            (
                (f"`{name}`", _about(declaration.row), ", ".join(arrow_schema(declaration.row).names))
                for name, declaration in TABLES.items()
            ),
        ),
        "RELEASED": "\n\n".join(_released()),
        "REJECTS": table(
            ("reason", "the line or image is"), ((f"`{reason}`", text) for reason, text in REJECT_TEXTS.items())
        ),
    }
    return page_with("data.md", parts)


def _settings() -> Iterator[str]:
    yield key_table(Settings)
    for name, field in Settings.model_fields.items():
        if section := section_of(field):
            yield f"### `{name}`\n\n{key_table(section)}"


def _released() -> Iterator[str]:
    """A section for each released table, and one for each row inside of them, once."""
    released = [released_table.row for released_table in RELEASED_TABLES.values()]
    inside = dict.fromkeys(inner for row in released for inner in inner_rows(row))
    titles = [*(f"`{name}`" for name in RELEASED_TABLES), *(row.__name__ for row in inside)]
    for title, row in zip(titles, [*released, *inside], strict=True):
        columns = ((f"`{name}`", kind, meaning) for name, kind, meaning in described_columns(row))
        yield f"### {title}\n\n{_about(row)}\n\n{table(_COLUMNS, columns)}"


def _about(row: Any) -> str:
    return " ".join((getdoc(row) or "").split())


def shipped_policies() -> str:
    """A line for each policy that ships."""
    rows = (
        (f"`{policy.name}`", policy.about, "yes" if policy.publishable else "no")
        for policy in map(load_policy, SHIPPED_POLICIES)
    )
    return table(("policy", "for", "`publishable`"), rows)


def policy_keys() -> str:
    """A section for the file, for a file that extends another, and for each row that a key holds, in their order."""
    fields = Policy.model_fields.values()
    rows: list[type[Row]] = [Policy, Extension]
    # The rows inside of a key's type, such as those of a list; other classes have no section.
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
        lines += _signal_lines(name, ((column, stated_types()[name][column]) for column in columns), (name,), "first")
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


EARLIER = (
    ("categories", "homework", "precision", "0.15, 161 prompts of logs; the card said 0.929"),
    ("categories", "homework", "recall", "0.62, 161 prompts of logs; the card said 0.929"),
    ("categories", "diagram", "precision", "0.65, 161 prompts of logs; the card said 0.96"),
    ("categories", "diagram", "recall", "0.82, 161 prompts of logs; the card said 0.95"),
    ("categories", "captioning", "precision", "0.71, 161 prompts of logs; the card said 0.95"),
    ("categories", "captioning", "recall", "0.83, 161 prompts of logs; the card said 0.90"),
    ("categories", "creative_writing", "precision", "0.80, 161 prompts of logs; the card said 0.86"),
    ("categories", "creative_writing", "recall", "0.44, 161 prompts of logs; the card said 1.00"),
    ("categories", "humor", "precision", "0.91, 161 prompts of logs; the card said 1.00"),
    ("categories", "humor", "recall", "0.50, 161 prompts of logs; the card said 0.75"),
    ("categories", "ocr", "precision", "0.96, 161 prompts of logs; the card said 0.98"),
    ("categories", "ocr", "recall", "0.88, 161 prompts of logs; the card said 0.97"),
    (
        "categories",
        "entity_recognition",
        "precision",
        "0.92, 161 prompts of logs; 12 of 46 in the demo; the card said 0.80",
    ),
    ("categories", "entity_recognition", "recall", "0.86, 161 prompts of logs"),
    ("refusal", "", "recall on full refusals", "697 of 983, XSTest's answers of five models; the card said 0.940"),
    ("refusal", "", "false alarms on full compliance", "0.030 of 1,091, XSTest's answers of five models"),
    ("text_pii", "secret", "recall", "257 of 259, gitleaks' literals"),
    ("text_pii", "secret", "false alarms on lookalikes", "64 of 291 at most, gitleaks' literals"),
)
"""Capability, label, measure, and what others measured of it at commit 0344b21c, before the rules were made anew."""


def _before_and_after() -> Iterator[tuple[str, ...]]:
    """Rows of earlier figures, each with the present ones of the same share."""
    for model, label, measure, earlier in EARLIER:
        present = [
            figure for figure in FIGURES.figures if (figure.of, figure.label, figure.measure) == (model, label, measure)
        ]
        shares = [f"{figure.value:.3f} of {figure.n:,} ({figure.material})" for figure in present]
        yield f"`{model}`", f"{label}: {measure}".removeprefix(": "), earlier, "; ".join(shares) or "no yes is said"


def measured_figures() -> str:
    """The page in Markdown."""
    rows = [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]
    beside = [row for row in rows if "ratio" in row]
    others = [row for row in rows if "ratio" not in row]
    parts = {
        "PEERS": table(("benchmark", "n", "ours, s", "peer", "peer, s", "ratio"), map(_beside, beside)),
        "OTHERS": table(("benchmark", "n", "figures"), ((r["bench"], f"{r['n']:,}", _rest(r)) for r in others)),
        "TAGS": table(("tag", "says"), ((f"`{tag}`", tag_answers(tag)) for tag in TAGS)),
        "MATERIALS": table(
            ("material", "what it is", "who labelled it", "a rule was made with it", "command"),
            (
                (
                    name,
                    material.about,
                    material.labelled_by,
                    "yes" if material.made_with else "no",
                    f"`{material.command}`",
                )
                for name, material in FIGURES.materials.items()
            ),
        ),
        "EARLIER": table(("model", "share", "before", "now"), _before_and_after()),
        "FOUND": table(
            ("model", "share", "on material that its rule was made with", "on material that it was not made with"),
            (
                (f"`{name}`", *line.model_dump().values())
                for name in dict.fromkeys((*(figure.of for figure in FIGURES.figures), *FIGURES.notes))
                for line in stated(name)
            ),
        ),
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
        return "(" + ", ".join(f"{name} {_short(part)}" for name, part in value.items()) + ")"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


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
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def key_table(row: type[Row]) -> str:
    """A line for each field of a row: name, type, default, docstring."""
    descriptions = field_descriptions(row)
    lines = (
        (f"`{name}`", kind(field.annotation), default(field), descriptions.get(name, ""))
        for name, field in row.model_fields.items()
    )
    return table(("key", "value", "default", "meaning"), lines)


def kind(annotation: Any) -> str:
    """A type in words."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ", ".join(map(str, inner))
    if isclass(annotation) and issubclass(annotation, StrEnum):
        return ", ".join(member.value for member in annotation)
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
    for part in inner:
        yield from classes(part)
    if not inner:
        yield annotation


COMMON_FROM = 4
"""An option that so many commands have with one meaning is described once."""
ENVIRONMENT = Path(__file__).parents[2] / ".env.example"
VARIABLE = re.compile(r"^#?([A-Z][A-Z0-9_]+)=(\S*)\s+# (.*)$", re.MULTILINE)
"""A line of `.env.example`: name, default or example, meaning."""
_OPTION = ("option", "value", "default", "meaning")


def commands(command: Any = None, path: tuple[str, ...] = ()) -> dict[str, Any]:
    """Words of every command -> the command."""
    command = command or get_command(command_line())
    inner = getattr(command, "commands", {})
    command_of_words = {} if inner else {" ".join(path): command}
    for name, subcommand in inner.items():
        command_of_words |= commands(subcommand, (*path, name))
    return command_of_words


def reference_commands() -> str:
    """The page in Markdown."""
    command_of_words = commands()
    line_counts = Counter(_line(option) for command in command_of_words.values() for option in command.params)
    often = {line[0]: line for line, times in reversed(line_counts.most_common()) if times >= COMMON_FROM}
    common = set(often.values())
    parts = {
        "COMMON": table(_OPTION, sorted(common)),
        "COMMANDS": "\n\n".join(_section(name, subcommand, common) for name, subcommand in command_of_words.items()),
        "ENVIRONMENT": table(("variable", "value", "meaning"), environment()),
    }
    return page_with("commands.md", parts)


def environment() -> list[tuple[str, str, str]]:
    """(name, default or example, meaning) of each variable of `.env.example`."""
    variables = VARIABLE.findall(ENVIRONMENT.read_text(encoding="utf-8"))
    return [(f"`{name}`", value and f"`{value}`", meaning) for name, value, meaning in variables]


def _section(name: str, command: Any, common: set[tuple[str, ...]]) -> str:
    lines = [_line(option) for option in command.params]
    rare = [line for line in lines if line not in common]
    shared = ", ".join(line[0] for line in lines if line in common)
    text = " ".join((command.help or "").split())
    parts = [f"### `curate {name}`", text, table(_OPTION, rare) if rare else "", f"Also {shared}." if shared else ""]
    return "\n\n".join(filter(None, parts))


def _line(option: Any) -> tuple[str, ...]:
    kind, default_value = option.type_descriptor, option.default
    if isinstance(option.show_default, str):
        default_value = option.show_default
    choices = ", ".join(map(str, kind.choices or ()))
    stated = "" if option.metavar in ("TEXT", "N") else option.metavar
    value = stated or choices or getattr(kind.annotation, "__name__", str(kind.annotation))
    limits = (
        f", {option.min} to {option.max}".replace("None", "any") if (option.min, option.max) != (None, None) else ""
    )
    words = {"bool": "", "str": "text", "Path": "path", "int": "whole number", "float": "number", "list": "text"}
    default = (
        "required" if option.required else "" if default_value is None or default_value is False else str(default_value)
    )
    name = "/".join((*option.opts, *option.secondary_opts))
    named = f"`{name}`" if name.startswith("-") else f"`{(option.metavar or name).upper()}`"
    return named, words.get(value, value) + limits, default, " ".join((option.help or "").split())
