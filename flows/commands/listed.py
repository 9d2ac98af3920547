"""Commands and groups of commands in the order of the help, and the places of those that products add."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import typer


class CommandGroup(NamedTuple):
    """A group of commands, such as `curate bench`."""

    name: str
    about: str
    """Sentences of its help."""
    commands: list["HelpLine"]


HelpLine = Callable[..., Any] | CommandGroup
"""A line of the help."""


class Added(NamedTuple):
    """A command or a group that a product adds."""

    listed: HelpLine
    to: str
    """Heading of the help of `curate`, or name of a group."""
    before: str = ""
    """Name of the command or group that it stands before; it is the last where there is none of this name."""


def typed_name(listed: HelpLine) -> str:
    """Name that users type; `in_` and `serve_pages` are the commands `in` and `serve`."""
    return listed.name if isinstance(listed, CommandGroup) else str(listed.__name__.partition("_")[0])


def put(headings: Mapping[str, list[HelpLine]], added: Added) -> None:
    """Put what a product adds to its place."""
    # A group of commands may stand under any heading, and products add to it by its name.
    groups = {
        help_line.name: help_line.commands
        for listed in headings.values()
        for help_line in listed
        if isinstance(help_line, CommandGroup)
    }
    beside = {**headings, **groups}[added.to]
    names = [typed_name(help_line) for help_line in beside]
    beside.insert(names.index(added.before) if added.before in names else len(names), added.listed)


def add_all(app: typer.Typer, listed: list[HelpLine], heading: str | None = None) -> None:
    """Add commands and groups to an app, under a heading of its help."""
    for help_line in listed:
        if isinstance(help_line, CommandGroup):
            inner = typer.Typer(no_args_is_help=True, help=help_line.about)
            add_all(inner, help_line.commands)
            app.add_typer(inner, name=help_line.name, rich_help_panel=heading)
        else:
            app.command(typed_name(help_line), rich_help_panel=heading)(help_line)
