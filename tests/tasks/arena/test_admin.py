"""The operators' page: its changes hold at once and after a kill, are audited, and nothing is said without a token."""

import asyncio
import json

import httpx
import pytest

from schemas.asked_model import ArenaModel
from schemas.errors import BadInput
from schemas.items.conversation import RecordType
from schemas.run import Prices
from tasks.arena.admin.figures import ArenaFigures
from tasks.arena.admin.pages import admin_app, admin_token
from tasks.arena.admin.steering import APPEALS_MAX, Steering
from tasks.arena.conversations import Mode
from tasks.arena.entrance import Refused
from tasks.arena.settings import ArenaSettings
from tasks.storage.records import audit_entries
from tasks.storage.tables import Store
from tests.arena_client import Visitor
from tests.built_arena import VISIT, Scripted
from tests.served_arena import Served, free_port, models_file

TOKEN = "a token of the operators"
BEARER = {"authorization": f"Bearer {TOKEN}"}


def browser(built, **options) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(admin_app(built.arena, {TOKEN: ""}, ArenaSettings()))
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8386", **options)


def audited(folder) -> list[str]:
    return [entry.about for entry in audit_entries(Store(str(folder)))]


def test_without_the_token_every_address_is_403_and_says_nothing(build, monkeypatch):
    async def asked() -> None:
        async with browser(build()) as client:
            form = await client.get("/")
            assert form.status_code == 403 and "good-model" not in form.text and "arena" not in form.text.lower()
            wrong = [{"token": "a wrong token of mine"}, {"model": "good-model"}, {}]
            headers = [{}, {"authorization": "Bearer é".encode()}, {"cookie": "arena_admin=é".encode()}]
            told = [await client.post(path, data=each) for path in ("/", "/pause") for each in wrong]
            told += [await client.get(path, headers=each) for path in ("/figures.json", "/health") for each in headers]
            assert {(each.status_code, each.content) for each in told} == {(403, b"")}
            for forged in ({"host": "evil.test"}, {"origin": "http://evil.test"}):
                assert (await client.post("/budget", headers=forged | BEARER)).status_code == 403
            right = await client.get("/figures.json", headers=BEARER)
            assert right.status_code == 200 and right.headers["cache-control"] == "no-store"

    asyncio.run(asked())
    monkeypatch.setenv("ARENA_ADMIN_TOKEN", "short")
    with pytest.raises(BadInput, match="has 5 characters; give at least 16"):
        admin_token()


def test_pause_weight_and_budget_hold_at_once_in_every_process_and_are_audited(build):
    models = {name: Scripted() for name in ("ant", "bee", "cat")}

    async def steered(built, again):
        async with browser(built, follow_redirects=True) as client:
            assert "The arena now" in (await client.post("/", data={"token": f" {TOKEN} "})).text
            assert "Done." in (await client.post("/pause", data={"model": "cat"})).text
            first = (built.folder / "audit" / "00000001.json").read_bytes()
            for each in (built, again):
                assert {side.model.name for _ in range(12) for side in (await each.say()).sides} == {"ant", "bee"}
                with pytest.raises(Refused, match="choose models"):
                    await each.say(mode=Mode.DIRECT, chosen=("cat",))
            await client.post("/weight", data={"model": "ant", "value": "0"})
            with pytest.raises(Refused, match="Too few models"):
                await built.say()
            for bad in ("-1", "many", "nan", "1e99", "٣"):
                told = await client.post("/weight", data={"model": "ant", "value": bad})
                assert told.status_code == 422 and "is no number from 0" in told.text
            assert "no model" in (await client.post("/pause", data={"model": "<b>dog</b>"})).text
            await client.post("/budget", data={"value": "0"})
            with pytest.raises(Refused, match="no more messages today"):
                await again.say()
            shown = (await client.get("/")).text
            assert "The budget of today is used up" in shown and "<b>dog" not in shown and "weight 0 for ant" in shown
            (built.folder / "audit" / "00000001.json").unlink()
            assert "was changed: entry 1 is missing" in (await client.get("/")).text
            (built.folder / "audit" / "00000001.json").write_bytes(first)

    built, again = build(models), build(models)
    asyncio.run(steered(built, again))
    state = build(models).arena.steering.now()
    assert (state.paused, state.weights, state.usd_a_day_max) == (["cat"], {"ant": 0.0}, 0.0)
    assert audited(built.folder) == ["paused cat", "weight 0 for ant", "budget of $0.00 a day"]


def test_the_oldest_words_of_refused_visitors_make_room_for_new_ones(tmp_path):
    steering, file = Steering(tmp_path), tmp_path / "admin.json"
    steering.appeal("nsfw", "words 0")
    state = json.loads(file.read_text())
    (first,) = state["appeals"]
    earlier = [first | {"number": number} for number in range(1, APPEALS_MAX + 1)]
    file.write_text(json.dumps(state | {"appeals": earlier, "appeals_so_far": APPEALS_MAX}))
    steering.appeal("nsfw", "the last words")
    numbers = [each.number for each in steering.now().appeals]
    assert numbers == [*range(2, APPEALS_MAX + 2)] and steering.now().appeals[-1].words == "the last words"


def test_the_file_of_an_arenas_state_is_for_its_owner_alone(tmp_path):
    Steering(tmp_path).pause("ant", True)
    assert (tmp_path / "admin.json").stat().st_mode & 0o077 == 0


