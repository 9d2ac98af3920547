"""What visitors get when operators add, remove, replace and weigh models while talks are open."""

import asyncio
import re

import pytest

from schemas.asked_model import ArenaModel
from schemas.items.conversation import RecordType
from tasks.arena.admin.steering import Steering
from tasks.arena.conversations import Mode
from tasks.arena.entrance import Refused
from tests.arena_pages import Page, application
from tests.built_arena import VISIT, Scripted, image_file

TEXT_MODELS = ("good-model", "second-model")
PNG = {"content": image_file(), "headers": {"content-type": "image/png"}}


def reader(name: str, **keys) -> ArenaModel:
    return ArenaModel(name=name, base_url="http://127.0.0.1", vision=True, **keys)


def scripted(*more: str) -> dict[str, Scripted]:
    return {name: Scripted() for name in (*TEXT_MODELS, *more)}


@pytest.fixture
def live(build):
    """An arena of two text models, and two servers of models that it may add."""
    models = scripted()
    built = build(models)
    models |= {"eye": Scripted(), "lens": Scripted()}
    return built


def images_of(page: str) -> int:
    """How many images the page lets a message have."""
    return int(re.search(r'data-images="(\d+)"', page)[1])


def test_pages_take_images_as_soon_as_models_that_read_them_are_served(live, admission):
    app = application(live, admission)

    async def taken() -> dict[str, int]:
        visitor = Page(app)
        pages = {each: (await visitor.client.get(each)).text for each in ("/", "/direct", "/side-by-side")}
        assert all(('id="attach"' in page) == (images_of(page) > 0) for page in pages.values())
        return {address: images_of(page) for address, page in pages.items()}

    assert asyncio.run(taken()) == {"/": 0, "/direct": 0, "/side-by-side": 0}
    live.arena.steering.serve(reader("eye"))
    assert asyncio.run(taken()) == {"/": 0, "/direct": 4, "/side-by-side": 4}, "a battle needs two"
    live.arena.steering.serve(reader("lens", anonymous_only=True))
    assert asyncio.run(taken()) == {"/": 4, "/direct": 4, "/side-by-side": 4}
    live.arena.steering.weigh("lens", 0)
    assert asyncio.run(taken())["/"] == 0
    live.arena.steering.pause("eye", True)
    assert asyncio.run(taken())["/direct"] == 0, "the other one is for battles alone"


def test_an_image_goes_to_models_that_were_added_while_the_arena_ran(live, admission):
    app = application(live, admission)

    async def asked() -> str:
        visitor = Page(app)
        await visitor.begin()
        assert (await visitor.client.post("/pictures", **PNG)).status_code == 409
        live.arena.steering.serve(reader("eye"))
        live.arena.steering.serve(reader("lens"))
        name = (await visitor.client.post("/pictures", **PNG)).json()["name"]
        await visitor.say("Look", [name])
        return visitor.number

    number = asyncio.run(asked())
    assert {record["model"] for record, _ in live.seen() if record["arena"]["sides"][0]["conv_id"] == number} == {
        "eye",
        "lens",
    }
    assert all(messages[-1].images for name in ("eye", "lens") for messages in live.models[name].asked)


def test_a_single_added_model_that_reads_images_outlives_a_restart(live, build):
    live.arena.steering.serve(reader("eye"))
    again = build(live.models | {})
    assert Steering(again.folder).now().models == [reader("eye")]


@pytest.mark.parametrize("change", ["drop", "pause", "weigh"])
def test_images_are_refused_in_a_sentence_when_the_last_models_that_read_them_go(live, admission, change):
    app, steering = application(live, admission), live.arena.steering
    for name in ("eye", "lens"):
        steering.serve(reader(name))

    async def refused():
        visitor = Page(app)
        await visitor.begin()
        name = (await visitor.client.post("/pictures", **PNG)).json()["name"]
        for model in ("eye", "lens"):
            steering.drop(model) if change == "drop" else None
            steering.pause(model, True) if change == "pause" else None
            steering.weigh(model, 0) if change == "weigh" else None
        said = {"mode": "battle", "text": "Look", "pictures": [name]}
        told = await visitor.client.post("/say", json=said)
        upload = await visitor.client.post("/pictures", **PNG)
        text = await visitor.client.post("/say", json=said | {"pictures": []})
        await visitor.client.get(f"/c/{text.json()['number']}/events")
        return told.json(), upload.status_code, text.status_code

    told, upload, text = asyncio.run(refused())
    assert told["refused"].startswith("Images are not taken here at the moment")
    assert (upload, text) == (200 if change == "weigh" else 409, 200), "chats still take one of weight 0"


@pytest.mark.parametrize("blind", [0, 1])
def test_an_image_in_a_later_turn_is_refused_alike_whichever_of_the_two_models_reads_none(build, admission, blind):
    names = ["reads", "eye"] if blind == 0 else ["eye", "reads"]
    built = build({"reads": Scripted(), "eye": Scripted(), "lens": Scripted()}, vision=("eye", "lens"))

    async def told():
        talk = await built.say()
        while [side.model.name for side in talk.sides] != names:
            await built.finished(talk)
            talk = await built.say()
        await built.finished(talk)
        with pytest.raises(Refused) as refused:
            await built.say("Look", [admission.picture(image_file())], talk)
        return str(refused.value)

    assert asyncio.run(told()) == (
        "Not every model of this conversation reads images. Start a new round with the image in its first message."
    )


