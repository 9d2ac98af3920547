"""How many calls are under way together: half as many after a rate limit, slowly more while there is none."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from tasks.providers.production.retries import CallFailed

Result = TypeVar("Result")


class Pace:
    """Additive increase, multiplicative decrease (Jacobson 1988); no call starts before a wait that was asked for."""

    def __init__(self, calls_max: int, longest_seconds: float = 60.0) -> None:
        self._calls_max, self._longest_seconds = calls_max, longest_seconds
        self.calls_at_once = float(calls_max)
        """Calls that may be under way now; from 1 to `calls_max`."""
        self._under_way, self._not_before = 0, 0.0
        self._changed = threading.Condition()

    def call(self, work: Callable[[], Result]) -> Result:
        """The result of `work`, when it is its turn. Raises what `work` raises."""
        self._enter()
        failure: CallFailed | None = None
        try:
            return work()
        except CallFailed as failed:
            failure = failed
            raise
        finally:
            self._leave(failure)

    def _enter(self) -> None:
        with self._changed:
            while (wait := self._not_before - time.monotonic()) > 0 or self._under_way >= int(self.calls_at_once):
                self._changed.wait(wait if wait > 0 else None)
            self._under_way += 1

    def _leave(self, failure: CallFailed | None) -> None:
        with self._changed:
            self._under_way -= 1
            if failure is None:
                self.calls_at_once = min(self._calls_max, self.calls_at_once + 1 / self.calls_at_once)
            elif failure.reason == "rate_limited":
                self.calls_at_once = max(1.0, self.calls_at_once / 2)
                if failure.wait_seconds <= self._longest_seconds:
                    self._not_before = max(self._not_before, time.monotonic() + failure.wait_seconds)
            self._changed.notify_all()
