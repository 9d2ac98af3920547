"""Whether a service answers, as its calls find it: after ten failures in a row one call probes it, and may pause it.

In: what became of each attempt of a call (`answered`, `failed`, `call_ended`). Out: whether a call may be made
(`admits`). A further way to fail is a case of `failed`, which its caller (`providers/production/calls.py`) chooses.
"""

import threading
import time

FAILURES_MAX = 10
"""Failed attempts in a row, of whichever calls, after which one call probes the service while the others wait."""


class Health:
    """One service, in one of three states. Thread-safe.

    Answering: calls are made. Doubtful, after ten failed attempts in a row: one call probes the service, with all its
    attempts, while the others wait. If it gets an answer, the service is answering again; else it is paused. Paused: no
    calls are made, until `try_again` makes it doubtful.
    """

    def __init__(self) -> None:
        self._failures = 0
        """Failed attempts since the last answer."""
        self._probing_thread: int | None = None
        """The thread whose call probes the service."""
        self._is_paused = False
        self._was_paused = False
        """Whether the service has been paused since its last answer."""
        self._next_probe_at = 0.0
        """Monotonic seconds from which a paused service is probed again, where `admits` is asked with a period."""
        self._changed = threading.Condition()

    def admits(self, probe_every_seconds: float | None = None) -> bool:
        """Whether a call may be made now. Waits while another one probes the service.

        `probe_every_seconds`: while the service is paused, let one call probe it each time so many seconds are over.
        """
        thread = threading.get_ident()
        now = time.monotonic()
        with self._changed:
            self._changed.wait_for(lambda: self._is_paused or self._probing_thread in (None, thread))
            if not self._is_paused:
                if self._is_doubtful():
                    self._probing_thread = thread
                return True
            if probe_every_seconds is None or now < self._next_probe_at:
                return False
            self._next_probe_at = now + probe_every_seconds
            self._probing_thread = thread
            return True

    def still_admits(self) -> bool:
        """Whether a call that was admitted, and then waited for its turn, may still be made.

        Not if the service has become doubtful or paused meanwhile, unless this is the call that probes it.
        """
        with self._changed:
            is_probe = self._probing_thread == threading.get_ident()
            return is_probe or not (self._is_paused or self._is_doubtful())

    def attempts(self, attempts_max: int) -> int:
        """Attempts that a call may make: one if the service was paused and has not answered since."""
        return 1 if self._was_paused else attempts_max

    def answered(self) -> None:
        """The service answered an attempt, even if it only declined this item."""
        with self._changed:
            self._failures = 0
            self._is_paused = self._was_paused = False

    def failed(self, *, retry_may_help: bool) -> None:
        """An attempt failed for a reason that is not the item's.

        Unless `retry_may_help`, a doubtful service is paused at once: a probe would fail, too.
        """
        with self._changed:
            self._failures += 1
            if self._is_doubtful() and not retry_may_help:
                self._pause()

    def call_ended(self) -> None:
        """A call has made its last attempt; if it was the probe, its outcome decides for the calls that wait."""
        with self._changed:
            if self._probing_thread == threading.get_ident():
                self._probing_thread = None
                if self._is_doubtful():
                    self._pause()
                self._changed.notify_all()

    def try_again(self) -> bool:
        """Let one call probe a paused service; whether it was paused."""
        with self._changed:
            was_paused = self._is_paused
            self._is_paused = False
            return was_paused

    def _is_doubtful(self) -> bool:
        return self._failures >= FAILURES_MAX

    def _pause(self) -> None:
        self._is_paused = self._was_paused = True
        self._changed.notify_all()
