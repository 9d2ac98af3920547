"""Refusals: told with their reason, counted by it, and open to an appeal that the operators read."""

from collections.abc import Callable

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from schemas.errors import CurateError
from schemas.upkeep import APPEAL_CHARACTERS_MAX
from tasks.arena.answers import SURROGATES
from tasks.arena.entrance import Refused, Visit
from tasks.arena.guards.limits import PerMinute
from tasks.arena.rounds import Arena
from tasks.arena.words import page_words

_APPEALS_A_MINUTE = 3


class Objection(BaseModel):
    """Words of a refused visitor to the operators."""

    key: str = Field(default="", max_length=40)
    words: str = Field(max_length=APPEAL_CHARACTERS_MAX)


def refusal_routes(app: FastAPI, arena: Arena, visit: Callable[[Request], Visit]) -> None:
    """The answer to each refusal, and the address of appeals; both keep nothing that says who was refused."""
    sent = PerMinute()

    @app.exception_handler(Refused)
    async def refused(_: Request, error: Exception) -> Response:
        key = error.key if isinstance(error, Refused) else ""
        arena.counts.refused += 1
        arena.refusals[key] += 1
        return JSONResponse({"refused": str(error), "key": key}, 409)

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
