"""Progress with counts, rate and time left, on stderr: a bar on a terminal, a line every 15 seconds elsewhere."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Protocol

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


def json_asked() -> bool:
    """Whether CURATE_LOG_FORMAT asks for log lines as JSON."""
    return os.environ.get("CURATE_LOG_FORMAT", "") == "json"


def json_log_line(message: str, **more: Any) -> str:
    """A log line as one JSON object: `at` (UTC), `message`, and more fields."""
    return json.dumps({"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "message": message.strip(), **more})


def tell(line: str, **more: Any) -> None:
    """Print a line on stderr; where it is asked for, as JSON with more fields."""
    print(json_log_line(line, **more) if json_asked() else line, file=sys.stderr, flush=True)


def rate_text(per_second: float) -> str:
    """Items per minute, always in this unit; empty before the first is done."""
    rate = 60 * per_second
    return f"{rate:,.0f}/min" if rate >= 10 else f"{rate:.2g}/min" if rate > 0 else ""


def _time(seconds: float) -> str:
    minutes = max(round(seconds / 60), 1)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


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
            per_second = done / max(now - started, 1e-6)
            rate = rate_text(per_second)
            bars.update(bar, rate=rate)
            if total > 0 and now - last >= SECONDS_BETWEEN_LINES:
                last = now
                for watch in WATCHERS:
                    watch(what, done, total)
                if not terminal:
                    left = f", {_time((total - done) / per_second)} left" if 0 < done < total else ""
                    tell(f"  {what}: {done:,} of {total:,}{rate and ', '}{rate}{left}")

        yield advance
