"""Adds duration, use of paid services and the process's peak memory to a step's report."""

import functools
import resource
import sys
import time
from collections.abc import Callable
from typing import ParamSpec

from schemas.run import StageReport
from tasks.runtime.budget import ledger

Parameters = ParamSpec("Parameters")

_BYTES_A_UNIT = 1 if sys.platform == "darwin" else 1024


def timed(step: Callable[Parameters, StageReport]) -> Callable[Parameters, StageReport]:
    """Decorates a step: its report gets seconds, peak memory and the use of paid services."""

    @functools.wraps(step)
    def measured(*args: Parameters.args, **kwargs: Parameters.kwargs) -> StageReport:
        started, before = time.monotonic(), ledger().use()
        report = step(*args, **kwargs)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _BYTES_A_UNIT / 1e6
        seconds = round(time.monotonic() - started, 2)
        measures = {"seconds": seconds, "peak_memory_mb": round(peak), "use": ledger().since(before)}
        return report.model_copy(update=measures)

    return measured
