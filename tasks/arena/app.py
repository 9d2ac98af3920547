"""The web application: pages, actions of the page, answers as server-sent events, images, and `/health`."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from schemas.items.conversation import RecordType
from tasks.arena.board import Board, board_routes
from tasks.arena.conversations import ArenaConversation, Mode, StreamedAnswer
from tasks.arena.entrance import UPLOAD_BYTES_MAX, ConversationEnded, Refused, Visit
from tasks.arena.guards.appeals import refusal_routes
from tasks.arena.guards.captcha import CAPTCHA_COOKIE, CAPTCHA_PAGE, Captcha, captcha_routes
from tasks.arena.guards.login import Login, login_routes
from tasks.arena.guards.requests import cookie_of, forwarded_in_one, is_own
from tasks.arena.opinions import AnswerReaction
from tasks.arena.page import ADDRESSES, ARENA_FILES, YEAR_SECONDS, ArenaPages, Tab, answer_changes
from tasks.arena.rounds import Arena
from tasks.arena.settings import ArenaSettings
from tasks.arena.tasks_tab import Tasks, task_routes
from tasks.arena.uploads import Examples, Uploads
from tasks.arena.words import LANGUAGES, check_words, page_words, speak
from tasks.images.small import MEDIA_TYPE, thumb
from tasks.look import POLICY
from tasks.runtime.serving import AsgiMessage, Bounded, Receive, Send, is_from_elsewhere

COOKIE, TERMS_COOKIE = "arena_browser", "arena_terms"
_HEADERS = {
    "content-security-policy": POLICY + "; connect-src 'self'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
_EVENT_BYTES_MAX = 1024 * 1024
"""A message, or another action of the page."""
_DECODED_AT_ONCE_MAX = 2
"""One upload may take 0.35 GB of memory while it is decoded."""
_UPLOADS_MAX, _UPLOADS_OF_ONE_MAX = 16, 2
"""Uploads that are read at once: of all visitors, and of one."""
_ON_ANSWERS = frozenset({"vote", "reveal", "reason", "react", "flag", "again", "anew", "share"})
"""Actions on the answers that a page shows; the others are on the whole conversation."""
_TIDY_SECONDS = 30.0
_ASKED_SECONDS = 0.001
"""Time in which the models are asked before the page of a message is made, which keeps the process busy."""
_PNG = "image/png"
_UNLISTED = {"x-robots-tag": "noindex, nofollow, noarchive", "cache-control": "no-store"}
"""Headers of what somebody shares: no search engine lists it, and it is gone as soon as it is taken back."""


class Said(BaseModel):
    """A message."""

    number: str = Field(default="", max_length=64)
    mode: Mode
    chosen: list[str] = Field(default=[], max_length=2)
    text: str
    answers: tuple[int, int] = (0, 0)
    """The last answers that the page shows, as `ArenaConversation.state` has them; none in a new conversation."""
    pictures: list[str] = Field(default=[], max_length=40)
    sampling: dict[str, float] = Field(default={}, max_length=3)
    sure: bool = False
    """Whether the visitor sends it although it looks as if it had personal data."""


class Act(BaseModel):
    """A vote, its reason, or another action on a conversation."""

    kind: RecordType | None = None
    chips: list[str] = Field(default=[], max_length=20)
    """Keys of reasons."""
    words: str = ""
    comments: list[str] = Field(default=[], max_length=2)
    """On each side, or on the one answer of a reaction."""
    place: int = 0
    answers: tuple[int, int] = (0, 0)
    """The answers that the page shows, or the one that a reaction is to: as `ArenaConversation.state` has them."""
    goes_on: bool = False
    """Whether the talk goes on after a vote, with the names hidden."""
    withdrawn: bool = False
    """Whether a reaction is taken back."""


class ServedArena:
    """An arena behind its routes."""

    def __init__(
        self, arena: Arena, pages: ArenaPages, uploads: Uploads, examples: Examples | None, starters: Examples | None,
        captcha: Captcha | None, login: Login | None,
    ) -> None:  # fmt: skip
        self.arena, self.pages, self.uploads, self.examples, self.starters = arena, pages, uploads, examples, starters
        self.captcha, self.login = captcha, login
        self._uploading = list[str]()
        self._decoding = asyncio.Semaphore(_DECODED_AT_ONCE_MAX)

    def visit(self, request: Request) -> Visit:
        """Who asks; without the cookie, a visit that owns nothing. Raises Refused where a login is needed first."""
        visitors, client = self.arena.visitors, request.client.host if request.client else ""
        if self.login:
            owner = self.login.owner(request)
        else:
            owner = visitors.owner(client, request.headers, request.cookies.get(COOKIE, ""))
        terms = self.pages.accepted(request.cookies.get(TERMS_COOKIE, ""))
        proven = self.captcha is None or self.captcha.holds(request.cookies.get(CAPTCHA_COOKIE, ""), owner)
        return Visit(owner, visitors.address(client, request.headers), terms is not None, proven, terms)

    def first_example(self, place: int) -> Response:
        """The image that stands for a kind on the page."""
        return _thumb_of(self.examples, self._kind(place))

    def starter_picture(self, name: str) -> Response:
        """A small copy of the picture of a starter prompt."""
        return _thumb_of(self.starters, name)

    async def talk(self, mode: Mode, request: Request) -> Response:
        """The page of a mode."""
        visit = self.visit(request)
        if not visit.proven:
            return RedirectResponse(CAPTCHA_PAGE, 303)
        return HTMLResponse(self.pages.talk(mode, None, visit))

    def conversation(self, number: str, request: Request) -> Response:
        """The page of a conversation."""
        visit = self.visit(request)
        try:
            conversation = self.arena.find(number, visit.owner)
        except Refused as refused:
            return HTMLResponse(self.pages.page("told.html", "", told=str(refused)), 404)
        return HTMLResponse(self.pages.talk(conversation.mode, conversation, visit))

    async def found(self, number: str, visit: Visit) -> ArenaConversation:
        """A visitor's conversation; the log and its images are read on a thread. Raises Refused."""
        return await run_in_threadpool(self.arena.find, number, visit.owner)

    async def events(self, conversation: ArenaConversation) -> AsyncIterator[bytes]:
        """Answers while they come, then the whole conversation."""
        sent = dict[str, str]()
        async for _ in self.arena.updates(conversation):
            if conversation.answering:
                yield _event("answers", answer_changes(conversation, sent, self.arena.before(conversation)))
        yield _event("ended", self.pages.shown(conversation))

    async def say(self, said: Said, request: Request) -> Response:
        """Take a message."""
        visit = self.visit(request)
        spoken = await self.found(said.number, visit) if said.number else None
        if spoken:
            _require_shown(spoken, said.answers)
        pictures = partial(self.uploads.collect, said.pictures, visit.owner)
        try:
            opened = await self.arena.say(
                spoken, said.mode, said.chosen, said.text, pictures, visit, said.sampling, said.sure
            )  # fmt: skip
        except ConversationEnded:
            self.uploads.discard(said.pictures, visit.owner)
            raise
        self.uploads.discard(said.pictures, visit.owner)
        await asyncio.sleep(_ASKED_SECONDS)
        return JSONResponse(self.pages.shown(opened))

    async def act(self, number: str, what: str, act: Act, request: Request) -> Response:
        """Do something with a conversation."""
        visit = self.visit(request)
        conversation, arena, kind = await self.found(number, visit), self.arena, act.kind or RecordType.CHAT
        reaction = AnswerReaction(kind, act.answers[0], act.place, tuple(act.chips), "".join(act.comments[:1]))
        done: dict[str, Callable[[], Awaitable[Any]]] = {
            "vote": lambda: arena.vote(conversation, kind, visit, act.goes_on),
            "reveal": lambda: arena.reveal(conversation, visit),
            "reason": lambda: arena.give_reason(conversation, act.chips, act.words, act.comments, visit),
            "react": lambda: arena.react(conversation, reaction, visit, act.withdrawn),
            "flag": lambda: arena.flag(conversation, act.place, visit),
            "stop": lambda: arena.stop(conversation, visit),
            "again": lambda: arena.regenerate(conversation, visit),
            "anew": lambda: arena.ask_again(conversation, visit),
            "share": lambda: arena.share(conversation, visit),
            "unshare": lambda: arena.unshare(conversation, visit),
            "forget": lambda: arena.forget(conversation, visit),
        }
        if what not in done:
            raise Refused("not_understood")
        if what in _ON_ANSWERS:
            turn, place = act.answers[0], act.place
            _require_shown(conversation, act.answers, conversation.answer_to(turn, place) if what == "react" else None)
        await done[what]()
        explained = what == "reason" or (what == "react" and (reaction.reasons or reaction.comment))
        thanks = {"notice": page_words()["reason_saved"]} if explained else {}
        return JSONResponse(self.pages.shown(conversation) | thanks)

    async def upload(self, request: Request) -> Response:
        """Take an image; the body is its file."""
        visit = self.visit(request)
        address, visitor = visit.address, self.arena.visitors.logged(visit.address)
        self._check_images_taken(visit)
        busy = len(self._uploading) >= _UPLOADS_MAX or self._uploading.count(address) >= _UPLOADS_OF_ONE_MAX
        if busy or self.uploads.wait_seconds(visitor):
            return _told("uploads_wait", 429)
        self._uploading.append(address)
        try:
            content = await request.body()
            async with self._decoding:
                name = await run_in_threadpool(self.uploads.take, content, visit.owner, visitor)
        finally:
            self._uploading.remove(address)
        return JSONResponse({"name": name})

    def _check_images_taken(self, visit: Visit) -> None:
        """Raises Refused for a visitor of whom no image is taken now."""
        if not visit.owner or not visit.proven:
            raise Refused("captcha_first" if visit.owner else "cookies")
        if not self.arena.images_most():
            raise Refused("no_vision")

    def _kind(self, place: int) -> str:
        kinds = list(self.examples.kinds) if self.examples else []
        return kinds[place] if 0 <= place < len(kinds) else ""

    async def example(self, place: int, request: Request) -> Response:
        """Put an example image of a kind beside the next message."""
        return await self._drawn(self.examples, self._kind(place), request)

    async def starter(self, name: str, request: Request) -> Response:
        """Put the picture of a starter prompt beside the next message."""
        return await self._drawn(self.starters, name, request)

    async def _drawn(self, examples: Examples | None, kind: str, request: Request) -> Response:
        visit = self.visit(request)
        visitor = self.arena.visitors.logged(visit.address)
        if examples is None:
            raise Refused("no_example")
        self._check_images_taken(visit)
        if self.uploads.wait_seconds(visitor):
            return _told("uploads_wait", 429)
        picture = await run_in_threadpool(examples.draw, kind)
        return JSONResponse({"name": self.uploads.keep(picture, visit.owner, visitor)})

    def shared(self, address: str) -> Response:
        """The read-only page of a conversation; one page says that there is none, or that it was taken back."""
        try:
            page, status = self.pages.shared(address, self.arena.past.shared(address)), 200
        except Refused as refused:
            page = self.pages.page("told.html", "", told=str(refused))
            status = 404 if refused.key == "no_link" else 410
        return HTMLResponse(page, status, _UNLISTED)

    def shared_picture(self, address: str, place: int) -> Response:
        """An image of a read-only page."""
        with suppress(Refused):
            if png := self.arena.past.shared_picture(address, place):
                return Response(png, headers=_UNLISTED, media_type=_PNG)
        return Response(status_code=404, headers=_UNLISTED)

    def picture(self, number: str, place: int, request: Request) -> Response:
        """An image of a conversation."""
        with suppress(Refused):
            prompts = self.arena.find(number, self.visit(request).owner).prompts
            pictures = [picture for prompt in prompts for picture in prompt.pictures]
            if 0 <= place < len(pictures):
                cached = {"cache-control": "private, max-age=3600"}
                return Response(pictures[place].png, headers=cached, media_type=_PNG)
        return Response(status_code=404)


