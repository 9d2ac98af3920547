"""Words of a request about itself, which may be forged, limits of what visitors do in a minute, and signed cookies."""

import hmac
import re
import secrets
import threading
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.cookies import SimpleCookie
from ipaddress import ip_address
from urllib.parse import parse_qs

from fastapi import Request

from tasks.arena.settings import ArenaSettings
from tasks.runtime.serving import AsgiMessage


def is_own(listens_on: str, settings: ArenaSettings, host: str) -> bool:
    """Whether a value of Host is this arena's. Another site can have its own name lead here, but no address."""
    name = host.rpartition(":")[0] if re.search(r":\d+$", host) else host
    with suppress(ValueError):
        return bool(ip_address(name.strip("[]")))
    if settings.proxies and not settings.hosts:
        return True  # a proxy answers for names
    return name.lower() in {"localhost", listens_on.lower(), *(own_host.lower() for own_host in settings.hosts)}


def forwarded_in_one(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The lines of X-Forwarded-For as one: a proxy may add a line of its own below the visitor's."""
    forwarded_lines = [value for name, value in headers if name.lower() == b"x-forwarded-for"]
    others = [(name, value) for name, value in headers if name.lower() != b"x-forwarded-for"]
    return [*others, *([(b"x-forwarded-for", b", ".join(forwarded_lines))] if forwarded_lines else [])]


def cookie_of(scope: AsgiMessage, name: str) -> str:
    """The value of a cookie; empty when the browser has none."""
    cookie_header = dict(scope["headers"]).get(b"cookie", b"").decode("latin-1")
    try:
        cookie = SimpleCookie(cookie_header).get(name)
    except Exception:  # a malformed cookie of another application on this host
        return ""
    return cookie.value if cookie else ""


async def form_of(request: Request, fields_max: int = 20) -> dict[str, list[str]]:
    """The fields of a form that was sent; empty for one with more fields than any of the page."""
    try:
        return parse_qs((await request.body()).decode("utf-8", "replace"), max_num_fields=fields_max)
    except ValueError:
        return {}


_KNOWN_MAX = 50_000
WINDOW_SECONDS = 60.0


class PerMinute:
    """Times of the last minute. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._key, self._lock = clock, secrets.token_bytes(32), threading.Lock()
        self._times: dict[bytes, list[float]] = {}

    def wait_seconds(self, limits: Mapping[str, int]) -> float:
        """0 when it may be done now, which then counts; otherwise how long to wait. `limits`: who -> most a minute."""
        with self._lock:
            now, windows = self._clock(), list[list[float]]()
            for who, most in limits.items():
                key = hmac.digest(self._key, who.encode("utf-8", "replace"), "sha256")
                times = self._times.setdefault(key, [])
                while times and now - times[0] >= WINDOW_SECONDS:
                    del times[0]
                if len(times) >= most:
                    return WINDOW_SECONDS - (now - times[0])
                windows.append(times)
            for times in windows:
                times.append(now)
            if len(self._times) > _KNOWN_MAX:
                recent = {
                    key: key_times
                    for key, key_times in self._times.items()
                    if key_times and now - key_times[-1] < WINDOW_SECONDS
                }
                self._times = recent
            return 0.0


class Signed:
    """Seals the values of one cookie, and reads back those that it sealed."""

    def __init__(self, key: bytes, purpose: str, clock: Callable[[], float] = time.time) -> None:
        self._key, self._purpose, self._clock = key, purpose, clock

    def seal(self, value: str, seconds: float) -> str:
        """The cookie that holds a value for some time. Its browser can read the value, and change nothing of it."""
        content = f"{self._clock() + seconds:.0f}.{urlsafe_b64encode(value.encode()).decode().rstrip('=')}"
        return f"{content}.{self._signature(content)}"

    def value(self, cookie: str) -> str:
        """The value of a cookie; empty for one that is forged or too old."""
        content, _, signed = cookie.rpartition(".")
        if not hmac.compare_digest(signed.encode("utf-8", "replace"), self._signature(content).encode()):
            return ""
        until, _, sealed = content.partition(".")
        is_fresh = float(until) > self._clock()
        return urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4)).decode() if is_fresh else ""

    def _signature(self, content: str) -> str:
        return hmac.digest(self._key, f"{self._purpose} {content}".encode("utf-8", "replace"), "sha256").hex()
