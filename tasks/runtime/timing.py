"""Reports of steps: duration, peak memory of the process, use of paid services, items measured and failed."""

import functools
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ParamSpec

from schemas.run import LATER_CAUSES, StageReport
from tasks.runtime.budget import ledger

Parameters = ParamSpec("Parameters")

_BYTES_A_UNIT = 1 if sys.platform == "darwin" else 1024


def timed(step: Callable[Parameters, StageReport]) -> Callable[Parameters, StageReport]:
    """Decorates a step: its report gets seconds, peak memory and the use of paid services.

    A note says once a run which of their prices are not confirmed.
    """

    @functools.wraps(step)
    def measured(*args: Parameters.args, **kwargs: Parameters.kwargs) -> StageReport:
        started, before = time.monotonic(), ledger().use()
        report = step(*args, **kwargs)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _BYTES_A_UNIT / 1e6
        seconds = round(time.monotonic() - started, 2)
        use = ledger().since(before)
        notes = [*report.notes, *ledger().prices.doubts(use.keys() - before.keys())]
        measures = {"seconds": seconds, "peak_memory_mb": round(peak), "use": use, "notes": notes}
        return report.model_copy(update=measures)

    return measured


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
    ordered = sorted(done.failures.items(), key=lambda each: (each[0][0], LATER_CAUSES.get(each[0][1], 0), each[0][1]))
    failures = {f"{signal}: {reason}": count for (signal, reason), count in ordered}
    calls = dict(sorted(done.calls.items()))
    return StageReport(stage=stage, counts=dict(counts or {}), model_calls=calls, failures=failures)