def make_app(
    arena: Arena, uploads: Uploads, settings: ArenaSettings, host: str, *, terms: str = "",
    examples: Examples | None = None, starters: Examples | None = None, board: Board | None = None,
    tasks: Tasks | None = None, captcha: Captcha | None = None, login: Login | None = None,
) -> FastAPI:  # fmt: skip
    """The application to serve, on the address `host`. `terms`: Markdown, by default what the languages say."""
    check_words()
    more = [Tab("board", "/board")] if board else []
    more += [Tab("tasks", "/tasks")] if tasks else []
    arena.texts.terms_of_start = terms
    pages = ArenaPages(arena, settings, list(examples.kinds) if examples else [], more)

    async def tidy() -> None:
        while True:
            await asyncio.sleep(_TIDY_SECONDS)
            arena.tidy()
            uploads.purge()

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        tidying = asyncio.create_task(tidy())
        yield
        tidying.cancel()

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=running)
    served = ServedArena(arena, pages, uploads, examples, starters, captcha, login)
    _page_routes(app, served)
    _action_routes(app, served)
    _image_routes(app, served)
    if board:
        board_routes(app, pages, board)
    if tasks:
        task_routes(app, pages, tasks)
    if captcha:
        captcha_routes(app, pages, captcha, lambda request: served.visit(request).owner)
    if login:
        login_routes(app, login, settings.proxies > 0)
    refusal_routes(app, arena, pages, served.visit, login is not None)
    app.add_exception_handler(RequestValidationError, lambda *_: _told("not_understood", 422))
    app.add_exception_handler(400, lambda *_: _told("not_understood", 422))
    app.add_exception_handler(
        404, lambda *_: HTMLResponse(pages.page("told.html", "", told=page_words()["not_found"]), 404)
    )
    languages = arena.texts.languages
    is_own_host = partial(is_own, host, settings)
    app.add_middleware(PageGuard, known=is_own_host, proxied=settings.proxies > 0, languages=languages)
    app.add_middleware(Bounded, bytes_max=lambda path: UPLOAD_BYTES_MAX if path == "/pictures" else _EVENT_BYTES_MAX)
    return app


