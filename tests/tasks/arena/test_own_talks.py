"""The list of one's talks at the side of the page."""

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from threading import Barrier

import pytest

from schemas.upkeep import TermsVersion
from tasks.arena.conversations import Mode
from tasks.arena.live import digest_of_terms
from tasks.arena.logs import Line, LogFolder
from tasks.arena.past import Past
from tasks.arena.words import page_words
from tests.arena_pages import Page, application
from tests.built_arena import VISIT, Scripted, image_file


def test_a_visitors_talks_are_listed_newest_first_to_that_visitor_alone(build, admission):
    app = application(build(), admission)

    async def visits():
        visitor, other = Page(app), Page(app)
        await visitor.begin()
        await other.begin()
        await visitor.say("The first <b>question</b>")
        first, visitor.number = visitor.number, ""
        await visitor.say("The second question")
        return (
            (await visitor.client.get("/")).text,
            (await visitor.client.get(f"/c/{first}")).text,
            (await other.client.get("/")).text,
            first,
        )

    start, opened, strange, first = asyncio.run(visits())
    listed = start.partition('id="talks"')[2].partition("</nav>")[0]
    assert listed.index("The second question") < listed.index("The first &lt;b&gt;question")
    assert "aria-current" not in listed and f'href="/c/{first}" aria-current="page"' in opened
    assert "question" not in strange.partition('id="talks"')[2].partition("</nav>")[0]


def test_the_list_comes_with_the_answers(build, admission):
    go = asyncio.Event()
    app = application(build({"good-model": Scripted((go, "Hello")), "second-model": Scripted((go, "Bye"))}), admission)

    async def visits():
        visitor = Page(app)
        await visitor.begin()
        told = (await visitor.client.post("/say", json={"mode": "battle", "text": "A question"})).json()
        visitor.number, visitor.answers = told["number"], told["answers"]
        go.set()
        await visitor.client.get(f"/c/{visitor.number}/events")
        return told["talks"], (await visitor.act("vote", kind="leftvote"))["talks"]

    before, after = asyncio.run(visits())
    assert before == "" and "A question" in after and "-model" not in after


def test_a_forgotten_talk_is_not_listed(build, admission):
    app = application(build(), admission)

    async def visits():
        visitor = Page(app)
        await visitor.begin()
        await visitor.say("A question")
        assert (await visitor.act("forget"))["talks"] == ""
        return (await visitor.client.get("/")).text

    assert "A question" not in asyncio.run(visits())


def test_all_is_forgotten_though_the_lines_of_a_newer_talk_are_gone(build):
    built = build()

    async def talks():
        older = await built.say("The older question")
        await built.finished(older)
        length = sum(file.stat().st_size for file in built.folder.glob("vision-tmp-*.json"))
        newer = await built.say("The newer question")
        await built.finished(newer)
        (file,) = built.folder.glob("vision-tmp-*.json")
        file.write_bytes(file.read_bytes()[:length])
        built.arena.tidy(seconds=-1)
        assert await built.arena.forget_all(VISIT) == 2
        return {side.conv_id for side in older.sides} | {newer.id}

    ids = asyncio.run(talks())
    assert ids <= set((built.folder / "takedown_requests.txt").read_text().split())
    assert built.arena.listed(VISIT.owner) == []


def test_all_is_forgotten_with_a_talk_of_which_only_a_report_was_logged(build):
    built = build({"broken": Scripted(("Bad", None)), "also-broken": Scripted(("Bad", None))})

    async def talks():
        conversation = await built.say("A question")
        await built.finished(conversation)
        await built.arena.flag(conversation, 1, VISIT)
        built.arena.tidy(seconds=-1)
        await built.arena.forget_all(VISIT)
        return {side.conv_id for side in conversation.sides}

    ids = asyncio.run(talks())
    assert set((built.folder / "takedown_requests.txt").read_text().split()) == ids


def test_all_is_forgotten_with_a_first_answer_that_is_still_coming(build):
    built = build({"good-model": Scripted(("One", asyncio.Event()))})

    async def talks():
        conversation = await built.say("A question", mode=Mode.DIRECT, chosen=["good-model"])
        while not conversation.said(0):
            await asyncio.sleep(0.01)
        assert await built.arena.forget_all(VISIT) == 1
        return conversation

    conversation = asyncio.run(talks())
    assert conversation.forgotten and not conversation.answering
    assert (built.folder / "takedown_requests.txt").read_text().split() == [conversation.id]


def test_a_talk_that_began_with_a_picture_alone_has_a_title(build, admission):
    app = application(build(vision=("good-model", "second-model")), admission)

    async def visits():
        visitor = Page(app)
        await visitor.begin()
        name = (await visitor.client.post("/pictures", content=image_file())).json()["name"]
        await visitor.say("", [name])
        return (await visitor.act("vote", kind="leftvote"))["talks"]

    assert "<bdi>image</bdi>" in asyncio.run(visits())


