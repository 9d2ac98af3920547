"""The web application: Gradio's page inside FastAPI, with its own uploads, a content security policy, and `/health`.

Gradio's server ends a tab's stream with the last event that is pending. Its page opens the next stream when an event is
sent while it knows of none. An event that the server takes after the end of a stream, and whose answer the page reads
before that end, would stay without one: its message would be answered, and nobody would see it until another button is
pressed. So the answer to such an event waits until the page has surely read the end.
"""

import asyncio
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from http.cookies import SimpleCookie
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import gradio as gr
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from schemas.asked_model import ArenaSettings
from tasks.arena.conversations import Picture
from tasks.arena.entrance import UPLOAD_BYTES_MAX, browser_token, cookie_hash
from tasks.arena.events import COOKIE
from tasks.arena.logs import IMAGES
from tasks.arena.page import CSS
from tasks.arena.rounds import Arena
from tasks.arena.uploads import Uploads
from tasks.runtime.serving import Bounded, Message, Receive, Send, is_from_elsewhere

_POLICY = (
    "default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self' 'unsafe-inline'; img-src 'self'; "
    "font-src 'self'; connect-src 'self'; manifest-src 'self'; worker-src 'self'; form-action 'none'; "
    "frame-ancestors 'none'; base-uri 'self'"
)
_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
_USED = re.compile(
    r"/(?:health|config|theme\.css|favicon\.ico|check\.svg|manifest\.json|assets/.*|static/.*|pictures/[A-Za-z0-9_-]{24}\.png"
    r"|gradio_api/(?:upload|upload_progress|queue/join|queue/data|reset|heartbeat/.*|app_id|startup-events"
    r"|file=.*|info))?"
)
"""Addresses that the page uses. Others, such as Gradio's proxy and its calls by name, are not served."""
_CHECK = (
    '<svg viewBox="0 0 16 16" fill="none" stroke="white" stroke-width="2.5" xmlns="http://www.w3.org/2000/svg">'
    '<path d="M3 8.5l3.5 3.5L13 5"/></svg>'
)
_SCRIPT = re.compile(rb"<script(?=[\s>])")
_FORWARDED = b"x-forwarded-for"
_PICTURES_MAX = 5_000
_JPEG = b"\xff\xd8"
_UPLOAD = "/gradio_api/upload"
_FORM_BYTES_MAX = 4096
_DECODED_AT_ONCE_MAX = 2
"""One upload may take 0.35 GB of memory while it is decoded."""
_UPLOADS_MAX = 16
"""Requests with uploads that are read at once."""
_EVENT_BYTES_MAX = 1024 * 1024
"""A message, or another event of the page."""
_UPLOADS_OF_ONE_MAX = 2
"""Requests with uploads that one visitor may have open."""


