"""Refusals of every server of pages: other sites' requests, and those that come too slowly or are too long."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

AsgiMessage = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]

HEAD_SECONDS = 10.0
"""Within this time a connection must have sent the head of a request."""
BODY_SECONDS, BODY_BYTES_A_SECOND = 15.0, 16 * 1024
"""Time for the body of a request, and the rate from which it may take longer."""


def is_from_elsewhere(
    method: str, headers: Iterable[tuple[bytes, bytes]], is_known_host: Callable[[str], bool], proxied: bool = False
) -> bool:
    """Whether a request names another host, or a page of another site sent it; a link from there may be followed.

    `is_known_host`: whether a value of Host is this server's. `proxied`: a proxy may have changed Host, so that a
    browser's own word counts beside its Origin. Forms of pages that tell nobody their address come with the Origin
    `null`; then the browser's word must be there.
    """
    header_values: dict[str, list[str]] = {}
    for name, value in headers:
        header_values.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    hosts, origins = header_values.get("host", []), header_values.get("origin", [])
    if len(hosts) != 1 or len(origins) > 1 or not is_known_host(hosts[0]):
        return True
    site = header_values.get("sec-fetch-site", ["same-origin"])[-1]
    followed = site == "none" or header_values.get("sec-fetch-mode", [""])[-1] == "navigate"
    if site != "same-origin" and not (followed and method in ("GET", "HEAD")):
        return True
    if origins == ["null"] and "sec-fetch-site" in header_values:
        return False
    return bool(origins) and not (_netloc(origins[0]) == hosts[0] or (proxied and site == "same-origin"))


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


class _TooLong(Exception):
    """A body of more bytes than are read."""


class Bounded:
    """ASGI middleware: a request with a longer body is answered 413; one whose body comes too slowly is closed."""

    def __init__(self, app: Any, bytes_max: Callable[[str], int]) -> None:
        """`bytes_max`: path -> most bytes of a body."""
        self._app, self._bytes_max = app, bytes_max

    async def __call__(self, scope: AsgiMessage, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most, got, whole = self._bytes_max(scope["path"]), 0, False
        began = asyncio.get_running_loop().time()
        content_length = dict(scope["headers"]).get(b"content-length", b"0")
        if not content_length.isdigit() or int(content_length) > most:
            await _refuse(send, 413)
            return

        async def bounded() -> AsgiMessage:
            nonlocal got, whole
            if whole:  # what comes now is that the visitor went away
                return await receive()
            seconds_left = began + BODY_SECONDS + got / BODY_BYTES_A_SECOND - asyncio.get_running_loop().time()
            message = await asyncio.wait_for(receive(), max(0.0, seconds_left))
            got += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if got > most:
                raise _TooLong
            return message

        try:
            await self._app(scope, bounded, send)
        except (TimeoutError, _TooLong) as error:
            with suppress(RuntimeError):  # the answer had begun
                await _refuse(send, 413 if isinstance(error, _TooLong) else 408)


async def _refuse(send: Send, status: int) -> None:
    headers = [(b"connection", b"close"), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def serve_on(listener: socket.socket, app: Any, *more: socket.socket, **options: Any) -> None:
    """Serve until somebody ends it; nothing is written to the terminal.

    `more`: further sockets of the same application. `options`: further ones of uvicorn.
    """
    import uvicorn  # imported late: only the extras `explore` and `arena` bring it
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Impatient(H11Protocol):
        """Closes connections on which no head of a request arrives in time."""

        waits: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.watch()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self.watch()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self.stop()

        def watch(self) -> None:
            if self.cycle is not None and not self.cycle.response_complete:
                self.stop()
            elif self.waits is None:
                self.waits = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

        def stop(self) -> None:
            if self.waits is not None:
                self.waits.cancel()
                self.waits = None

    config = uvicorn.Config(
        app,
        http=Impatient,
        ws="none",
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        **options,
    )
    with suppress(KeyboardInterrupt):  # uvicorn raises it again after it has stopped
        uvicorn.Server(config).run([listener, *more])
