"""The admin page: its own application, on an address of its own, behind a token of the environment."""

import hmac
import os
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jinja2
from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from schemas.errors import BadInput, CurateError, StoreUnwell
from tasks.arena.app import PageGuard
from tasks.arena.entrance import cookie_hash
from tasks.arena.guards.requests import form_of, is_own
from tasks.arena.page import SERVED
from tasks.arena.rounds import Arena
from tasks.arena.settings import ArenaSettings
from tasks.arena.words import page_words
from tasks.runtime.serving import Bounded, Message, Receive, Send
from tasks.runtime.untrusted import one_line

TOKEN_VARIABLE = "ARENA_ADMIN_TOKEN"  # noqa: S105 - the name of it
TOKEN_CHARACTERS_MIN = 16
_COOKIE = "arena_admin"
_FORM_BYTES_MAX = 8192
CHANGES = 20
"""Changes that are shown, of the audit log."""
_HERE = Path(__file__).parent


def admin_token() -> str:
    """The token of the environment; empty for no admin page. Raises BadInput for one that can be guessed."""
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if token and len(token) < TOKEN_CHARACTERS_MIN:
        raise BadInput(
            f"{TOKEN_VARIABLE} has {len(token)} characters; give at least {TOKEN_CHARACTERS_MIN}, such as "
            "`openssl rand -hex 16` prints, or unset it to have no admin page"
        )
    return token


class Admin:
    """Everything that the page shows and does."""

    def __init__(self, arena: Arena, token: str) -> None:
        self.arena, self._token = arena, cookie_hash(token)
        loader = jinja2.FileSystemLoader(_HERE)
        self._page = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
        self._page.filters |= {"line": one_line, "told": _told}

    def may(self, request: Request) -> bool:
        """Whether the browser, or a program by `Authorization: Bearer`, has the token."""
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        given = [request.cookies.get(_COOKIE, ""), cookie_hash(bearer)]
        return any(hmac.compare_digest(each.encode("utf-8", "replace"), self._token.encode()) for each in given)

    def enter(self, token: str) -> Response:
        """Take a token."""
        if not hmac.compare_digest(cookie_hash(token.strip()), self._token):
            return Response(status_code=403)
        response = RedirectResponse("/", 303)
        response.set_cookie(_COOKIE, self._token, httponly=True, samesite="strict")
        return response

    def figures(self) -> dict[str, Any]:
        """All that the page shows, as JSON takes it."""
        arena, state = self.arena, self.arena.steering.now()
        hours = arena.figures.hours()
        try:
            changes, broken = arena.steering.audited()[-CHANGES:], ""
        except StoreUnwell as error:
            changes, broken = [], str(error)
        return {
            "health": arena.health(),
            "waiting": arena.waiting(),
            "refusals": dict(arena.refusals.most_common()),
            "usd_today": round(arena.figures.usd_today(), 6),
            "usd_a_day_max": state.usd_a_day_max,
            "sampling": arena.pool.sampling_in_words(),
            "models": [self._model(model.name, model.weight) for model in arena.pool.models],
            "hours": {hour: {name: vars(each) for name, each in counts.items()} for hour, counts in hours.items()},
            "changes": [(f"{each.at:%Y-%m-%d %H:%M}", each.about) for each in reversed(changes)],
            "audit_log_broken": broken,
            "appeals": [each.model_dump(mode="json") for each in reversed(state.appeals)],
        }

    def _model(self, name: str, weight: float) -> dict[str, Any]:
        """One model; its counts are of the hours that are shown."""
        state, pool, figures = self.arena.steering.now(), self.arena.pool, self.arena.figures
        by_hour = [counts.get(name) for counts in figures.hours().values()]
        own = [each for each in by_hour if each]
        drawn, expected = figures.exposure().get(name, (0, 0.0))
        return {
            "name": name, "weight": state.weights.get(name, weight), "paused": name in state.paused,
            "down_seconds": round(pool.down_seconds(name)), "failures": pool.failures[name],
            "answers": sum(each.answers for each in own), "votes": sum(each.votes for each in own),
            "votes_by_hour": [each.votes if each else 0 for each in reversed(by_hour)],
            "usd": round(sum(each.usd for each in own), 6) if figures.priced(name) else None, "drawn": drawn,
            "expected": round(expected, 1),
        }  # fmt: skip

    def shown(self, done: str = "", status: int = 200) -> Response:
        """The page, with a line about what was done."""
        return HTMLResponse(self._page.get_template("admin.html").render(self.figures(), done=done), status)

    def do(self, what: str, form: Mapping[str, Sequence[str]]) -> str:
        """Apply a form; returns a line that says so. Raises BadInput."""
        model, value = (form.get(name, [""])[0].strip() for name in ("model", "value"))
        steering = self.arena.steering
        if what in ("pause", "resume", "weight") and all(each.name != model for each in self.arena.pool.models):
            raise BadInput(f"no model {one_line(model, 60)!r} is served here")
        match what:
            case "pause" | "resume":
                steering.pause(model, what == "pause")
            case "weight":
                steering.weigh(model, _number(value))
            case "budget":
                steering.limit(_number(value))
            case "appeal" if value.isdecimal():
                steering.close_appeal(int(value[:12]))
            case _:
                raise BadInput("this form is not known; reload the page")
        return "Done. It holds from the next message on, and is in the audit log."


