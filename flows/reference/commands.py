"""The page docs/reference-commands.md: every command with its options, exit statuses and environment variables."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

from typer.main import get_command

from flows.commands import command_line
from flows.reference.fields import page_with, table

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
    found = {} if inner else {" ".join(path): command}
    for name, each in inner.items():
        found |= commands(each, (*path, name))
    return found


def reference_commands() -> str:
    """The page in Markdown."""
    known = commands()
    said = Counter(_line(option) for command in known.values() for option in command.params)
    often = {line[0]: line for line, times in reversed(said.most_common()) if times >= COMMON_FROM}
    common = set(often.values())
    parts = {
        "COMMON": table(_OPTION, sorted(common)),
        "COMMANDS": "\n\n".join(_section(name, each, common) for name, each in known.items()),
        "ENVIRONMENT": table(("variable", "value", "meaning"), environment()),
    }
    return page_with("commands.md", parts)


def environment() -> list[tuple[str, str, str]]:
    """(name, default or example, meaning) of each variable of `.env.example`."""
    found = VARIABLE.findall(ENVIRONMENT.read_text(encoding="utf-8"))
    return [(f"`{name}`", value and f"`{value}`", meaning) for name, value, meaning in found]


def _section(name: str, command: Any, common: set[tuple[str, ...]]) -> str:
    lines = [_line(each) for each in command.params]
    own = [line for line in lines if line not in common]
    shared = ", ".join(line[0] for line in lines if line in common)
    text = " ".join((command.help or "").split())
    parts = [f"### `curate {name}`", text, table(_OPTION, own) if own else "", f"Also {shared}." if shared else ""]
    return "\n\n".join(filter(None, parts))


def _line(option: Any) -> tuple[str, ...]:
    kind, shown = option.type_descriptor, option.default
    if isinstance(option.show_default, str):
        shown = option.show_default
    known = ", ".join(map(str, kind.choices or ()))
    stated = "" if option.metavar in ("TEXT", "N") else option.metavar
    value = stated or known or getattr(kind.annotation, "__name__", str(kind.annotation))
    limits = (
        f", {option.min} to {option.max}".replace("None", "any") if (option.min, option.max) != (None, None) else ""
    )
    words = {"bool": "", "str": "text", "Path": "path", "int": "whole number", "float": "number", "list": "text"}
    default = "required" if option.required else "" if shown is None or shown is False else str(shown)
    name = "/".join((*option.opts, *option.secondary_opts))
    named = f"`{name}`" if name.startswith("-") else f"`{(option.metavar or name).upper()}`"
    return named, words.get(value, value) + limits, default, " ".join((option.help or "").split())
