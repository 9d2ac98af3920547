"""Lists every command with its options: `python -m tests.flows.listed_commands >tests/flows/commands.txt`."""

import sys
from collections.abc import Iterator
from typing import Any

from flows.reference.commands import commands


def lines() -> Iterator[str]:
    """What `--help` says: heading and text of each command; names, type, default and text of each parameter."""
    for name, command in commands().items():
        heading = getattr(command, "rich_help_panel", None)
        yield f"curate {name} [{heading if isinstance(heading, str) else ''}] {' '.join((command.help or '').split())}"
        for each in command.params:
            yield " ".join(_parts(each))


def _parts(option: Any) -> list[str]:
    kind, shown = option.type_descriptor, option.default
    if isinstance(option.show_default, str):
        shown = option.show_default
    known = "|".join(map(str, kind.choices or ())) or getattr(kind.annotation, "__name__", str(kind.annotation))
    limits = "" if (option.min, option.max) == (None, None) else f"{option.min} to {option.max}"
    default = "" if shown is None or shown is False else f"({shown})"
    first = ("   ", "/".join((*option.opts, *option.secondary_opts)), option.metavar or known, limits)
    rest = ("repeatable" * option.multiple, "required" * option.required or default)
    return [*filter(None, (*first, *rest)), ":", " ".join((option.help or "").split())]


if __name__ == "__main__":
    sys.stdout.write("".join(f"{line}\n" for line in lines()))
