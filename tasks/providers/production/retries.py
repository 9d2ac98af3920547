"""Asking a remote service again when the failure may pass, with growing and scattered waits."""

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

Result = TypeVar("Result")

_random = secrets.SystemRandom()


class CallFailed(Exception):
    """One call gave no usable answer. The reason is ours: the service's own text may quote the item."""

    def __init__(
        self, reason: str, *, may_pass: bool = False, wait_seconds: float = 0.0, unbilled: bool = False
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.may_pass = may_pass
        """Whether the same call may succeed a little later."""
        self.wait_seconds = wait_seconds
        """How long the service asks us to wait; 0 when it does not say."""
        self.unbilled = unbilled
        """Whether the service turned the call down, so that it costs nothing."""


class Outage:
    """Whether a service is taken to be down: then most calls fail at once, and one now and then finds out.

    Without it every one of a night's calls would wait through its own repeats, for days on a large log.
    """

    calls_failed_max = 20
    """Calls that fail one after the other, each after all its repeats, until the service is down."""
    asked_every_seconds = 15.0

    def __init__(self) -> None:
        self._failed, self._ask_from = 0, 0.0
        self._changed = threading.Lock()

    def attempts(self, usual: int) -> int:
        """How often the next call is to be tried. Raises CallFailed while the service is down, but not every time."""
        with self._changed:
            if self._failed < self.calls_failed_max:
                return usual
            now = time.monotonic()
            if now < self._ask_from:
                raise CallFailed("service_down", may_pass=True, unbilled=True)
            self._ask_from = now + self.asked_every_seconds
            return 1

    def failed(self) -> None:
        """A call failed although it was repeated."""
        with self._changed:
            self._failed += 1

    def over(self) -> None:
        """The service answered."""
        with self._changed:
            self._failed = 0


@dataclass(frozen=True)
class Retries:
    """How often and how with_retries a call is repeated."""

    attempts: int = 5
    """Calls in all, the first included."""
    first_seconds: float = 1.0
    """Wait after the first failure; doubled after each further one."""
    longest_seconds: float = 60.0
    """No wait is longer. A service that asks for more has no room for us in this run, so the call fails at once."""

    outage: Outage = field(default_factory=Outage, compare=False)

    def call(self, work: Callable[[], Result]) -> Result:
        """The result of `work`. Raises CallFailed when it fails for good, or failed every time."""
        attempts = self.outage.attempts(self.attempts)
        try:
            result = self._repeated(work, attempts)
        except CallFailed as failure:
            self.outage.failed() if failure.may_pass else self.outage.over()
            raise
        self.outage.over()
        return result

    def _repeated(self, work: Callable[[], Result], attempts: int) -> Result:
        for attempt in range(attempts - 1):
            try:
                return work()
            except CallFailed as failure:
                if not failure.may_pass or failure.wait_seconds > self.longest_seconds:
                    raise
                time.sleep(self._wait(attempt, failure.wait_seconds))
        return work()

    def _wait(self, attempt: int, asked_seconds: float) -> float:
        """Seconds: what was asked, or half to all of the doubling wait, so that many callers do not return at once."""
        growing = min(self.longest_seconds, self.first_seconds * 2.0**attempt)
        return max(asked_seconds, growing * self.jitter())

    @staticmethod
    def jitter() -> float:
        """0.5 to 1, to scatter waits."""
        return _random.uniform(0.5, 1.0)


def http_failure(status: int, wait_seconds: float = 0.0) -> CallFailed:
    """What an HTTP status means for the caller: timeouts, rate limits and server errors may pass."""
    may_pass = status in (408, 429) or status >= 500
    reason = "rate_limited" if status == 429 else "server_error" if status >= 500 else f"http_{status}"
    return CallFailed(reason, may_pass=may_pass, wait_seconds=wait_seconds, unbilled=status != 408 and status < 500)


def seconds(value: object) -> float:
    """A waiting time such as `2`, `"1.5"` or `"3s"`; 0 for anything else."""
    try:
        return max(0.0, float(str(value).removesuffix("s")))
    except ValueError:
        return 0.0