def _told(key: str) -> str:
    """The words that a visitor was told, without values."""
    return re.sub(r"\{\w+\}", "…", str(page_words().get(key, key)))


def _number(text: str) -> float | None:
    """A number of a form; None for an empty field."""
    if text and not re.fullmatch(r"\d{1,9}(\.\d{1,6})?", text, re.ASCII):
        raise BadInput(f"{one_line(text, 40)!r} is no number from 0, such as 0.5 or 20")
    return float(text) if text else None


def admin_app(arena: Arena, token: str, settings: ArenaSettings) -> FastAPI:
    """The application of the admin page. Without the token every address but the form is 403, with nothing said."""
    admin = Admin(arena, token)
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/")
    async def page(request: Request) -> Response:
        if admin.may(request):
            return await run_in_threadpool(admin.shown)
        return HTMLResponse((_HERE / "token.html").read_text("utf-8"), 403)

    @app.get("/figures.json")
    async def figures(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(admin.figures)) if admin.may(request) else Response(status_code=403)

    @app.get("/static/{name}")
    def static(name: str) -> Response:
        return FileResponse(SERVED[name]) if name.endswith(".css") and name in SERVED else Response(status_code=403)

    @app.post("/")
    async def enter(request: Request) -> Response:
        return admin.enter((await form_of(request)).get("token", [""])[0])

    @app.post("/{what}")
    async def do(what: str, request: Request) -> Response:
        if not admin.may(request):
            return Response(status_code=403)
        try:
            done = await run_in_threadpool(admin.do, what, await form_of(request))
        except CurateError as error:
            return await run_in_threadpool(admin.shown, str(error), 422)
        return await run_in_threadpool(admin.shown, done)

    app.add_exception_handler(HTTPException, lambda *_: Response(status_code=403))
    app.add_middleware(PageGuard, known=partial(is_own, settings.admin_host, settings), proxied=False, cookie=False)
    app.add_middleware(Bounded, bytes_max=lambda path: _FORM_BYTES_MAX)
    return app


class Beside:
    """ASGI: requests that come in on the port of the admin page go to it, all others to the arena."""

    def __init__(self, app: FastAPI, admin: FastAPI, port: int) -> None:
        self._app, self._admin, self._port = app, admin, port

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """One request."""
        of_admin = scope["type"] == "http" and (scope.get("server") or ("", None))[1] == self._port
        await (self._admin if of_admin else self._app)(scope, receive, send)
