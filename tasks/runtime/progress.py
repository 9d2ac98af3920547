"""Progress with counts and rates, on stderr: a bar on a terminal, a line every 15 seconds elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

SECONDS_BETWEEN_LINES = 15.0


WATCHERS: list[Callable[[str, int, int], None]] = []
"""Called every 15 seconds of a long piece of work with its name, the items done and their total."""


class Advance(Protocol):
    """Counts items as done in the progress display. Thread-safe."""

    def __call__(self, count: int = 1) -> None:
        """Count `count` more items."""
        ...


def silent(count: int = 1) -> None:
    """An `Advance` that shows nothing."""


def tell(line: str) -> None:
    """Print a line on stderr."""
    print(line, file=sys.stderr, flush=True)


@contextmanager
def progress(what: str, total: int) -> Iterator[Advance]:
    """Show how many of `total` items of `what` are done; nothing is shown for 0 items."""
    columns = (
        TextColumn("  {task.description:<28}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
    )
    terminal = total > 0 and sys.stderr.isatty()
    started = last = time.monotonic()
    with Progress(
        *columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True, disable=not terminal
    ) as bars:
        bar = bars.add_task(what, total=total, rate="")

        def advance(count: int = 1) -> None:
            nonlocal last
            bars.advance(bar, count)
            done, now = int(bars.tasks[0].completed), time.monotonic()
            rate = f"{done / max(now - started, 1e-6):,.0f}/s"
            bars.update(bar, rate=rate)
            if total > 0 and now - last >= SECONDS_BETWEEN_LINES:
                last = now
                for watch in WATCHERS:
                    watch(what, done, total)
                if not terminal:
                    tell(f"  {what}: {done:,} of {total:,}, {rate}")

        yield advance
