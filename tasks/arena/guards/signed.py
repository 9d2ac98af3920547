"""Cookies that this arena signed, each for one purpose and for some time."""

import hmac
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable


class Signed:
    """Seals the values of one cookie, and reads back those that it sealed."""

    def __init__(self, key: bytes, purpose: str, clock: Callable[[], float] = time.time) -> None:
        self._key, self._purpose, self._clock = key, purpose, clock

    def seal(self, value: str, seconds: float) -> str:
        """The cookie that holds a value for some time. Its browser can read the value, and change nothing of it."""
        told = f"{self._clock() + seconds:.0f}.{urlsafe_b64encode(value.encode()).decode().rstrip('=')}"
        return f"{told}.{self._signature(told)}"

    def value(self, cookie: str) -> str:
        """The value of a cookie; empty for one that is forged or too old."""
        told, _, signed = cookie.rpartition(".")
        if not hmac.compare_digest(signed.encode("utf-8", "replace"), self._signature(told).encode()):
            return ""
        until, _, sealed = told.partition(".")
        held = float(until) > self._clock()
        return urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4)).decode() if held else ""

    def _signature(self, told: str) -> str:
        return hmac.digest(self._key, f"{self._purpose} {told}".encode("utf-8", "replace"), "sha256").hex()
