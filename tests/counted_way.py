"""A proxy that counts the HTTP requests to a server, and lets each wait."""

import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

_REQUEST = re.compile(rb"(GET|HEAD|PUT|POST|DELETE) (\S+) HTTP/1\.1\r\n")


@dataclass
class Way:
    """A local port that forwards to a server."""

    port: int
    requests: list[tuple[str, str]] = field(default_factory=list)
    """Method and address of each request, in order."""

    def by_method(self) -> dict[str, int]:
        """Method -> requests."""
        return dict(Counter(method for method, _ in self.requests))


@contextmanager
def counted_way(port: int, seconds: float = 0.0) -> Iterator[Way]:
    """Forwards to `port` until the block ends; every request waits so long first."""
    listening = socket.create_server(("127.0.0.1", 0))
    way = Way(listening.getsockname()[1])

    def carry(source: socket.socket, target: socket.socket, asks: bool) -> None:
        with suppress(OSError):
            while content := source.recv(1 << 18):
                if asks and (found := _REQUEST.match(content)):
                    way.requests.append((found[1].decode(), found[2].decode()))
                    time.sleep(seconds)
                target.sendall(content)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                server = socket.create_connection(("127.0.0.1", port))
                for each in (client, server):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for ends in ((client, server, True), (server, client, False)):
                    threading.Thread(target=carry, args=ends, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield way
    finally:
        listening.close()
