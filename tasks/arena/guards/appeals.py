"""Refusals: told with their reason, counted by it, and open to an appeal that the operators read."""

from collections.abc import Callable

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from schemas.errors import CurateError
from schemas.upkeep import APPEAL_CHARACTERS_MAX
from tasks.arena.answers import SURROGATES
from tasks.arena.entrance import Refused, Visit
from tasks.arena.guards.requests import PerMinute
from tasks.arena.page import ArenaPages
from tasks.arena.rounds import Arena
from tasks.arena.words import page_words

_APPEALS_A_MINUTE = 3
_STATUS = {"login_first": 403, "login_failed": 403, "login_down": 503}


class Objection(BaseModel):
    """Words of a refused visitor to the operators."""

    key: str = Field(default="", max_length=40)
    words: str = Field(max_length=APPEAL_CHARACTERS_MAX)


def refusal_routes(
    app: FastAPI, arena: Arena, pages: ArenaPages, visit: Callable[[Request], Visit], login: bool
) -> None:
    """The answer to each refusal, and the address of appeals; both keep nothing that says who was refused.

    Who asked for a page gets one, and everybody else JSON.
    """
    sent = PerMinute()

    @app.exception_handler(Refused)
    async def refused(request: Request, error: Exception) -> Response:
        key = error.key if isinstance(error, Refused) else ""
        arena.counts.refused += 1
        arena.refusals[key] += 1
        status = _STATUS.get(key, 409)
        if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
            return HTMLResponse(pages.page("told.html", "", told=str(error), log_in=login and key in _STATUS), status)
        return JSONResponse({"refused": str(error), "key": key}, status)

    @app.post("/appeal")
    async def appeal(said: Objection, request: Request) -> Response:
        asking, words = visit(request), SURROGATES.sub("\ufffd", said.words).strip()
        if wait := sent.wait_seconds({asking.address: _APPEALS_A_MINUTE}):
            raise Refused("too_many", seconds=f"{wait:.0f}")
        if not words:
            raise Refused("write_something")
        try:
            key = said.key if isinstance(page_words().get(said.key), str) else ""
            await run_in_threadpool(arena.steering.appeal, key, words)
        except CurateError:
            raise Refused("full") from None
        return JSONResponse({"notice": page_words()["appeal_sent"]})
