"""What PgBouncer does with the start of a connection, before a real PostgreSQL.

Its documentation (config.html, `ignore_startup_parameters`) names the options that it keeps track of; it refuses every
other one with an error of class 08.
"""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

TRACKED = {"user", "database", "application_name", "client_encoding", "datestyle", "timezone", "intervalstyle",
           "standard_conforming_strings"}  # fmt: skip
_SSL_REQUEST = 80877103


@contextmanager
def pooled(port: int) -> Iterator[int]:
    """A local port that takes connections to the server at `port` as PgBouncer does."""
    listening = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_accept, args=(listening, port), daemon=True).start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()


def _accept(listening: socket.socket, port: int) -> None:
    with suppress(OSError):
        while True:
            client, _ = listening.accept()
            threading.Thread(target=_serve, args=(client, port), daemon=True).start()


def _serve(client: socket.socket, port: int) -> None:
    with client, suppress(OSError), socket.create_connection(("127.0.0.1", port)) as server:
        start = _start_message(client)
        names = start[8:].rstrip(b"\0").decode().split("\0")[::2]
        if others := [name for name in names if name.casefold() not in TRACKED]:
            client.sendall(_fatal(f"unsupported startup parameter: {others[0]}"))
            return
        server.sendall(start)
        back = threading.Thread(target=_carry, args=(server, client), daemon=True)
        back.start()
        _carry(client, server)
        back.join()


def _start_message(client: socket.socket) -> bytes:
    """The message that names options, after a request for TLS was declined."""
    while True:
        head = client.recv(8, socket.MSG_WAITALL)
        length, code = struct.unpack("!II", head)
        if code != _SSL_REQUEST:
            return head + client.recv(length - 8, socket.MSG_WAITALL)
        client.sendall(b"N")


def _fatal(words: str) -> bytes:
    fields = b"".join(kind + text.encode() + b"\0" for kind, text in ((b"S", "FATAL"), (b"C", "08P01"), (b"M", words)))
    return b"E" + struct.pack("!I", len(fields) + 5) + fields + b"\0"


def _carry(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while content := source.recv(1 << 16):
            target.sendall(content)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