class Pictures:
    """Addresses of images on the page, which only those who were given them know; the oldest are forgotten."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / IMAGES
        self._shown: OrderedDict[str, str | bytes] = OrderedDict()

    def show(self, picture: Picture) -> None:
        """Serve an image under its token: from the log folder, or an example from memory."""
        self._shown[picture.token] = picture.png if picture.preset else picture.name
        while len(self._shown) > _PICTURES_MAX:
            self._shown.popitem(last=False)

    def serve(self, content: bytes) -> str:
        """The address of an encoded image that is served from memory."""
        token = secrets.token_urlsafe(18)
        self._shown[token] = content
        return f"pictures/{token}.png"

    def content(self, token: str) -> bytes | None:
        """The encoded image of a token."""
        found = self._shown.get(token)
        if isinstance(found, str):
            path = self._folder / f"{found}.png"
            return path.read_bytes() if path.is_file() else None
        return found


def make_app(
    arena: Arena, blocks: gr.Blocks, uploads: Uploads, pictures: Pictures, settings: ArenaSettings, host: str
) -> FastAPI:
    """The application to serve, on the address `host`."""
    images_max = settings.images_max
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    decoding, uploading = asyncio.Semaphore(_DECODED_AT_ONCE_MAX), list[str]()

    @app.get("/health")
    def health() -> JSONResponse:
        found = arena.health()
        return JSONResponse(found, 200 if found["status"] == "ok" else 503)

    @app.get("/check.svg")
    def check() -> Response:
        return Response(_CHECK, media_type="image/svg+xml")

    @app.get("/pictures/{token}.png")
    def picture(token: str) -> Response:
        content = pictures.content(token)
        kind = "image/jpeg" if content and content.startswith(_JPEG) else "image/png"
        return Response(content, 200 if content else 404, {"cache-control": "private, max-age=3600"}, kind)

    @app.get("/gradio_api/file={path:path}")
    def own_upload(path: str, request: Request) -> Response:
        content = uploads.content(path, cookie_hash(request.cookies.get(COOKIE, "")))
        return Response(content, 200 if content else 404, {"cache-control": "no-store"}, "image/png")

    @app.post(_UPLOAD)
    async def upload(request: Request) -> JSONResponse:
        owner = cookie_hash(request.cookies.get(COOKIE, ""))
        if not owner:
            return JSONResponse({"error": "open the page first"}, 403)
        address = arena.visitors.address(request.client.host if request.client else "", request.headers)
        if (
            len(uploading) >= _UPLOADS_MAX
            or uploading.count(address) >= _UPLOADS_OF_ONE_MAX
            or uploads.wait_seconds(arena.visitors.logged(address))
        ):
            return JSONResponse({"error": "too many uploads; wait a minute"}, 429)
        uploading.append(address)
        try:
            form = await _Files(request.headers, request.stream(), max_files=images_max, max_fields=1).parse()
            async with AsyncExitStack() as opened:
                opened.push_async_callback(form.close)
                return JSONResponse(
                    [await taken(each, owner, address) for each in form.getlist("files") if not isinstance(each, str)]
                )
        except (MultiPartException, KeyError):  # or no form
            return JSONResponse({"error": "too large"}, 413)
        finally:
            uploading.remove(address)

    async def taken(file: UploadFile, owner: str, address: str) -> str:
        async with decoding:
            return await run_in_threadpool(uploads.take, await file.read(), owner, arena.visitors.logged(address))

    font = ["system-ui", "sans-serif"]
    theme = gr.themes.Default(font=font, font_mono=["ui-monospace", "monospace"])
    theme.set(checkbox_check="url(/check.svg)")  # Gradio's own is a data: address, which the policy forbids
    blocks.queue(api_open=False, default_concurrency_limit=8)
    mounted: FastAPI = gr.mount_gradio_app(
        app,
        blocks,
        path="/",
        footer_links=[],
        theme=theme,
        css=CSS,
        show_error=False,
        max_file_size=UPLOAD_BYTES_MAX,
        ssr_mode=False,
        enable_monitoring=False,
        pwa=False,
        mcp_server=False,
        run_history=False,
    )
    mounted.add_middleware(_Guard, known=partial(_is_own, host, settings), proxied=settings.proxies > 0)
    most = images_max * UPLOAD_BYTES_MAX + _FORM_BYTES_MAX
    mounted.add_middleware(Bounded, bytes_max=lambda path: most if path == _UPLOAD else _EVENT_BYTES_MAX)
    return mounted


def _is_own(listens_on: str, settings: ArenaSettings, host: str) -> bool:
    """Whether a value of Host is this arena's. Another site can have its own name lead here, but no address."""
    name = host.rpartition(":")[0] if re.search(r":\d+$", host) else host
    with suppress(ValueError):
        return bool(ip_address(name.strip("[]")))
    if settings.proxies and not settings.hosts:
        return True  # a proxy answers for names
    return name.lower() in {"localhost", listens_on.lower(), *(each.lower() for each in settings.hosts)}


class _Files(MultiPartParser):
    """Reads an upload, and ends as soon as one of its files is too large, so that no more of it is kept."""

    _bytes = 0

    def on_part_begin(self) -> None:
        """Count anew."""
        super().on_part_begin()
        self._bytes = 0

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        """Count. Raises MultiPartException."""
        self._bytes += end - start
        if self._bytes > UPLOAD_BYTES_MAX:
            raise MultiPartException("a file is too large")
        super().on_part_data(data, start, end)


