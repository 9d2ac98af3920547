"""The application in one process: whose address counts, how much one visitor may upload, what stays in memory."""

import asyncio
import threading
import time
from dataclasses import replace

import httpx
import pytest

from schemas.items.conversation import RecordType
from tasks.arena.app import COOKIE, make_app
from tasks.arena.entrance import Refused
from tasks.arena.settings import ArenaSettings
from tasks.arena.uploads import UPLOADS_A_MINUTE_MAX, WAITING_BYTES_MAX, Uploads
from tests.built_arena import VISIT, image_file

LEFT = RecordType.LEFT_VOTE


def test_uploads_are_limited_by_the_address_that_the_last_proxy_saw(build, admission):
    built = build(proxies=1, vision=("good-model",))
    at_once, most, lock = [0], [0], threading.Lock()
    photo = image_file()

    class Slow(Uploads):
        def take(self, content, owner, visitor=""):
            with lock:
                at_once[0] += 1
                most[0] = max(most[0], at_once[0])
            time.sleep(0.05)
            with lock:
                at_once[0] -= 1
            return super().take(content, owner, visitor)

    uploads = Slow(admission)

    async def visits():
        app = make_app(built.arena, uploads, ArenaSettings(), "127.0.0.1")
        transport, cookies = httpx.ASGITransport(app), {COOKIE: "mine"}
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", cookies=cookies) as client:

            async def upload(forged, seen):
                lines = [("X-Forwarded-For", forged), ("X-Forwarded-For", seen)]
                return (await client.post("/pictures", content=photo, headers=lines)).status_code

            await asyncio.gather(*(upload("10.0.0.1", f"198.51.100.{number}") for number in range(6)))
            assert most[0] == 2, "two are decoded at once"
            for _ in range(UPLOADS_A_MINUTE_MAX):
                assert uploads.wait_seconds(built.arena.visitors.logged("203.0.113.9")) == 0
            assert [await upload(f"10.0.0.{number}", "203.0.113.9") for number in range(2)] == [429, 429]
            assert await upload("203.0.113.9", "198.51.100.99") == 200

    asyncio.run(visits())


@pytest.mark.parametrize(
    ("proxies", "address", "headers", "marked"),
    [
        (0, "http://127.0.0.1", {}, False),
        (0, "https://127.0.0.1", {}, True),
        (1, "http://127.0.0.1", {"x-forwarded-proto": "https"}, True),
        (1, "http://127.0.0.1", {"x-forwarded-proto": "http"}, False),
        (1, "http://127.0.0.1", {}, False),
        (0, "http://127.0.0.1", {"x-forwarded-proto": "https"}, False),
    ],
)
def test_cookies_of_a_page_that_came_by_https_are_sent_by_https_alone(
    build, admission, proxies, address, headers, marked
):
    app = make_app(build(proxies=proxies).arena, Uploads(admission), ArenaSettings(proxies=proxies), "127.0.0.1")

    async def visits():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url=address, headers=headers) as client:
            responses = [await client.get("/"), await client.post("/terms")]
            return [response.headers["set-cookie"].endswith("; Secure") for response in responses]

    assert asyncio.run(visits()) == [marked] * 2


def test_uploads_of_one_visitor_push_out_none_of_others(admission):
    uploads, picture = Uploads(admission), admission.picture(image_file())
    mine = uploads.take(image_file(), "me", "here")
    theirs = [uploads.keep(picture, "other", "there") for _ in range(100)]
    assert len(uploads.collect([mine], "me")) == 1
    assert sum(uploads.content(name, "other") is not None for name in theirs) == 40


def test_the_oldest_upload_makes_room_when_memory_has_none(admission):
    uploads, picture = Uploads(admission), admission.picture(image_file())
    large = replace(picture, png=bytes(WAITING_BYTES_MAX // 3))
    first, *_, last = (uploads.keep(large, f"owner {number}", f"place {number}") for number in range(4))
    assert uploads.content(first, "owner 0") is None and uploads.content(last, "owner 3") == large.png


def test_a_conversation_that_nobody_uses_leaves_memory_and_comes_back_from_the_log(build, admission):
    built = build(vision=("good-model", "second-model"))

    async def visit():
        conversation = await built.say("What is this?", [admission.picture(image_file(), "memes_1.jpg")])
        await built.finished(conversation)
        built.arena.tidy(seconds=0)
        again = built.arena.find(conversation.id, VISIT.owner)
        assert again is not conversation and again.state_of(again.sides[0]) == conversation.state_of(
            conversation.sides[0]
        )
        assert (again.prompts, again.moderation, again.state) == (
            conversation.prompts, conversation.moderation, conversation.state
        )  # fmt: skip
        more = await built.say("And now?", conversation=again)
        await built.finished(more)
        assert await built.arena.vote(more, LEFT, VISIT)
        with pytest.raises(Refused, match="another browser"):
            built.arena.find(conversation.id, "somebody else")

    asyncio.run(visit())
    records = [record for record, _ in built.seen()]
    assert [record["type"] for record in records] == ["chat"] * 4 + ["leftvote"]
    assert records[-1]["states"][0]["messages"][2][1] == "And now?" and len(records[3]["arena"]["presets"]) == 1
