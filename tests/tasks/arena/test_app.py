"""The application in one process: whose address counts, and how much one visitor may upload."""

import asyncio
import threading
import time

import httpx
import pytest

from tasks.arena.entrance.uploads import UPLOADS_A_MINUTE_MAX, Uploads
from tests.built_arena import image_file


def test_a_second_line_of_forwarded_addresses_counts_and_uploads_are_limited(build, door, tmp_path, monkeypatch):
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

    uploads = Slow(door, tmp_path / "private")

    async def visits():
        with gr.Blocks(analytics_enabled=False) as blocks:
            gr.Markdown("")
        app = make_app(built.arena, blocks, uploads, Pictures(tmp_path), 4)
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


def test_one_visitors_uploads_push_out_none_of_others(door, tmp_path, monkeypatch):
    monkeypatch.setattr("tasks.arena.entrance.uploads._WAITING_MAX", 60)
    uploads = Uploads(door, tmp_path)
    mine = uploads.take(image_file(), "me", "here")
    for _ in range(100):
        uploads.take(b"", "other", "there")
    assert len(uploads.collect([mine], "me")) == 1 and len(list(tmp_path.rglob("*.png"))) == 1 + 40