def _page_routes(app: FastAPI, served: ServedArena) -> None:
    for mode, address in ADDRESSES.items():
        app.get(address, name=mode)(partial(served.talk, mode))
    app.get("/c/{number}")(served.conversation)
    app.get("/s/{address}")(served.shared)
    app.get("/s/{address}/pictures/{place}")(served.shared_picture)

    @app.get("/health")
    def health() -> JSONResponse:
        health_state = served.arena.health()
        return JSONResponse(health_state, 200 if health_state["status"] == "ok" else 503)

    @app.get("/static/{name}")
    def static(name: str) -> Response:
        path = ARENA_FILES.get(name)
        return FileResponse(path, headers={"cache-control": "max-age=3600"}) if path else Response(status_code=404)

    @app.get("/mine")
    def mine(request: Request) -> Response:
        listed = served.arena.listed(served.visit(request).owner)
        return HTMLResponse(served.pages.page("mine.html", "mine", listed=listed, log_out=served.login is not None))

    @app.get("/mine.json")
    def export(request: Request) -> Response:
        listed = served.arena.listed(served.visit(request).owner, whole=True)
        saved = {"content-disposition": 'attachment; filename="my-conversations.json"', "cache-control": "no-store"}
        return Response(orjson.dumps(listed, option=orjson.OPT_INDENT_2), headers=saved, media_type="application/json")

    @app.get("/c/{number}/events")
    async def events(number: str, request: Request) -> Response:
        conversation = await served.found(number, served.visit(request))
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(served.events(conversation), media_type="text/event-stream", headers=headers)


