"""Words of a request about itself, any of which may be forged: its host, addresses that proxies saw, its cookies."""

import re
from contextlib import suppress
from http.cookies import SimpleCookie
from ipaddress import ip_address

from schemas.asked_model import ArenaSettings
from tasks.runtime.serving import Message


def is_own(listens_on: str, settings: ArenaSettings, host: str) -> bool:
    """Whether a value of Host is this arena's. Another site can have its own name lead here, but no address."""
    name = host.rpartition(":")[0] if re.search(r":\d+$", host) else host
    with suppress(ValueError):
        return bool(ip_address(name.strip("[]")))
    if settings.proxies and not settings.hosts:
        return True  # a proxy answers for names
    return name.lower() in {"localhost", listens_on.lower(), *(each.lower() for each in settings.hosts)}


def forwarded_in_one(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The lines of X-Forwarded-For as one: a proxy may add a line of its own below the visitor's."""
    given = [value for name, value in headers if name.lower() == b"x-forwarded-for"]
    others = [(name, value) for name, value in headers if name.lower() != b"x-forwarded-for"]
    return [*others, *([(b"x-forwarded-for", b", ".join(given))] if given else [])]


def cookie_of(scope: Message, name: str) -> str:
    """The value of a cookie; empty when the browser has none."""
    given = dict(scope["headers"]).get(b"cookie", b"").decode("latin-1")
    try:
        found = SimpleCookie(given).get(name)
    except Exception:  # a malformed cookie of another application on this host
        return ""
    return found.value if found else ""
