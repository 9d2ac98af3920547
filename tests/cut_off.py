"""What goes away: a proxy that cuts a connection for good when certain bytes pass through, and a disk without room."""

import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def cut_off_at(
    port: int, words: bytes, hear: Callable[[bytes], None] = lambda _: None, gone: threading.Event | None = None
) -> Iterator[int]:
    """A local port that forwards to `port` until `words` pass through; then it closes and refuses connections.

    `hear` is called with what passes, before it is sent on. While `gone` is set, all connections end or are refused.
    """
    open_sockets: list[socket.socket] = []
    listening = socket.create_server(("127.0.0.1", 0))
    address, gone = listening.getsockname(), gone or threading.Event()
    listening.settimeout(0.1)

    def close_all() -> None:
        for each in (listening, *open_sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def carry(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while content := source.recv(1 << 16):
                if words in content:
                    close_all()
                    return
                hear(content)
                target.sendall(content)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def accept() -> None:
        nonlocal listening
        with suppress(OSError):
            while True:
                if gone.is_set():
                    close_all()
                    while gone.is_set():
                        time.sleep(0.05)
                    listening = socket.create_server(address)
                    listening.settimeout(0.1)
                try:
                    client, _ = listening.accept()
                except TimeoutError:
                    continue
                client.setblocking(True)
                server = socket.create_connection(("127.0.0.1", port))
                open_sockets.extend((client, server))
                for each in (client, server):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # pass on at once what comes
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=carry, args=ends, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield address[1]
    finally:
        close_all()


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Limits files of this process to `size` bytes, like a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
