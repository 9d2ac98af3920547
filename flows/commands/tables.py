"""Rows printed as a table, or as one JSON object a line."""

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from tasks.runtime.untrusted import json_text, one_line

_FILE_WIDTH = 160


def print_table(title: str, rows: Sequence[Mapping[str, object]], as_json: bool) -> None:
    """Print on stdout; numbers with four decimals, lists joined by spaces, null as a dash."""
    if as_json:
        for row in rows:
            print(json_text({"table": title} | dict(row)))
        return
    if not rows:
        Console(markup=False).print(f"{title.replace('_', ' ')}: none")
        return
    table = Table(box=None, pad_edge=False, header_style="bold", title=title.replace("_", " "), title_justify="left")
    columns = list(dict.fromkeys(name for row in rows for name in row))
    for name in columns:
        numeric = all(isinstance(row.get(name), int | float | None) for row in rows)
        table.add_column(one_line(name), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(row.get(name)) for name in columns))
    width = None if Console().is_terminal else _FILE_WIDTH
    Console(markup=False, highlight=False, width=width).print(table)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4f}"
    return one_line(" ".join(map(str, value)) if isinstance(value, list) else str(value))