def test_a_file_that_cannot_be_read_leaves_a_running_arena_as_it_is(tmp_path):
    steering = Steering(tmp_path)
    steering.pause("ant", True)
    (tmp_path / "admin.json").write_text("{half")
    assert steering.now().paused == ["ant"]


def test_a_file_that_cannot_be_read_stops_the_start(tmp_path):
    (tmp_path / "admin.json").write_text("{half")
    with pytest.raises(BadInput, match=r"admin.json' cannot be read .*; mend it, or delete it"):
        Steering(tmp_path)


def test_figures_count_answers_votes_and_cost_once_and_say_how_models_were_drawn(build):
    models = [ArenaModel(name=name, base_url="http://h/v1", model=f"{name}-1") for name in ("ant", "bee")]
    image = {"tile_pixels": 1, "tiles_max": 1, "tokens_a_tile": 0}
    price = {"input_usd_per_million": 1_000_000, "output_usd_per_million": 2_000_000, "image": image}
    built = build({model.name: Scripted(("12345678",)) for model in models})

    async def battles():
        for number in range(10):
            conversation = await built.say("abcd")
            await built.finished(conversation)
            if number < 6:
                await built.arena.vote(conversation, RecordType.LEFT_VOTE, VISIT)
                await built.arena.give_reason(conversation, [], "Clearer", [], VISIT)
        await built.finished(await built.say("more", conversation=conversation))

    asyncio.run(battles())
    records = [record for record, _ in built.arena.logs.records()]
    figures = ArenaFigures(models, Prices(tokens={"openai-ant-1": price}))
    later = ArenaFigures(models, clock=lambda: records[-1]["tstamp"] + 25 * 3600)
    for record in records:
        figures.note(record)
        later.note(record)
    for name in ("ant", "bee"):
        own = [counts[name] for counts in figures.hours().values() if name in counts]
        assert (sum(each.answers for each in own), sum(each.votes for each in own)) == (11, 6)
    assert figures.usd_today() == pytest.approx(10 * (1 + 2 * 2) + (4 + 2 * 2)), "$1 a token in, $2 a token out"
    assert figures.exposure() == {"ant": (10, 10), "bee": (10, 10)} and not figures.priced("bee")
    assert later.usd_today() == 0 and not any(later.hours().values()) and len(later.hours()) == 24
    told = [record["arena"]["sampling"] for record in records if "sampling" in record["arena"]]
    both = {"ant": 1.0, "bee": 1.0}
    assert told == [{"rules": ["weights"], "chance": 1.0, "weights": both, "shares": both}] * 20, "of first answers"
    assert all("sampling" not in str(each) for each in built.arena.listed(VISIT.owner)), "visitors do not get it"


def test_what_the_operators_do_outlives_a_kill_and_a_refused_visitor_is_heard(place, chat_port):
    port, folder = free_port(), place / "admin"
    models = models_file(place / "three.yaml", chat_port, ("good-model", "second-model", "hostile-model-7b"))
    url, options = f"http://127.0.0.1:{port}", ("--set", f"admin_port={port}")
    served = Served(folder, models, *options, ARENA_ADMIN_TOKEN=TOKEN)
    try:
        assert f"for operators: {url}/\n" in [served.process.stdout.readline() for _ in range(2)]
        assert httpx.get(f"{served.url}/figures.json", headers=BEARER).status_code == 404, "not on the visitors' port"
        visitor = Visitor(served.url)
        appeal = {"key": visitor.say("")[0]["key"], "words": "I <b>wrote</b> 😀 it"}
        assert visitor.client.post("/appeal", json=appeal).json()["notice"].startswith("Thank you.")
        assert visitor.client.post("/appeal", json={"words": " "}).json()["key"] == "write_something"
        assert visitor.client.post("/appeal", json={"words": "x" * 501}).status_code == 422
        assert [visitor.client.post("/appeal", json={"words": "y"}).status_code for _ in range(2)] == [200, 409]
        assert httpx.post(f"{url}/pause", data={"model": "good-model"}, headers=BEARER).status_code == 200
        visitor.say("Hello")
        assert visitor.vote().count("-model") == 2 and "good-model" not in visitor.listen()[-1]["notice"]
    finally:
        served.kill()
    served = Served(folder, models, *options, ARENA_ADMIN_TOKEN=TOKEN)
    try:
        found = httpx.get(f"{url}/figures.json", headers=BEARER).json()
        rows = {row["name"]: (row["paused"], row["votes"], sum(row["votes_by_hour"])) for row in found["models"]}
        assert rows == {
            "good-model": (True, 0, 0),
            **dict.fromkeys(("second-model", "hostile-model-7b"), (False, 1, 1)),
        }
        assert (found["appeals"][-1]["reason"], found["appeals"][-1]["words"]) == ("write_something", appeal["words"])
        page = httpx.get(url, headers=BEARER).text
        assert "I &lt;b&gt;wrote&lt;/b&gt;" in page and "Please write something." in page
        httpx.post(f"{url}/appeal", data={"value": "1"}, headers=BEARER)
        assert "wrote" not in httpx.get(url, headers=BEARER).text
        httpx.post(f"{url}/resume", data={"model": "good-model"}, headers=BEARER)
        assert Visitor(served.url).say("Hello again")[-1]["open"]
        assert not any(each in (folder / "admin.json").read_text() for each in ("127.0.0.1", "keyed:", "browser"))
    finally:
        served.end()
    assert audited(folder) == ["paused good-model", "closed appeal 1", "resumed good-model"]
