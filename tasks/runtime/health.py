"""Whether a service answers, as its calls find it: ten failures in a row pause it."""

import threading
import time

FAILURES_MAX = 10
"""Failed attempts in a row after which a service is tried alone, and then paused."""


class Health:
    """One service. Thread-safe.

    After ten failed attempts in a row, of whichever calls, one call makes all its attempts while the others wait. If it
    fails too, the service is paused: no more calls are made, until `try_again` lets one through.
    """

    def __init__(self) -> None:
        self._failures = 0
        """In a row."""
        self._trying: int | None = None
        """The thread whose call tries the service."""
        self._paused, self._was_paused = False, False
        self._next_try = 0.0
        """Monotonic seconds, for a service that is asked `every_seconds`."""
        self._changed = threading.Condition()

    def admits(self, every_seconds: float | None = None) -> bool:
        """Whether a call may be made now. Waits while another one tries the service.

        `every_seconds`: let one call through so often while the service is paused.
        """
        thread, now = threading.get_ident(), time.monotonic()
        with self._changed:
            self._changed.wait_for(lambda: self._paused or self._trying in (None, thread))
            if not self._paused:
                if self._failures >= FAILURES_MAX:
                    self._trying = thread
                return True
            if every_seconds is None or now < self._next_try:
                return False
            self._next_try, self._trying = now + every_seconds, thread
            return True

    def is_open(self) -> bool:
        """Whether an admitted call may still be made now."""
        with self._changed:
            return self._trying == threading.get_ident() or not (self._paused or self._failures >= FAILURES_MAX)

    def attempts(self, most: int) -> int:
        """Attempts of a call: `most`, or one to a service that was paused and has not answered since."""
        return 1 if self._was_paused else most

    def answered(self) -> None:
        """The service answered an attempt, be it that it declined one item."""
        with self._changed:
            self._failures, self._paused, self._was_paused = 0, False, False

    def failed(self, *, lasting: bool) -> None:
        """An attempt failed for a reason that is not the item's; `lasting`: more attempts of its call cannot help."""
        with self._changed:
            self._failures += 1
            if lasting and self._failures >= FAILURES_MAX:
                self._pause()

    def call_ended(self) -> None:
        """A call has ended; if it tried the service, the others go on, or the service is paused."""
        with self._changed:
            if self._trying == threading.get_ident():
                self._trying = None
                if self._failures >= FAILURES_MAX:
                    self._pause()
                self._changed.notify_all()

    def try_again(self) -> bool:
        """Let one call try a paused service; whether it was paused."""
        with self._changed:
            was_paused, self._paused = self._paused, False
            return was_paused

    def _pause(self) -> None:
        self._paused = self._was_paused = True
        self._changed.notify_all()