def _action_routes(app: FastAPI, served: ServedArena) -> None:
    app.post("/say")(served.say)
    app.post("/c/{number}/{what}")(served.act)

    @app.post("/terms")
    def accept(version: str | None = None) -> Response:
        accepted = served.pages.accepted_now(version)
        response = Response(status_code=204)
        response.set_cookie(TERMS_COOKIE, accepted, max_age=YEAR_SECONDS, httponly=True, samesite="lax")
        return response

    @app.post("/mine/forget")
    async def forget_all(request: Request) -> Response:
        await served.arena.forget_all(served.visit(request))
        return JSONResponse({"notice": page_words()["forgotten_all"]})


def _image_routes(app: FastAPI, served: ServedArena) -> None:
    app.get("/c/{number}/pictures/{place}")(served.picture)
    app.post("/pictures")(served.upload)
    app.get("/examples/{place}")(served.first_example)
    app.post("/examples/{place}")(served.example)
    app.get("/starters/{name}")(served.starter_picture)
    app.post("/starters/{name}")(served.starter)

    @app.get("/pictures/{name}")
    def waiting(name: str, request: Request) -> Response:
        content = served.uploads.content(name, served.visit(request).owner)
        return Response(content, 200 if content else 404, {"cache-control": "no-store"}, _PNG)

    @app.delete("/pictures/{name}")
    def remove(name: str, request: Request) -> Response:
        served.uploads.discard([name], served.visit(request).owner)
        return Response(status_code=204)


