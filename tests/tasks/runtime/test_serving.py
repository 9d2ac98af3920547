"""The server of pages closes connections of visitors who are slow on purpose, and reads no body without an end."""

import socket
import threading
import time

import pytest
import uvicorn

from tasks.runtime import serving


async def _echo(scope, receive, send):
    """Read the body, then answer."""
    more = True
    while more:
        more = (await receive()).get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
def address(monkeypatch):
    """A server that waits a third of a second for heads and bodies of at most 1,000 bytes."""
    monkeypatch.setattr(serving, "HEAD_SECONDS", 0.3)
    monkeypatch.setattr(serving, "BODY_SECONDS", 0.3)
    monkeypatch.setattr(serving, "BODY_BYTES_A_SECOND", 1_000_000)
    started, run = [], uvicorn.Server.run
    monkeypatch.setattr(uvicorn.Server, "run", lambda self, sockets: (started.append(self), run(self, sockets)))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        app = serving.Bounded(_echo, lambda path: 1_000)
        thread = threading.Thread(target=serving.serve_on, args=(listener, app), kwargs={"lifespan": "off"})
        thread.start()
        yield listener.getsockname()
        started[0].should_exit = True
        thread.join()


def _answered(address, *pieces, every=0.0):
    """What a visitor who sends these pieces is told until the server closes the connection, and after how long."""
    began, told = time.monotonic(), b""
    with socket.create_connection(address, timeout=10) as visitor:
        try:
            for piece in pieces:
                visitor.sendall(piece)
                time.sleep(every)
            while got := visitor.recv(65536):
                told += got
        except ConnectionError:
            pass
    return told, time.monotonic() - began


HEAD = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"


def test_who_ends_a_request_is_answered_and_a_second_half_open_one_is_closed(address):
    told, _ = _answered(address, HEAD + b"Content-Length: 2\r\n\r\nab")
    assert told.startswith(b"HTTP/1.1 200") and told.endswith(b"ok")
    told, seconds = _answered(address, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"GET / HT", every=0.1)
    assert told.count(b"HTTP/1.1") == 1 and seconds < 5


@pytest.mark.parametrize(
    "pieces", [[b""], [b"POST / HT"], [HEAD], [b"G", b"E", b"T", b" ", b"/", *[b"x"] * 60]], ids=["none", "3", "4", "5"]
)
def test_a_connection_without_a_whole_head_is_closed(address, pieces):
    told, seconds = _answered(address, *pieces, every=0.05)
    assert told == b"" and seconds < 5


def test_a_body_that_stalls_or_drips_is_ended(address):
    for pieces in ([b"Content-Length: 9\r\n\r\nab"], [b"Content-Length: 90\r\n\r\n", *[b"a"] * 80]):
        told, seconds = _answered(address, HEAD, *pieces, every=0.05)
        assert told.startswith(b"HTTP/1.1 408") or told == b""
        assert seconds < 5


@pytest.mark.parametrize(
    "body", [b"Content-Length: 1001\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n3e9\r\n" + b"x" * 1001 + b"\r\n"]
)
def test_a_longer_body_is_refused_also_when_its_length_is_not_said(address, body):
    told, _ = _answered(address, HEAD + body)
    assert told.startswith(b"HTTP/1.1 413")
