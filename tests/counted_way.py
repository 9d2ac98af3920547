"""A proxy that counts the HTTP requests to a server, and lets each wait."""

import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.cut_off import cut_off_at

_REQUEST = re.compile(rb"(GET|HEAD|PUT|POST|DELETE) (\S+) HTTP/1\.1\r\n")
_NEVER = b"no server says this"


@dataclass
class Way:
    """A local port that forwards to a server."""

    port: int = 0
    requests: list[tuple[str, str]] = field(default_factory=list)
    """Method and address of each request, in order."""
    waiting: int = 0
    most_at_once: int = 0

    def by_method(self) -> dict[str, int]:
        """Method -> requests."""
        return dict(Counter(method for method, _ in self.requests))


@contextmanager
def counted_way(port: int, seconds: float = 0.0) -> Iterator[Way]:
    """Forwards to `port` until the block ends; every request waits so long first."""
    way = Way()

    def hear(content: bytes) -> None:
        if found := _REQUEST.match(content):
            way.requests.append((found[1].decode(), found[2].decode()))
            way.waiting += 1
            way.most_at_once = max(way.most_at_once, way.waiting)
            time.sleep(seconds)
            way.waiting -= 1

    with cut_off_at(port, _NEVER, hear) as way.port:
        yield way