def _require_shown(
    conversation: ArenaConversation, shown: tuple[int, int], answer: StreamedAnswer | None = None
) -> None:  # fmt: skip
    """Raises Refused for what is on answers that another tab has followed or made anew since a page showed them.

    `answer`: the one that it is on; by default it is on the last ones.
    """
    turn, _ = shown
    if shown != ((turn, answer.regenerated) if answer else conversation.state):
        raise Refused("answers_changed")


def _thumb_of(examples: Examples | None, kind: str) -> Response:
    """A small copy of the first picture of a kind; 404 where there is none."""
    first = examples.first(kind) if examples and kind in examples.kinds else None
    content = thumb(first.png) if first else None
    return Response(content, 200 if content else 404, {"cache-control": "max-age=3600"}, MEDIA_TYPE)


def _event(name: str, content: dict[str, Any]) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + orjson.dumps(content) + b"\n\n"


def _told(key: str, status: int) -> Response:
    return JSONResponse({"refused": page_words()[key], "key": key}, status)


class PageGuard:
    """Refuses what other sites send, and adds the policy, other headers and the browser's cookie."""

    def __init__(
        self, app: Any, known: Callable[[str], bool], proxied: bool, cookie: bool = True,
        languages: Callable[[], Sequence[str]] = lambda: LANGUAGES,
    ) -> None:  # fmt: skip
        self._app, self._known, self._proxied, self._cookie, self._languages = app, known, proxied, cookie, languages

    async def __call__(self, scope: AsgiMessage, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        speak(dict(scope["headers"]).get(b"accept-language", b"").decode("latin-1"), self._languages())
        if is_from_elsewhere(scope["method"], scope["headers"], self._known, self._proxied):
            await Response(page_words()["own_page_only"], 403)(scope, receive, send)
            return
        headers = dict(_HEADERS)
        if scope["method"] == "GET" and (_is_page(scope["path"]) or not self._cookie):
            headers["cache-control"] = "no-store"
            if self._cookie and not cookie_of(scope, COOKIE):
                token = secrets.token_urlsafe(24)
                headers["set-cookie"] = f"{COOKIE}={token}; Path=/; HttpOnly; SameSite=Lax; Max-Age={YEAR_SECONDS}"

        is_secure = scope["scheme"] == "https" or (self._proxied and _forwarded_scheme(scope) == "https")

        async def answer(message: AsgiMessage) -> None:
            if message["type"] == "http.response.start":
                app_headers = message.get("headers", [])
                app_header_names = {name for name, _ in app_headers} - {b"set-cookie"}
                added = [(name.encode(), value.encode()) for name, value in headers.items()]
                # those of the application first, then those that it lacks
                all_headers = [*app_headers, *(header for header in added if header[0] not in app_header_names)]
                message["headers"] = [_for_https(header) for header in all_headers] if is_secure else all_headers
            await send(message)

        scope["headers"] = forwarded_in_one(scope["headers"])
        await self._app(scope, receive, answer)


def _forwarded_scheme(scope: AsgiMessage) -> str:
    """The scheme that a browser came with, as the proxy in front says it; empty where it says none."""
    schemes: bytes = dict(scope["headers"]).get(b"x-forwarded-proto", b"")
    return schemes.decode("latin-1").partition(",")[0].strip()


def _for_https(header: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    """A header of a page that came by https: browsers send its cookies by https alone."""
    name, value = header
    needs_mark = name.lower() == b"set-cookie" and b"; secure" not in value.lower()
    return (name, value + b"; Secure") if needs_mark else header


def _is_page(path: str) -> bool:
    inner = path.count("/") <= 2 and path.startswith(("/c/", "/mine", "/board", "/tasks", CAPTCHA_PAGE))
    return inner or path in ADDRESSES.values()