def test_a_restart_keeps_the_list(build, admission):
    built = build()

    async def begun():
        visitor = Page(application(built, admission))
        await visitor.begin()
        await visitor.say("A question")
        return visitor.client.cookies

    cookies = asyncio.run(begun())
    again = build(built.models)
    again.arena.read_logs()

    async def later():
        visitor = Page(application(again, admission))
        visitor.client.cookies = cookies
        return (await visitor.client.get("/")).text

    assert "A question" in asyncio.run(later())


def test_the_saved_file_has_every_talk_also_those_that_the_page_leaves_out(build, admission):
    built = build()

    async def begun():
        visitor = Page(application(built, admission))
        await visitor.begin()
        await visitor.say("The oldest question")
        return visitor.client.cookies

    cookies = asyncio.run(begun())
    (file,) = built.folder.glob("vision-tmp-*.json")
    lines, ids = file.read_text(), [record["state"]["conv_id"] for record, _ in built.seen()]
    # the same talk, and then 200 times more under other ids
    copies = [lines.replace(ids[0], f"{number:032}").replace(ids[1], f"{number:031}b") for number in range(200)]
    file.write_text("".join([lines, *copies]))
    again = build(built.models)
    again.arena.read_logs()

    async def seen():
        visitor = Page(application(again, admission))
        visitor.client.cookies = cookies
        return (await visitor.client.get("/mine")).text, (await visitor.client.get("/mine.json")).json()

    page, saved = asyncio.run(seen())
    assert page.count('class="opens"') == 200
    assert len(saved) == 201 and saved[-1]["number"] in ids


def test_what_a_visitor_took_back_is_told_from_what_stands(build, admission):
    app = application(build(), admission)

    async def visits():
        visitor = Page(app)
        await visitor.begin()
        await visitor.say("A question", mode="direct", chosen=["good-model"])
        await visitor.act("vote", kind="downvote")
        await visitor.share()
        rated = (await visitor.client.get("/mine")).text
        await visitor.act("again")
        await visitor.client.get(f"/c/{visitor.number}/events")
        await visitor.act("unshare")
        return rated, (await visitor.client.get("/mine")).text, (await visitor.client.get("/mine.json")).json()

    rated, page, (saved,) = asyncio.run(visits())
    told = [(each["kind"], each["taken_back"]) for each in saved["votes"]]
    assert told == [("downvote", False), ("share", False), ("downvote", True), ("share", True)]
    assert page_words("en")["mine_unvoted"] in page and page_words("en")["mine_unvoted"] not in rated


def test_the_saved_file_has_all_terms_that_were_agreed_to_in_a_talk(build, admission):
    built = build()
    app = application(built, admission)

    async def visits():
        visitor = Page(app)
        await visitor.begin()
        for version in ("1", "2", ""):
            await visitor.say("A question")
            if version:
                terms = TermsVersion(name=version, at=datetime.now(UTC), texts={"en": f"Terms {version}"})
                built.arena.steering.publish_terms(terms)
                await visitor.client.post("/terms")
        return (await visitor.client.get("/mine.json")).json()

    (saved,) = asyncio.run(visits())
    digests = [digest_of_terms(text) for text in (page_words("en")["terms_text"], "Terms 1", "Terms 2")]
    assert [terms["version"] for terms in [*saved["earlier_terms"], saved["terms"]]] == digests


def record_of(number: str, browser: str) -> dict:
    """What the list of talks reads of a line."""
    return {"arena": {"browser": browser, "sides": [{"conv_id": number}]}}


@pytest.fixture
def past(tmp_path):
    """An empty list of talks, while threads take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield Past(LogFolder(tmp_path), list)
    sys.setswitchinterval(interval)


def test_a_talk_that_begins_while_another_is_forgotten_stays_listed(past):
    place = Line("file", 0)
    for number in range(300):
        past.note(record_of(f"old {number}", f"browser {number}"), place)
    together = Barrier(2)

    def begin():
        together.wait()
        for number in range(1000):
            past.note(record_of(f"new {number}", f"visitor {number}"), place)

    with ThreadPoolExecutor() as threads:
        noting = threads.submit(begin)
        together.wait()
        for number in range(300):
            past.drop({f"old {number}"})
        noting.result()
    assert all(past.numbers(f"visitor {number}") == [f"new {number}"] for number in range(1000))


def test_a_battle_whose_first_answers_end_at_once_is_listed_once(past):
    together = Barrier(2)

    def note():
        for number in range(3000):
            together.wait()
            past.note(record_of(str(number), "browser"), Line("file", 0))

    with ThreadPoolExecutor() as threads:
        for noting in [threads.submit(note), threads.submit(note)]:
            noting.result()
    assert sorted(past.numbers("browser")) == sorted({str(number) for number in range(3000)})
