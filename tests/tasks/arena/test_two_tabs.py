"""One talk in two tabs of a browser: a click counts on the answers that its own tab shows, or not at all."""

import asyncio

import pytest

from tests.arena_pages import Page, application
from tests.built_arena import Scripted
from tests.served_arena import logged

CLICKS = [
    ("vote", {"kind": "leftvote"}),
    ("flag", {"place": 0}),
    ("share", {}),
    ("again", {}),
    ("reason", {"chips": ["clear"]}),
    ("reveal", {}),
]


async def two_tabs(app) -> tuple[Page, Page]:
    """Two tabs that show the first answers of one battle."""
    one, other = Page(app), Page(app)
    await one.begin()
    await one.say("Which colour?")
    other.client.cookies, other.number, other.answers = one.client.cookies, one.number, one.answers
    return one, other


@pytest.mark.parametrize(("what", "values"), CLICKS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_click_does_not_count_on_a_turn_that_another_tab_began(build, admission, what, values):
    built = build()
    app = application(built, admission)

    async def visits():
        stale, other = await two_tabs(app)
        if what in ("reason", "reveal"):
            await other.act("vote", kind="leftvote", goes_on=True)
        await other.say("And its opposite?")
        if what == "reason":
            await other.act("vote", kind="rightvote", goes_on=True)
        line_count = len(built.seen())
        return await stale.act(what, **values), line_count

    told, line_count = asyncio.run(visits())
    assert told.get("key") == "answers_changed"
    assert len(built.seen()) == line_count


def test_a_message_is_not_taken_after_a_turn_that_another_tab_began(build, admission):
    built = build()
    app = application(built, admission)

    async def visits():
        stale, other = await two_tabs(app)
        await other.say("And its opposite?")
        said = {"mode": "battle", "number": stale.number, "answers": stale.answers, "text": "And a third one?"}
        return (await stale.client.post("/say", json=said)).json()

    assert asyncio.run(visits()).get("key") == "answers_changed"
    assert b"third one" not in logged(built.folder)


def test_a_vote_does_not_count_on_answers_that_another_tab_made_anew(build, admission):
    built = build()
    app = application(built, admission)

    async def visits():
        stale, other = await two_tabs(app)
        await other.act("again")
        await other.client.get(f"/c/{other.number}/events")
        return await stale.act("vote", kind="leftvote")

    assert asyncio.run(visits()).get("key") == "answers_changed"


@pytest.mark.parametrize("turns_later", [0, 1])
def test_a_reaction_does_not_count_on_an_answer_that_another_tab_made_anew(build, admission, turns_later):
    built = build()
    app = application(built, admission)

    async def visits():
        stale, other = await two_tabs(app)
        await other.act("again")
        await other.client.get(f"/c/{other.number}/events")
        for _ in range(turns_later):
            await other.say("And its opposite?")
        return await stale.act("react", kind="upvote", place=0)

    assert asyncio.run(visits()).get("key") == "answers_changed"
    assert [record["type"] for record, _ in built.seen()] == ["chat"] * (4 + 2 * turns_later)


def test_a_reaction_to_an_answer_that_still_stands_counts_after_the_next_turn(build, admission):
    built = build()
    app = application(built, admission)

    async def visits():
        stale, other = await two_tabs(app)
        await other.say("And its opposite?")
        return await stale.act("react", kind="upvote", place=0)

    assert "refused" not in asyncio.run(visits())
    (reaction,) = [record for record, _ in built.seen() if record["type"] == "upvote"]
    assert reaction["arena"]["voted_on"] == [1, 0, 0]


def test_a_page_of_before_an_answer_came_may_vote_once_both_have_begun(build, admission):
    go = asyncio.Event()
    built = build({"good-model": Scripted(("One", go)), "second-model": Scripted(("Two", go))})
    app = application(built, admission)

    async def visits():
        visitor = Page(app)
        await visitor.begin()
        said = {"mode": "battle", "text": "Which colour?"}
        told = (await visitor.client.post("/say", json=said)).json()
        visitor.number, visitor.answers = told["number"], told["answers"]
        await asyncio.sleep(0.01)
        return await visitor.act("vote", kind="leftvote")

    assert asyncio.run(visits())["notice"].startswith("You voted")


def test_a_reaction_counts_on_an_earlier_answer_made_anew_though_its_talk_was_read_from_the_log(build, admission):
    built = build()
    app = application(built, admission)

    async def visits():
        visitor = Page(app)
        await visitor.begin()
        await visitor.say("Which colour?")
        shown = (await visitor.act("again"))["answers"]
        await visitor.client.get(f"/c/{visitor.number}/events")
        await visitor.say("And its opposite?")
        built.arena.tidy(0.0)
        return await visitor.act("react", kind="upvote", place=1, answers=shown)

    assert "refused" not in asyncio.run(visits())
    (reaction,) = [record for record, _ in built.seen() if record["type"] == "upvote"]
    assert reaction["arena"]["voted_on"] == [1, 1, 1]
