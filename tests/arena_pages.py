"""A visitor of an arena's application in this process, without a server and without a browser."""

import httpx

from tasks.arena.app import make_app
from tasks.arena.settings import ArenaSettings
from tasks.arena.uploads import Uploads


class Page:
    """A visitor of an arena in this process."""

    def __init__(self, app, language: str = "en"):
        headers = {"accept-language": language}
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://127.0.0.1", headers=headers
        )
        self.number, self.answers = "", (0, 0)
        """The talk, and the answers that this page shows last."""

    async def begin(self) -> None:
        """Get the cookie, and accept the terms."""
        await self.client.get("/")
        await self.client.post("/terms")

    async def say(self, text: str, pictures=(), **options) -> dict:
        said = {"mode": "battle", "text": text, "number": self.number, "answers": self.answers}
        said |= {"pictures": list(pictures), **options}
        told = (await self.client.post("/say", json=said)).json()
        self.number, self.answers = told["number"], told["answers"]
        await self.client.get(f"/c/{self.number}/events")
        return told

    async def act(self, what: str, **values) -> dict:
        click = {"answers": self.answers} | values
        told = (await self.client.post(f"/c/{self.number}/{what}", json=click)).json()
        self.answers = told.get("answers", self.answers)
        return told

    async def share(self) -> str:
        """Share the talk; returns the address of its link."""
        bar = (await self.act("share"))["bar"]
        return bar.partition('href="/s/')[2].partition('"')[0]


def application(built, admission, **options):
    return make_app(built.arena, Uploads(admission), ArenaSettings(), "127.0.0.1", **options)


async def stranger(app, path: str) -> httpx.Response:
    """What somebody without a cookie gets."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        return await client.get(path)
