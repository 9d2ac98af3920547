"""What visitors read about the models of a battle once its names are shown."""

import asyncio
from datetime import UTC, datetime

import httpx
import pytest

from schemas.asked_model import ArenaModel
from schemas.items.conversation import RecordType
from schemas.run import TokenRate
from tasks.arena.app import COOKIE, make_app
from tasks.arena.entrance import cookie_hash
from tasks.arena.page import facts
from tasks.arena.rounds import Arena, Visit
from tasks.arena.settings import ArenaSettings
from tasks.arena.uploads import Uploads
from tests.built_arena import Built

HOSTILE = "<script>alert(1)</script>"
KNOWN = {"base_url": "http://127.0.0.1", "provider": HOSTILE, "licence": "Apache-2.0", "open": True, "size": "7 B"}


def test_facts_are_those_of_the_models_file_in_its_order():
    model = ArenaModel(name="a-model", **KNOWN)
    price = TokenRate(input_usd_per_million=1, output_usd_per_million=2.5)
    assert facts(model, 1.24, price) == [
        ("Maker", HOSTILE),
        ("Licence", "Apache-2.0"),
        ("Weights", "open"),
        ("Size", "7 B"),
        ("Price", "$1 in, $2.5 out, a million tokens"),
        ("Time", "1.2 s"),
    ]


def test_what_nobody_says_of_a_model_is_left_out():
    assert facts(ArenaModel(name="a-model", base_url="http://127.0.0.1"), 0.0, None) == []


def test_facts_come_with_the_names_and_not_before(build, admission):
    plain = build()
    models = [ArenaModel(name=name, **KNOWN) for name in plain.models]
    arena = Arena(
        models, lambda row: plain.models[row.name], admission, plain.arena.logs, plain.arena.visitors, version="test"
    )
    built = Built(arena, plain.folder, plain.models)
    app = make_app(arena, Uploads(admission), ArenaSettings(), "127.0.0.1")
    visit = Visit(cookie_hash("mine"), "203.0.113.7")

    async def pages():
        conversation = await built.say(visit=visit)
        await built.finished(conversation)
        cookies = {COOKIE: "mine"}
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://127.0.0.1", cookies=cookies
        ) as client:
            before = (await client.get(f"/c/{conversation.id}")).text
            await arena.vote(conversation, RecordType.LEFT_VOTE, visit)
            return before, (await client.get(f"/c/{conversation.id}")).text

    before, after = asyncio.run(pages())
    assert "Apache-2.0" not in before and "7 B" not in before
    assert after.count("Apache-2.0") == 2 and HOSTILE not in after and after.count("&lt;script&gt;alert(1)") == 2


@pytest.mark.parametrize("size", ["", "x" * 41])
def test_a_size_that_does_not_fit_a_line_is_refused(size):
    with pytest.raises(ValueError, match="size"):
        ArenaModel(name="a-model", base_url="http://127.0.0.1", since=datetime.now(UTC).date(), size=size)
