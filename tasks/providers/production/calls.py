"""How a paid service is called: within the budget, at its pace, and again when a failure may pass.

The SDKs' own retries are off: google-genai ignores Retry-After and google-cloud-vision does not repeat an exhausted
quota. No SDK tells of the attempts before the last one, but each of them may be billed and counts against the budget.
"""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

import tenacity

from tasks.runtime.budget import Bill, ledger

Result = TypeVar("Result")

CALLS_AT_ONCE = 8
"""Calls under way together at first."""
SLOWER = ("rate_limited", "timed_out")
"""Failures that fewer calls at once may prevent."""
LAG_SECONDS = 1.0
"""How much of a missed pace is made up for: timers and busy machines are late."""


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


class Service:
    """One service. After many failed calls in a row it is taken to be down: calls then fail at once.

    Without that, every one of a night's calls would wait through its own repeats, for days on a large log.
    """

    attempts = 5
    """Tries of one call, the first included."""
    first_seconds, longest_seconds = 1.0, 60.0
    """Longest wait after the first failure, doubled after each further one, and the longest of all. A service that
    asks for more than that has no room for us in this run, so the call fails at once."""
    failures_until_down = 20
    """Calls that fail in a row, each after all its tries, until the service is taken to be down."""
    asked_every_seconds = 15.0
    """How often a call goes through to a service that is down."""

    def __init__(self, name: str, calls_max: int = CALLS_AT_ONCE) -> None:
        self.name = name
        self.pace = Pace(calls_max, self.longest_seconds)
        self._failed, self._ask_from = 0, 0.0
        self._changed = threading.Lock()

    def ask(self, most_usd: float | None, work: Callable[[Bill], Result]) -> Result:
        """What `work` returns. Every try reserves `most_usd` first. Raises CallFailed, also for a used-up budget."""
        return self.again(lambda: self.pace.call(lambda: self._paid(most_usd, work)))

    def again(self, work: Callable[[], Result]) -> Result:
        """The result of `work`, which costs nothing, tried as often as may help. Raises CallFailed."""
        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(self._tries()),
            wait=self._wait_seconds,
            retry=tenacity.retry_if_exception(self._worth_repeating),
            reraise=True,
        )
        try:
            result = retrying(work)
        except CallFailed as failure:
            self._count(failed=failure.may_pass)
            raise
        self._count(failed=False)
        return result

    def _paid(self, most_usd: float | None, work: Callable[[Bill], Result]) -> Result:
        bill = ledger().reserve(self.name, most_usd)
        if bill is None:
            raise CallFailed("budget_reached")
        with bill:
            try:
                return work(bill)
            except CallFailed as failure:
                if failure.unbilled:
                    bill.nothing()
                raise

    def _worth_repeating(self, error: BaseException) -> bool:
        return isinstance(error, CallFailed) and error.may_pass and error.wait_seconds <= self.longest_seconds

    def _wait_seconds(self, state: tenacity.RetryCallState) -> float:
        """What the service asked for, or a random part of the doubling wait, so that callers do not return at once."""
        failure = state.outcome.exception() if state.outcome else None
        asked = failure.wait_seconds if isinstance(failure, CallFailed) else 0.0
        return max(asked, tenacity.wait_random_exponential(self.first_seconds, self.longest_seconds)(state))

    def _tries(self) -> int:
        """Tries of the next call. Raises CallFailed while the service is down, but for one call now and then."""
        with self._changed:
            if self._failed < self.failures_until_down:
                return self.attempts
            now = time.monotonic()
            if now < self._ask_from:
                raise CallFailed("service_down", may_pass=True, unbilled=True)
            self._ask_from = now + self.asked_every_seconds
            return 1

    def _count(self, *, failed: bool) -> None:
        with self._changed:
            self._failed = self._failed + 1 if failed else 0


class Pace:
    """Calls under way: slow start, additive increase, multiplicative decrease (Jacobson 1988), as TCP does it.

    No call starts before a wait that the service asked for, nor faster than it announced.
    """

    def __init__(self, calls_max: int, longest_seconds: float = 60.0) -> None:
        self._calls_max, self._longest_seconds = calls_max, longest_seconds
        self.calls_at_once = float(min(calls_max, CALLS_AT_ONCE))
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
        """What the service said with an answer: calls it still takes now, and seconds until it takes one more."""
        with self._changed:
            self._room = calls_left - (self._under_way - 1)  # others under way may not be counted yet
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