END_READ_SECONDS = 0.2
"""After this time a page has read the end of its stream; on two busy cores it took up to 0.03 s."""
_EVENT, _STREAM = "/gradio_api/queue/join", "/gradio_api/queue/data"
_END = b'"msg":"close_stream"'
"""Quotes within a message's own text are escaped, so no visitor and no model can say this."""
_BROWSERS_MAX = 10_000


class Streams:
    """When the streams of each browser ended last."""

    def __init__(self) -> None:
        self._ended: OrderedDict[str, float] = OrderedDict()

    async def before(self, path: str, browser: str, message: MutableMapping[str, Any]) -> None:
        """To be awaited before a part of a response is sent; `browser` is the fingerprint of its cookie."""
        if path == _STREAM and _END in message.get("body", b""):
            self._ended[browser] = time.monotonic()
            self._ended.move_to_end(browser)
            while len(self._ended) > _BROWSERS_MAX:
                self._ended.popitem(last=False)
        elif path == _EVENT and message["type"] == "http.response.start" and browser in self._ended:
            await asyncio.sleep(max(0.0, self._ended[browser] + END_READ_SECONDS - time.monotonic()))


class _Guard:
    """Refuses what the page does not use, and adds the policy, other headers and the browser's cookie."""

    def __init__(self, app: Any, known: Callable[[str], bool], proxied: bool) -> None:
        self._app, self._known, self._proxied, self._streams = app, known, proxied, Streams()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        if not _USED.fullmatch(scope["path"]):
            await Response("Not found", 404)(scope, receive, send)
            return
        if is_from_elsewhere(scope["method"], scope["headers"], self._known, self._proxied):
            await Response("This arena answers its own page only.", 403)(scope, receive, send)
            return
        scope["headers"] = _forwarded_in_one(scope["headers"])
        answer = _Answer(scope, send, self._streams)
        await self._app(scope, receive, answer.send)


def _forwarded_in_one(headers: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The lines of X-Forwarded-For as one: a proxy may add a line of its own below the visitor's."""
    given = [value for name, value in headers if name.lower() == _FORWARDED]
    others = [(name, value) for name, value in headers if name.lower() != _FORWARDED]
    return [*others, *([(_FORWARDED, b", ".join(given))] if given else [])]


class _Answer:
    """One response. The page itself is read as a whole, so that its own scripts get the nonce."""

    def __init__(self, scope: Message, send: Send, streams: Streams) -> None:
        self._scope, self._send, self._streams = scope, send, streams
        self._token = _cookie(scope)
        self._nonce = secrets.token_urlsafe(16)
        self._start: MutableMapping[str, Any] = {}
        self._body = b""

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Pass on a part of the response."""
        await self._streams.before(self._scope["path"], cookie_hash(self._token), message)
        if message["type"] == "http.response.start":
            self._start = message
            message["headers"] = [*message.get("headers", []), *self._headers()]
            if not self._is_page():
                await self._send(message)
        elif not self._is_page():
            await self._send(message)
        else:
            self._body += message.get("body", b"")
            if not message.get("more_body"):
                await self._send_page()

    def _is_page(self) -> bool:
        return self._scope["path"] == "/" and self._start.get("status") == 200

    async def _send_page(self) -> None:
        body = _SCRIPT.sub(b'<script nonce="' + self._nonce.encode() + b'"', self._body)
        headers = [(name, value) for name, value in self._start["headers"] if name.lower() != b"content-length"]
        headers.append((b"content-length", str(len(body)).encode()))
        await self._send({**self._start, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})

    def _headers(self) -> list[tuple[bytes, bytes]]:
        headers = _HEADERS | {"content-security-policy": _POLICY.format(nonce=self._nonce)}
        if self._scope["path"] == "/" and not self._token:
            headers["set-cookie"] = f"{COOKIE}={browser_token()}; Path=/; HttpOnly; SameSite=Strict; Max-Age=31536000"
        return [(name.encode(), value.encode()) for name, value in headers.items()]


def _cookie(scope: Message) -> str:
    """The browser's token; empty when it has none."""
    given = dict(scope["headers"]).get(b"cookie", b"").decode("latin-1")
    try:
        found = SimpleCookie(given).get(COOKIE)
    except Exception:  # a malformed cookie of another application on this host
        return ""
    return found.value if found else ""
