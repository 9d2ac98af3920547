"""Progress with counts and rates, on stderr: a live bar on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

SECONDS_BETWEEN_LINES = 15.0


class Advance(Protocol):
    """Tells the progress display that `count` more items are done. Safe to call from any thread."""

    def __call__(self, count: int = 1) -> None:
        """Count `count` more items."""
        ...


def silent(count: int = 1) -> None:
    """An `Advance` that shows nothing."""


def tell(line: str) -> None:
    """Say what is about to be done."""
    print(line, file=sys.stderr, flush=True)


@contextmanager
def progress(what: str, total: int) -> Iterator[Advance]:
    """Show how far `what` has come out of `total` items. Nothing is shown for nothing to do."""
    if total == 0:
        yield silent
    elif sys.stderr.isatty():
        yield from _bar(what, total)
    else:
        yield from _lines(what, total)


def _bar(what: str, total: int) -> Iterator[Advance]:
    rate = TextColumn("{task.fields[rate]}")
    columns = (TextColumn("  {task.description:<28}"), BarColumn(), MofNCompleteColumn(), rate, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task(what, total=total, rate="")
        started = time.monotonic()

        def advance(count: int = 1) -> None:
            bars.update(bar, advance=count)
            per_second = bars.tasks[0].completed / max(time.monotonic() - started, 1e-6)
            bars.update(bar, rate=f"{per_second:,.0f}/s")

        yield advance


def _lines(what: str, total: int) -> Iterator[Advance]:
    started = last = time.monotonic()
    done = 0

    def advance(count: int = 1) -> None:
        nonlocal done, last
        done += count
        now = time.monotonic()
        if now - last >= SECONDS_BETWEEN_LINES:
            last = now
            rate = done / (now - started)
            print(f"  {what}: {done:,} of {total:,}, {rate:,.0f}/s", file=sys.stderr, flush=True)

    yield advance
