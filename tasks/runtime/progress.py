"""Progress with counts, rate and time left, on stderr: a bar on a terminal, a line every 15 seconds elsewhere.

Reports of steps say duration, peak memory of the process, use of paid services, items measured and failed.
"""

import functools
import json
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ParamSpec, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from schemas.run import LATER_CAUSES, StageReport, Use
from tasks.runtime.budget import ledger

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
                    time_left = f", {_time((total - done) / per_second)} left" if 0 < done < total else ""
                    tell(f"  {what}: {done:,} of {total:,}{rate and ', '}{rate}{time_left}")

        yield advance


Parameters = ParamSpec("Parameters")

_BYTES_A_UNIT = 1 if sys.platform == "darwin" else 1024


def timed(step: Callable[Parameters, StageReport]) -> Callable[Parameters, StageReport]:
    """Decorates a step: its report gets seconds, peak memory and the use of paid services.

    A note says once a run which prices are not confirmed, of services that cost something.
    """

    @functools.wraps(step)
    def measured(*args: Parameters.args, **kwargs: Parameters.kwargs) -> StageReport:
        started, before = time.monotonic(), ledger().use()
        report = step(*args, **kwargs)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _BYTES_A_UNIT / 1e6
        seconds = round(time.monotonic() - started, 2)
        use = ledger().since(before)
        notes = [*report.notes, *ledger().prices.doubts(_costing(use) - _costing(before))]
        measures = {"seconds": seconds, "peak_memory_mb": round(peak), "use": use, "notes": notes}
        return report.model_copy(update=measures)

    return measured


def _costing(use: Mapping[str, Use]) -> set[str]:
    """Services whose use costs something, by the price file."""
    return {service for service, service_use in use.items() if service_use.usd + service_use.usd_unconfirmed}


@dataclass
class Measured:
    """Counts of a measuring step: calls by signal, failures by (signal, reason)."""

    calls: Counter[str] = field(default_factory=Counter)
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, other: "Measured") -> None:
        """Add the counts of another part of the work."""
        self.calls += other.calls
        self.failures += other.failures


def report(stage: str, done: Measured, counts: Mapping[str, int] | None = None) -> StageReport:
    """The stage report of a measuring step; failures that follow from others stand last."""
    ordered = sorted(
        done.failures.items(), key=lambda failure: (failure[0][0], LATER_CAUSES.get(failure[0][1], 0), failure[0][1])
    )
    failures = {f"{signal}: {reason}": count for (signal, reason), count in ordered}
    calls = dict(sorted(done.calls.items()))
    return StageReport(stage=stage, counts=dict(counts or {}), model_calls=calls, failures=failures)
