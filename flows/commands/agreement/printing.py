"""Prints agreement: figures with their intervals side by side, confusion, raters."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from schemas.agreement import Agreed, AgreedByRaters, LabelAgreement, RaterAgreement
from tasks.runtime.untrusted import json_text, one_line

_FIGURES = {"accuracy": "accuracy (f1_micro)"} | dict.fromkeys(("f1_macro", "f1_weighted", "kappa", "alpha", "pearson"))
"""Figure -> its heading, where it is not its name."""
_WIDTH = 190
"""Columns where the output is no terminal."""
_CONFUSIONS_MAX = 12
"""Most labels of a confusion that is printed; JSON always has it."""


def print_agreement(found: Sequence[LabelAgreement], as_json: bool) -> None:
    """All comparisons side by side, form by form; then confusions, and agreement within files."""
    if as_json:
        for row in found:
            print(json_text(row.model_dump(mode="json")))
        return
    _show(_figures(found))
    for row in found:
        _print_left_out(row)
        if len(row.labels) <= _CONFUSIONS_MAX:
            _show(_confusion(row, row.a, row.b))
    print_raters(list({each.file: each for row in found for each in row.raters}.values()), False)


def print_raters(found: Sequence[RaterAgreement], as_json: bool) -> None:
    """Agreement of the raters of each file, form by form."""
    if as_json:
        for row in found:
            print(json_text(row.model_dump(mode="json")))
        return
    if not found:
        return
    table = _table("raters of", "form", "items", "raters", "pairs", "agreeing", "agreement", "alpha")
    for row in found:
        for form in (row, *row.forms):
            counts = (form.items, form.raters or "-", form.pairs, form.agreeing)
            figures = (_with_interval(form, name) for name in ("agreement", "alpha"))
            table.add_row(one_line(row.file, 40), form.form, *(_count(each) for each in counts), *figures)
    _show(table)


def _figures(found: Sequence[LabelAgreement]) -> Table:
    table = _table("a", "b", "form", "items", "pairs", *(heading or name for name, heading in _FIGURES.items()))
    for row in found:
        for form in (row, *row.forms):
            figures = (_with_interval(form, name) for name in _FIGURES)
            names = (one_line(name, 40) for name in (row.a, row.b))
            table.add_row(*names, form.form, _count(form.items), _count(form.pairs), *figures)
    return table


def _confusion(row: Agreed, a: str, b: str) -> Table:
    table = _table(f"{one_line(a, 40)} \\ {one_line(b, 40)}", *(one_line(label, 40) for label in row.labels))
    for label, counts in zip(row.labels, row.confusion, strict=True):
        table.add_row(one_line(label, 40), *map(_count, counts))
    return table


def _print_left_out(row: LabelAgreement) -> None:
    left_out = {
        f"items only in {row.a}": row.only_a,
        f"items only in {row.b}": row.only_b,
        f"rows of {row.a} without a verdict": row.no_verdict_a,
        f"rows of {row.b} without a verdict": row.no_verdict_b,
    }
    if told := ", ".join(f"{count:,} {what}" for what, count in left_out.items() if count):
        Console(stderr=True).print(f"curate: left out: {one_line(told)}", markup=False, highlight=False, soft_wrap=True)


def _with_interval(row: Agreed | AgreedByRaters, name: str) -> str:
    value, low, high = (getattr(row, f"{name}{end}") for end in ("", "_ci95_low", "_ci95_high"))
    return "-" if value is None else f"{value:.3f}" + ("" if low is None else f" ({low:.2f} to {high:.2f})")


def _count(value: int | str) -> str:
    return f"{value:,}" if isinstance(value, int) else value


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, column in enumerate(columns):
        text = place == 0 or column in ("b", "form")
        table.add_column(column, justify="left" if text else "right", overflow="fold")
    return table


def _show(table: Table) -> None:
    terminal = Console().is_terminal
    Console(markup=False, highlight=False, width=None if terminal else _WIDTH).print(table)
