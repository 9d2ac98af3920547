"""A server on 127.0.0.1 that answers the vendors' SDKs over HTTP with the replies that a test sets."""

import json
import socket
import sys
import threading
from collections import deque
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Reply:
    """One reply. `body` None closes the connection without an answer; `cut` closes it halfway.

    A callable `body` gets the request and returns the body, or a whole Reply.
    """

    body: object = None
    status: int = 200
    headers: dict = field(default_factory=dict)
    cut: bool = False
    silent_seconds: float = 0.0


class LoopbackServer(ThreadingHTTPServer):
    request_queue_size = 128  # at the default of 5, connections are reset when many threads call at once

    def get_request(self):
        """A connection that sends at once: otherwise every answer's body waits 40 ms for the receipt of its head."""
        connection, address = super().get_request()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection, address

    def handle_error(self, request, client_address):
        """A client that was killed is no error of the server; anything else is printed."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Serving:
    """A server on this machine, whose requests of its methods go to `respond`."""

    methods = ("POST",)

    def __init__(self):
        self._lock, self._closing = threading.RLock(), threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def __getattr__(self, name):
                if name.removeprefix("do_") in outer.methods:
                    return lambda: outer.respond(self)
                raise AttributeError(name)

            def log_message(self, *_):
                pass

        self._handler = Handler
        self.open(0)

    def open(self, port):
        """Listen on a port, or on a free one for 0; after `close` this is the same server, started again."""
        self._closing.clear()
        self._server = LoopbackServer(("127.0.0.1", port), self._handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def send(self, handler, body, status=200, headers=(), cut=False):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        handler.send_response(status)
        for name, value in {"content-type": "application/json", **dict(headers)}.items():
            handler.send_header(name, value)
        handler.send_header("content-length", str(len(content)))
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(content[: len(content) // 2] if cut else content)
        handler.close_connection = cut or handler.close_connection

    def close(self):
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class HttpServer(Serving):
    """Answers POSTs with the given replies in order, repeats the last one, and records the requests."""

    def __init__(self):
        self.requests, self.replies = [], deque()
        super().__init__()

    def answer(self, *replies):
        self.replies = deque(replies)

    def respond(self, handler):
        body = handler.rfile.read(int(handler.headers["content-length"]))
        with self._lock:
            self.requests.append(json.loads(body))
            reply = self.replies.popleft() if len(self.replies) > 1 else self.replies[0]
        if callable(reply.body):
            made = reply.body(json.loads(body))
            reply = made if isinstance(made, Reply) else replace(reply, body=made)
        self._closing.wait(reply.silent_seconds)
        if reply.body is None:
            handler.close_connection = True
        else:
            self.send(handler, reply.body, reply.status, reply.headers, reply.cut)
