"""Who a visitor is to the logs, and how often one may ask: a keyed hash of the address, never the address itself."""

import hashlib
import hmac
import os
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

from schemas.errors import BadInput, why_unreadable
from tasks.storage.keyed_ids import given_key, keyed_address

_KEY_FILE = "user_key"
_KEY_BYTES = 64
_FORWARDED = "x-forwarded-for"
_VISITORS_MAX = 50_000
WINDOW_SECONDS = 60.0


class Visitors:
    """Names visitors by their addresses and limits their messages."""

    def __init__(
        self,
        key: bytes,
        *,
        messages_a_minute: int,
        proxies: int = 0,
        raw: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._key, self._most, self._proxies, self._raw, self._clock = key, messages_a_minute, proxies, raw, clock
        self._asked: dict[str, deque[float]] = {}

    def logged(self, address: str) -> str:
        """What the log has as `ip`: a keyed hash, or the address where the operator wants it."""
        return address if self._raw else keyed_address(self._key, address)

    def address(self, client: str, headers: Mapping[str, str]) -> str:
        """The visitor's address. With `proxies` of the operator in front, the one that the first of them saw.

        Each proxy adds one address at the end of the header; whatever stands before these was sent by the visitor.
        """
        if not self._proxies:
            return client
        seen = [each.strip() for each in headers.get(_FORWARDED, "").split(",") if each.strip()]
        return seen[-self._proxies] if len(seen) >= self._proxies else client

    def wait_seconds(self, address: str) -> float:
        """0 when a message may be sent now, which then counts; otherwise how long to wait."""
        who = hmac.digest(self._key, address.encode("utf-8", "replace"), "sha256").hex()
        now = self._clock()
        times = self._asked.setdefault(who, deque())
        while times and now - times[0] >= WINDOW_SECONDS:
            times.popleft()
        if len(times) >= self._most:
            return WINDOW_SECONDS - (now - times[0])
        times.append(now)
        if len(self._asked) > _VISITORS_MAX:
            self._asked = {name: each for name, each in self._asked.items() if now - each[-1] < WINDOW_SECONDS}
        return 0.0


def key_of(folder: Path) -> bytes:
    """The key of user ids: of the environment, otherwise a random one that is kept beside the logs."""
    if key := given_key():
        return key
    path = folder / _KEY_FILE
    try:
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "w", encoding="ascii") as stream:
                stream.write(secrets.token_hex(32))
        key = path.read_bytes()
    except OSError as error:
        raise BadInput(f"the key of user ids {str(path)!r} cannot be kept ({why_unreadable(error)})") from None
    if len(key) < _KEY_BYTES:
        raise BadInput(f"the key of user ids {str(path)!r} is cut off; restore it, or delete it for a new one")
    return key


def browser_token() -> str:
    """A new browser's cookie."""
    return secrets.token_urlsafe(24)


def fingerprint(token: str) -> str:
    """What a conversation keeps of its browser's cookie; empty without one."""
    return token and hashlib.sha256(token.encode()).hexdigest()
