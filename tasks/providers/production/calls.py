"""Calls to a paid service: within the budget, rate-limited, and retried when a retry may succeed.

The SDKs' own retries are off. Every attempt may be billed and must count against the budget, but the SDKs do not report
the attempts before the last one. google-genai also ignores Retry-After, and google-cloud-vision does not retry when a
quota is exhausted.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TypeVar

import tenacity

from schemas.run import PAUSED, SETUP_FAILURES
from tasks.runtime.budget import Bill, in_run, ledger
from tasks.runtime.health import Health

Result = TypeVar("Result")
Item = TypeVar("Item")

CALLS_AT_ONCE = 8
"""Concurrent calls at first."""
LIMITED, MALFORMED, OVER_BUDGET = "rate_limited", "malformed_answer", "budget_reached"
LIMITS = (LIMITED, "resource_exhausted")
"""Failure reasons that many calls at once get, as Google's package spells it, too."""
SLOWER = (*LIMITS, "timed_out")
"""Failure reasons that reduce the number of concurrent calls."""


FORMAT_UNSUPPORTED = "answer_format_refused"
"""The server does not support the requested response format."""
REFUSED_CALL = "refused"
"""The model or its vendor declined what was asked."""


class CallFailed(Exception):
    """A call gave no usable answer. The reason never quotes the service's own text, which may contain the item."""

    def __init__(
        self, reason: str, *, may_pass: bool = False, wait_seconds: float = 0.0, unbilled: bool = False
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.may_pass = may_pass
        """Whether a retry may succeed."""
        self.wait_seconds = wait_seconds
        """How long the service asks us to wait; 0 when it does not say."""
        self.unbilled = unbilled
        """Whether the service rejected the call, so that it costs nothing."""


class _Postponed(CallFailed):
    """The call was not made yet, because others failed while it waited for its turn."""

    def __init__(self) -> None:
        super().__init__("postponed", unbilled=True)


class Service:
    """Retries and rate limit of one service, which is paused for a run when its calls fail (`Health`)."""

    attempts = 5
    """Attempts of one call, the first included."""
    first_seconds, longest_seconds = 1.0, 60.0
    """Bounds of the exponential backoff. A service that asks for a longer wait fails the call at once."""
    asked_every_seconds = 15.0
    """Outside of a run, one call per this many seconds is let through to a paused service."""

    def __init__(self, name: str, calls_max: int = CALLS_AT_ONCE) -> None:
        self.name = name
        self.pace = Pace(calls_max, self.longest_seconds)

    def ask(self, most_usd: float | None, work: Callable[[Bill], Result]) -> Result:
        """The result of `work`. Each attempt reserves `most_usd` first. Raises CallFailed, also when over budget."""
        health = ledger().health(self.name)

        def paid() -> Result:
            if not health.still_admits():  # this call may have waited for others, which failed
                raise _Postponed
            return self._paid(most_usd, work)

        def paced() -> Result:
            while True:
                with suppress(_Postponed):
                    return self.pace.call(paid)
                self._admit(health)

        return self.again(paced)

    def ask_for_units(self, units: int, work: Callable[[Bill], Result]) -> Result:
        """The result of `work`, which is billed by so many units. Raises CallFailed, also when over budget."""
        usd = ledger().prices.unit_usd(self.name)

        def settled(bill: Bill) -> Result:
            result = work(bill)
            bill.settle_units(units)
            return result

        return self.ask(None if usd is None else units * usd, settled)

    def again(self, work: Callable[[], Result]) -> Result:
        """The result of a free call, with retries. Raises CallFailed."""
        health = ledger().health(self.name)

        def attempt() -> Result:
            self._admit(health)
            try:
                result = work()
            except CallFailed as failure:
                self._tell(health, failure)
                raise
            health.answered()
            return result

        retrying = tenacity.Retrying(
            stop=lambda state: state.attempt_number >= health.attempts(self.attempts),
            wait=self._wait_seconds,
            retry=tenacity.retry_if_exception(
                lambda error: (
                    isinstance(error, CallFailed) and error.may_pass and error.wait_seconds <= self.longest_seconds
                )
            ),
            reraise=True,
        )
        try:
            return retrying(attempt)
        except CallFailed as failure:
            if failure.reason in LIMITS and not _fails_all_calls(failure, self.longest_seconds):
                # Once after all attempts, because a limit fails many calls at once.
                health.failed(retry_may_help=True)
            raise
        finally:
            health.call_ended()

    def _admit(self, health: Health) -> None:
        """Wait while another call probes the service. Raises CallFailed while it is paused."""
        if not health.admits(None if in_run() else self.asked_every_seconds):
            raise CallFailed(PAUSED, unbilled=True)

    def _tell(self, health: Health, failure: CallFailed) -> None:
        """Tell what a failed attempt shows of the service: a failure that is the item's own shows that it answers."""
        retry_may_help = not _fails_all_calls(failure, self.longest_seconds) and failure.reason != MALFORMED
        if not retry_may_help or (failure.may_pass and failure.reason not in LIMITS):
            health.failed(retry_may_help=retry_may_help)
        elif failure.reason not in (*LIMITS, OVER_BUDGET, PAUSED):
            health.answered()

    def _paid(self, most_usd: float | None, work: Callable[[Bill], Result]) -> Result:
        bill = ledger().reserve(self.name, most_usd)
        if bill is None:
            raise CallFailed(OVER_BUDGET)
        with bill:
            try:
                return work(bill)
            except CallFailed as failure:
                if failure.unbilled:
                    bill.nothing()
                raise

    def _wait_seconds(self, state: tenacity.RetryCallState) -> float:
        """The wait that the service asked for, or a random part of the exponential backoff."""
        failure = state.outcome.exception() if state.outcome else None
        least_wait = failure.wait_seconds if isinstance(failure, CallFailed) else 0.0
        return max(least_wait, tenacity.wait_random_exponential(self.first_seconds, self.longest_seconds)(state))


class Pace:
    """Limits concurrent calls like TCP: slow start, additive increase, multiplicative decrease (Jacobson 1988).

    Calls also wait for the Retry-After of earlier calls and follow the rate limit that the service reports.
    """

    def __init__(self, calls_max: int, longest_seconds: float = 60.0) -> None:
        self._calls_max, self._longest_seconds = calls_max, longest_seconds
        self.calls_at_once = float(min(calls_max, CALLS_AT_ONCE))
        """Allowed concurrent calls, from 1 to `calls_max`."""
        self._was_limited = False
        self._running, self._not_before = 0, 0.0
        self._calls_left: float | None = None
        self._gap_seconds, self._next = 0.0, 0.0
        self._changed = threading.Condition()

    def call(self, work: Callable[[], Result]) -> Result:
        """The result of `work`, started when the limits allow it. Raises what `work` raises."""
        with self._changed:
            while (wait := self._wait_seconds()) > 0 or self._running >= int(self.calls_at_once):
                self._changed.wait(wait if wait > 0 else None)
            self._running += 1
            if self._calls_left is not None:
                self._calls_left -= 1
                self._next = time.monotonic() + (0 if self._calls_left >= 1 else self._gap_seconds)
        failure: CallFailed | None = None
        try:
            return work()
        except CallFailed as failed:
            failure = failed
            raise
        finally:
            self._leave(failure)

    def heard(self, calls_left: float, gap_seconds: float) -> None:
        """The rate limit reported with an answer: calls still allowed now, and seconds until one more is."""
        with self._changed:
            self._calls_left = calls_left - (self._running - 1)  # the service may not have counted other running calls
            self._gap_seconds = min(gap_seconds, self._longest_seconds)
            self._changed.notify_all()

    def _wait_seconds(self) -> float:
        limited = self._calls_left is not None and self._calls_left < 1
        return max(self._not_before, self._next if limited else 0.0) - time.monotonic()

    def _leave(self, failure: CallFailed | None) -> None:
        with self._changed:
            self._running -= 1
            if failure is None:
                more = 1 / self.calls_at_once if self._was_limited else 1.0
                self.calls_at_once = min(self._calls_max, self.calls_at_once + more)
            elif _fails_all_calls(failure, self._longest_seconds):
                self.calls_at_once = 1.0
            elif failure.reason in SLOWER:
                self._was_limited = True
                self.calls_at_once = max(1.0, self.calls_at_once / 2)
                if failure.wait_seconds <= self._longest_seconds:
                    self._not_before = max(self._not_before, time.monotonic() + failure.wait_seconds)
            self._changed.notify_all()


def in_batches(
    items: Iterable[Item], size_of: Callable[[Item], int], size_max: int, count_max: int
) -> Iterator[list[Item]]:
    """Items in order, in requests of at most `count_max` and `size_max`; a larger item is a request of its own."""
    batch: list[Item] = []
    size = 0
    for item in items:
        if batch and (len(batch) == count_max or size + size_of(item) > size_max):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += size_of(item)
    if batch:
        yield batch


def _fails_all_calls(failure: CallFailed, longest_seconds: float) -> bool:
    """Whether all calls of this run will fail like this one: for a wrong key, or a limit that is lifted in an hour."""
    is_long_wait = failure.may_pass and failure.wait_seconds > longest_seconds
    return failure.reason in SETUP_FAILURES or is_long_wait


def http_failure(status: int, wait_seconds: float) -> CallFailed:
    """The failure for an HTTP error status: timeouts, rate limits and server errors may be retried."""
    may_pass = status in (408, 429) or status >= 500
    reason = LIMITED if status == 429 else "server_error" if status >= 500 else f"http_{status}"
    return CallFailed(reason, may_pass=may_pass, wait_seconds=wait_seconds, unbilled=status != 408 and status < 500)


def waiting_seconds(value: object) -> float:
    """A waiting time such as `2`, `"1.5"` or `"3s"`; 0 for anything else."""
    try:
        return max(0.0, float(str(value).removesuffix("s")))
    except ValueError:
        return 0.0