@pytest.mark.parametrize("then", ["say", "regenerate", "ask_again"])
def test_an_image_of_an_earlier_turn_goes_to_no_model_that_reads_images_no_more(build, admission, then):
    built = build(vision=TEXT_MODELS)

    async def asked():
        talk = await built.say("Look", [admission.picture(image_file())])
        await built.finished(talk)
        model = built.models[talk.sides[1].model.name]
        if then == "ask_again":
            model.words = (None,)
            await built.say("And then?", conversation=talk)
            await built.finished(talk)
        before = len(model.asked)
        built.arena.steering.serve(talk.sides[1].model.model_copy(update={"vision": False}))
        with pytest.raises(Refused, match="Not every model"):
            await (
                built.say("And now?", conversation=talk) if then == "say" else getattr(built.arena, then)(talk, VISIT)
            )
        return len(model.asked) - before

    assert asyncio.run(asked()) == 0


def test_a_talk_with_a_model_that_was_removed_ends_in_a_sentence(live):
    live.arena.steering.serve(reader("eye"))

    async def talk():
        talk = await live.say(mode=Mode.DIRECT, chosen=("eye",))
        await live.finished(talk)
        live.arena.steering.drop("eye")
        with pytest.raises(Refused, match="has ended"):
            await live.say("And then?", conversation=talk)
        with pytest.raises(Refused, match="has ended"):
            await live.arena.regenerate(talk, VISIT)
        assert await live.arena.vote(talk, RecordType.UPVOTE, VISIT), "what was answered may still be rated"

    asyncio.run(talk())
    assert len(live.models["eye"].asked) == 1


def test_an_open_talk_asks_a_model_where_it_is_served_now(build):
    asked = list[tuple[str, float | None]]()

    class Noted(Scripted):
        def __init__(self, model: ArenaModel):
            super().__init__()
            self.model = model

        async def stream(self, messages):
            asked.append((self.model.base_url, self.model.temperature))
            async for word in super().stream(messages):
                yield word

    built = build(scripted(), connect=Noted)

    async def talk():
        talk = await built.arena.say(None, Mode.DIRECT, ("good-model",), "Hello", list, VISIT, {"temperature": 0.3})
        await built.finished(talk)
        built.arena.steering.serve(ArenaModel(name="good-model", base_url="http://127.0.0.2", temperature=1.5))
        await built.finished(await built.say("And then?", conversation=talk))

    asyncio.run(talk())
    assert asked == [("http://127.0.0.1", 0.3), ("http://127.0.0.2", 0.3)], "the visitor's own settings stay"


def test_a_talk_goes_on_when_the_weight_of_its_model_becomes_0(build):
    built = build(scripted("third-model"))

    async def talk():
        talk = await built.say()
        await built.finished(talk)
        built.arena.steering.weigh(talk.sides[0].model.name, 0)
        await built.finished(await built.say("And then?", conversation=talk))
        assert [len(side.answers) for side in talk.sides] == [2, 2]
        assert await built.arena.vote(talk, RecordType.LEFT_VOTE, VISIT)

    asyncio.run(talk())
    assert [record["type"] for record, _ in built.seen()][-1] == "leftvote"


def test_a_failed_side_gets_no_model_of_weight_0(build):
    built = build({"good-model": Scripted(), "bad-model": Scripted((None,)), "third-model": Scripted()})

    async def talk():
        built.arena.steering.weigh("third-model", 0)
        talk = await built.say()
        await built.finished(talk)
        with pytest.raises(Refused, match="Too few models"):
            await built.arena.ask_again(talk, VISIT)
        built.arena.steering.weigh("third-model", 1)
        built.arena.steering.weigh("good-model", 0)
        await built.arena.ask_again(talk, VISIT)
        await built.finished(talk)
        assert {side.model.name for side in talk.sides} == {"good-model", "third-model"}, "the other answer stays"

    asyncio.run(talk())


def test_a_visitor_of_a_language_that_was_removed_may_still_talk(build, admission):
    built = build()
    app = application(built, admission)

    async def visits():
        accepted, reads = Page(app, "de"), Page(app, "de")
        await accepted.begin()
        page = (await reads.client.get("/")).text
        built.arena.steering.speak(["en", "fr"])
        assert "number" in await accepted.say("Hallo"), "what was accepted stays so"
        version = re.search(r'data-terms="(\w+)"', page)[1]
        told = (await reads.client.post("/terms", params={"version": version})).json()
        assert told["key"] == "terms_changed" and "reload" in told["refused"]
        assert '<html lang="en"' in (await reads.client.get("/")).text
        await reads.begin()
        assert "number" in await reads.say("Hallo")

    asyncio.run(visits())
    assert [record["arena"]["terms"]["language"] for record, _ in built.seen()] == ["de", "de", "en", "en"]
