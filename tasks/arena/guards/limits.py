"""Limits of what visitors do in a minute; who they are is held as a keyed hash, in memory only."""

import hmac
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping

_KNOWN_MAX = 50_000
WINDOW_SECONDS = 60.0


class PerMinute:
    """Times of the last minute. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._key, self._lock = clock, secrets.token_bytes(32), threading.Lock()
        self._times: dict[bytes, deque[float]] = {}

    def wait_seconds(self, limits: Mapping[str, int]) -> float:
        """0 when it may be done now, which then counts; otherwise how long to wait. `limits`: who -> most a minute."""
        with self._lock:
            now, windows = self._clock(), list[deque[float]]()
            for who, most in limits.items():
                key = hmac.digest(self._key, who.encode("utf-8", "replace"), "sha256")
                times = self._times.setdefault(key, deque())
                while times and now - times[0] >= WINDOW_SECONDS:
                    times.popleft()
                if len(times) >= most:
                    return WINDOW_SECONDS - (now - times[0])
                windows.append(times)
            for times in windows:
                times.append(now)
            if len(self._times) > _KNOWN_MAX:
                recent = {key: each for key, each in self._times.items() if each and now - each[-1] < WINDOW_SECONDS}
                self._times = recent
            return 0.0
