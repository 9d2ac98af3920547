"""The application in one process: whose address counts, how much one visitor may upload, what a quick click meets."""

import asyncio
import threading
import time
from types import SimpleNamespace

import httpx
import pytest

from schemas.asked_model import ArenaSettings
from schemas.items.conversation import RecordType
from tasks.arena.app import END_READ_SECONDS, Streams
from tasks.arena.conversations import Mode
from tasks.arena.uploads import UPLOADS_A_MINUTE_MAX, Uploads
from tests.built_arena import image_file


def test_a_second_line_of_forwarded_addresses_counts_and_uploads_are_limited(build, admission, tmp_path, monkeypatch):
    monkeypatch.setenv("GRADIO_ANALYTICS_ENABLED", "False")
    gr = pytest.importorskip("gradio")
    from tasks.arena.app import Pictures, make_app
    from tasks.arena.events import COOKIE

    built = build()
    monkeypatch.setattr(built.arena.visitors, "_proxies", 1)
    at_once, most, lock = [0], [0], threading.Lock()

    class Slow(Uploads):
        def take(self, content, owner, visitor=""):
            with lock:
                at_once[0] += 1
                most[0] = max(most[0], at_once[0])
            time.sleep(0.05)
            with lock:
                at_once[0] -= 1
            return super().take(b"", owner, visitor)

    uploads = Slow(admission, tmp_path / "private")

    async def visits():
        with gr.Blocks(analytics_enabled=False) as blocks:
            gr.Markdown("")
        app = make_app(built.arena, blocks, uploads, Pictures(tmp_path), ArenaSettings(), "127.0.0.1")
        transport, cookies = httpx.ASGITransport(app), {COOKIE: "mine"}
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", cookies=cookies) as client:

            async def upload(forged, seen):
                lines = [("X-Forwarded-For", forged), ("X-Forwarded-For", seen)]
                files = {"files": ("a.png", b"x")}
                return (await client.post("/gradio_api/upload", files=files, headers=lines)).status_code

            await asyncio.gather(*(upload("10.0.0.1", f"198.51.100.{number}") for number in range(6)))
            assert most[0] == 2, "two are decoded at once"
            for _ in range(UPLOADS_A_MINUTE_MAX):
                Uploads.take(uploads, b"", "mine", built.arena.visitors.logged("203.0.113.9"))
            assert [await upload(f"10.0.0.{number}", "203.0.113.9") for number in range(2)] == [429, 429]
            assert await upload("203.0.113.9", "198.51.100.99") == 200

    asyncio.run(visits())


def test_one_visitors_uploads_push_out_none_of_others(admission, tmp_path, monkeypatch):
    monkeypatch.setattr("tasks.arena.uploads._WAITING_MAX", 60)
    uploads = Uploads(admission, tmp_path)
    mine = uploads.take(image_file(), "me", "here")
    for _ in range(100):
        uploads.take(b"", "other", "there")
    assert len(uploads.collect([mine], "me")) == 1 and len(list(tmp_path.rglob("*.png"))) == 1 + 40


def test_an_event_after_the_end_of_its_browsers_stream_is_answered_when_the_page_has_read_that_end(monkeypatch):
    held: list[float] = []

    async def sleep(seconds):
        held.append(seconds)

    monkeypatch.setattr("tasks.arena.app.asyncio.sleep", sleep)
    start = {"type": "http.response.start", "status": 200}

    async def send(*bodies: bytes) -> None:
        streams = Streams()
        for body in bodies:
            part = {"type": "http.response.body", "body": body, "more_body": True}
            await streams.before("/gradio_api/queue/data", "mine", part)
        for path, browser in (("join", "other"), ("data", "mine"), ("join", "mine")):
            await streams.before(f"/gradio_api/queue/{path}", browser, start)

    asyncio.run(send(b'data: {"msg":"process_completed","output":"\\"msg\\":\\"close_stream\\""}'))
    assert held == [], "no visitor and no model can say that a stream has ended"
    asyncio.run(send(b'data: {"msg":"process_completed"}', b'data: {"msg":"close_stream","event_id":null}'))
    assert len(held) == 1 and 0 < held[0] <= END_READ_SECONDS


def test_a_message_right_after_new_round_is_said_in_the_new_round(build, monkeypatch):
    gr = pytest.importorskip("gradio")
    from tasks.arena.events import COOKIE, Page, VisitorTab
    from tasks.arena.page import _tab

    built, talk = build(), VisitorTab()
    page = Page(built.arena, None, None, None)
    request = SimpleNamespace(cookies={COOKIE: "mine"}, client=None, headers={})
    monkeypatch.setattr(page, "_uploads", SimpleNamespace(collect=lambda *_: [], discard=lambda *_: None))

    async def say(parts, text):
        async for _ in page.say(parts, {"text": text}, talk, page.visit(request), ()):
            pass
        return talk.conversation

    async def visits():
        with gr.Blocks(analytics_enabled=False):
            parts = _tab(built.arena, Mode.BATTLE, False)
        first = await say(parts, "One?")
        await page.vote(parts, RecordType.TIE_VOTE, talk, [], "", request)
        stopped = asyncio.Event()

        async def slow(conversation, visit):
            await stopped.wait()

        monkeypatch.setattr(built.arena, "stop", slow)
        new = asyncio.create_task(page.new(parts, talk, request))
        await asyncio.sleep(0)
        second = await say(parts, "Two?")
        stopped.set()
        await new
        assert first.closed and second is not first and talk.conversation is second
        assert [prompt.text for prompt in second.prompts] == ["Two?"] and all(side.logged for side in second.sides)

    asyncio.run(visits())
