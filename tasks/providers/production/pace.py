"""How many calls are under way together, and how fast they follow each other: what the service has room for."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from tasks.providers.production.retries import CallFailed

Result = TypeVar("Result")

SLOWER = ("rate_limited", "timed_out")
"""Failures that fewer calls at once may mend."""
LAG_SECONDS = 1.0
"""How much of a missed pace is made up for: timers and busy machines are late."""


class Pace:
    """Slow start, additive increase, multiplicative decrease (Jacobson 1988), and the pace that a service announces.

    No call starts before a wait that was asked for.
    """

    def __init__(self, calls_max: int, first: int | None = None, longest_seconds: float = 60.0) -> None:
        self._calls_max, self._longest_seconds = calls_max, longest_seconds
        self.calls_at_once = float(min(calls_max, first or calls_max))
        """Calls that may be under way now; from 1 to `calls_max`."""
        self._limited = False
        self._under_way, self._not_before = 0, 0.0
        self._room: float | None = None
        self._gap_seconds, self._next = 0.0, time.monotonic()
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

    def heard(self, calls_left: float, gap_seconds: float) -> None:
        """What the service said with an answer: calls it still takes now, and seconds until it takes one more.

        Other calls under way may not be counted in it yet.
        """
        with self._changed:
            self._room = calls_left - (self._under_way - 1)
            self._gap_seconds = min(gap_seconds, self._longest_seconds)
            self._changed.notify_all()

    def _enter(self) -> None:
        with self._changed:
            while (wait := self._wait_seconds()) > 0 or self._under_way >= int(self.calls_at_once):
                self._changed.wait(wait if wait > 0 else None)
            self._under_way += 1
            if self._room is not None:
                self._room -= 1
                now = time.monotonic()
                self._next = now if self._room >= 1 else max(self._next, now - LAG_SECONDS) + self._gap_seconds

    def _wait_seconds(self) -> float:
        paced = self._next if self._room is not None and self._room < 1 else 0.0
        return max(self._not_before, paced) - time.monotonic()

    def _leave(self, failure: CallFailed | None) -> None:
        with self._changed:
            self._under_way -= 1
            if failure is None:
                more = 1 / self.calls_at_once if self._limited else 1.0
                self.calls_at_once = min(self._calls_max, self.calls_at_once + more)
            elif failure.reason in SLOWER:
                self._limited = True
                self.calls_at_once = max(1.0, self.calls_at_once / 2)
                if failure.wait_seconds <= self._longest_seconds:
                    self._not_before = max(self._not_before, time.monotonic() + failure.wait_seconds)
            self._changed.notify_all()
