"""Read-only links of talks, and what visitors agreed to: on the page, in the log and in a store."""

import asyncio
import json
import sys
import time
from datetime import UTC, datetime

import pytest

from schemas.items.conversation import RecordType
from tasks.arena.entrance import Refused
from tasks.arena.live import digest_of_terms
from tasks.arena.logs import conv_ids_in
from tasks.arena.words import page_words
from tasks.takedown.subject import hand_out
from tasks.takedown.take_down import take_down
from tests.arena_pages import Page, application, stranger
from tests.built_arena import VISIT, image_file
from tests.tasks.ingest.logs import ingested

MODELS = ("good-model", "second-model")


def test_a_link_shows_the_talk_without_a_cookie_to_whoever_has_it(build, admission):
    built = build(vision=MODELS)
    app = application(built, admission)

    async def visits():
        visitor = Page(app)
        await visitor.begin()
        name = (await visitor.client.post("/pictures", content=image_file())).json()["name"]
        await visitor.say("What is <b>this</b>?", [name])
        address = await visitor.share()
        page = await stranger(app, f"/s/{address}")
        assert page.status_code == 200 and "set-cookie" not in page.headers
        assert page.headers["x-robots-tag"].startswith("noindex") and 'name="robots" content="noindex' in page.text
        assert "What is &lt;b&gt;this&lt;/b&gt;?" in page.text and "Hello there." in page.text
        assert not any(model in page.text for model in MODELS), "the battle was not voted on"
        assert "data-act" not in page.text and visitor.number not in page.text and "<form" not in page.text
        picture = await stranger(app, f"/s/{address}/pictures/0")
        assert picture.headers["content-type"] == "image/png" and picture.headers["x-robots-tag"].startswith("noindex")
        assert (await stranger(app, f"/s/{address}/pictures/1")).status_code == 404
        return address

    address = asyncio.run(visits())
    assert address not in "".join(file.read_text() for file in built.folder.glob("*.json"))


def test_what_is_said_after_the_consent_is_not_shown(build, admission):
    app = application(build(), admission)

    async def visits():
        visitor = Page(app)
        await visitor.begin()
        await visitor.say("First question")
        address = await visitor.share()
        await visitor.say("Second question")
        await visitor.act("vote", kind="leftvote")
        before = (await stranger(app, f"/s/{address}")).text
        assert await visitor.share() == address, "the link stays the same"
        return before, (await stranger(app, f"/s/{address}")).text

    before, after = asyncio.run(visits())
    assert "Second question" not in before and not any(model in before for model in MODELS)
    assert "Second question" in after and all(model in after for model in MODELS)


@pytest.mark.parametrize("end", ["unshare", "forget"])
def test_a_link_that_was_taken_back_is_gone_for_good(build, admission, end):
    built = build()
    app = application(built, admission)

    async def visits():
        visitor = Page(app)
        await visitor.begin()
        await visitor.say("A question")
        address = await visitor.share()
        told = await visitor.act(end)
        assert address not in told["bar"]
        gone = await stranger(app, f"/s/{address}")
        again = build(built.models)
        again.arena.read_logs()
        after_restart = await stranger(application(again, admission), f"/s/{address}")
        if end == "unshare":
            assert await visitor.share() != address
        return address, gone, after_restart, (await stranger(app, f"/s/{address}")).status_code

    _, gone, after_restart, later = asyncio.run(visits())
    assert (gone.status_code, after_restart.status_code, later) == (410, 410, 410)
    assert page_words("en")["link_gone"] in gone.text and "A question" not in gone.text
    assert gone.headers["x-robots-tag"].startswith("noindex") and "set-cookie" not in gone.headers


def test_a_direct_chat_has_a_link_that_ingest_reads(build, admission, tmp_path):
    built = build()
    app = application(built, admission)

    async def visits():
        visitor = Page(app)
        await visitor.begin()
        await visitor.say("A question", mode="direct", chosen=["good-model"])
        address = await visitor.share()
        again = build(built.models)
        again.arena.read_logs()
        pages = [await stranger(each, f"/s/{address}") for each in (app, application(again, admission))]
        await visitor.act("unshare")
        return [*pages, await stranger(app, f"/s/{address}")]

    *pages, gone = asyncio.run(visits())
    for page in pages:
        assert "A question" in page.text and "Hello there." in page.text and "good-model" in page.text
        assert "<form" not in page.text and "data-act" not in page.text
    assert gone.status_code == 410 and "A question" not in gone.text
    store = ingested(built.folder, tmp_path / "store")
    (row,) = store.read("conversations").to_dicts()
    assert (row["model"], row["num_turns"]) == ("good-model", 1) and store.read("battles").is_empty()
    assert not store.parts("rejects") or store.read("rejects").is_empty()


def test_a_link_outlives_a_restart(build, admission):
    built = build()

    async def visits():
        visitor = Page(application(built, admission))
        await visitor.begin()
        await visitor.say("A question")
        address = await visitor.share()
        again = build(built.models)
        again.arena.read_logs()
        return await stranger(application(again, admission), f"/s/{address}")

    assert "A question" in asyncio.run(visits()).text


@pytest.mark.parametrize("address", ["0" * 40, "no-such-link", "%00", "..%2f..%2fetc", "a" * 2000, "<script>"])
def test_a_forged_link_is_one_page_that_repeats_nothing(build, admission, address):
    app = application(build(), admission)
    page = asyncio.run(stranger(app, f"/s/{address}"))
    assert page.status_code == 404 and "set-cookie" not in page.headers and address not in page.text
    assert asyncio.run(stranger(app, f"/s/{address}/pictures/0")).status_code == 404


@pytest.mark.parametrize("actions", [("share", "forget"), ("forget", "share"), ("vote", "share", "forget")])
def test_a_talk_that_is_forgotten_while_something_is_written_has_no_link_left(build, admission, actions):
    built = build()
    app = application(built, admission)

    async def visits():
        visitor = Page(app)
        await visitor.begin()
        await visitor.say("A question")
        await asyncio.gather(*(visitor.act(what, kind="leftvote") for what in actions))
        links = [record["arena"]["link"] for record, _ in built.seen() if "link" in record["arena"]]
        pages = [await stranger(app, f"/s/{built.arena.visitors.link(link)}") for link in links]
        return pages, (await visitor.client.get("/mine.json")).json()

    pages, own = asyncio.run(visits())
    assert all("A question" not in page.text and page.status_code in (404, 410) for page in pages)
    assert own == [] and built.arena.cast == []


def test_a_link_that_cannot_be_taken_back_yet_is_not_passed_over_in_silence(build):
    built = build()
    arena = built.arena

    async def talk():
        conversation = await built.say("A question")
        await built.finished(conversation)
        await arena.share(conversation, VISIT)
        vote = asyncio.create_task(arena.vote(conversation, RecordType.LEFT_VOTE, VISIT))
        while not conversation.voting and not vote.done():
            await asyncio.sleep(0)
        with pytest.raises(Refused, match="try again"):
            await arena.unshare(conversation, VISIT)
        await vote
        await arena.unshare(conversation, VISIT)
        return conversation

    assert asyncio.run(talk()).link == ""


@pytest.mark.parametrize("end", ["unshare", "forget", "request"])
def test_every_process_of_an_arena_shows_a_link_until_it_is_taken_back_in_any(build, admission, end):
    first = build()
    second = build(first.models)
    second.arena.read_logs()
    apps = [application(built, admission) for built in (first, second)]

    async def visits():
        visitor = Page(apps[0])
        await visitor.begin()
        await visitor.say("A question")
        address = await visitor.share()
        shared = [await stranger(app, f"/s/{address}") for app in apps]
        if end == "request":  # as an operator writes one by hand
            (first.folder / "takedown_requests.txt").write_text(f"{visitor.number}\n")
        else:
            await visitor.act(end)
        return shared, [await stranger(app, f"/s/{address}") for app in apps]

    shared, gone = asyncio.run(visits())
    assert all("A question" in page.text for page in shared)
    assert [page.status_code for page in gone] == [410, 410] and all("A question" not in page.text for page in gone)


def test_lines_that_an_operator_moved_show_nobody_the_talk_of_another(build, admission):
    built = build()
    app = application(built, admission)

    async def visits():
        visitor, other = Page(app), Page(app)
        for page, text in ((visitor, "My question"), (other, "The other question")):
            await page.begin()
            await page.say(text)
        address = await visitor.share()
        await other.share()
        (file,) = built.folder.glob("vision-tmp-*.json")
        lines = file.read_bytes().splitlines(keepends=True)
        of_other = [line for line in lines if other.number in conv_ids_in(json.loads(line))]
        start = 0
        for line in lines:  # each line of the visitor's makes room for one of the other's
            if visitor.number in conv_ids_in(json.loads(line)):
                with file.open("r+b") as stream:
                    stream.seek(start)
                    stream.write(of_other[-1])
                page = await stranger(app, f"/s/{address}")
                own = (await visitor.client.get("/mine")).text + (await visitor.client.get("/")).text
                assert "The other question" not in page.text + own
            start += len(line)
        return page.status_code

    assert asyncio.run(visits()) == 410


def test_another_browser_takes_no_link_back(build, admission):
    app = application(build(), admission)

    async def visits():
        visitor, other = Page(app), Page(app)
        await visitor.begin()
        await other.begin()
        await visitor.say("A question")
        address, other.number = await visitor.share(), visitor.number
        assert "refused" in await other.act("unshare") and "refused" in await other.act("share")
        return (await stranger(app, f"/s/{address}")).status_code

    assert asyncio.run(visits()) == 200


def test_what_a_visitor_agreed_to_is_logged_handed_out_and_taken_down(build, admission, tmp_path):
    built = build()
    app = application(built, admission)
    before = datetime.now(UTC).replace(microsecond=0)

    async def visits():
        visitor = Page(app, "de")
        await visitor.begin()
        await visitor.say("Guten Tag")
        await visitor.act("vote", kind="leftvote")
        return (await visitor.client.get("/mine.json")).json()

    (own,) = asyncio.run(visits())
    assert own["terms"]["language"] == "de" and len(own["terms"]["version"]) == 16
    store = ingested(built.folder, tmp_path / "store")
    rows = store.read("conversations").to_dicts()
    consents = [row["consent"] for row in rows]
    assert consents[0] == consents[1] and consents[0]["terms_version"] == own["terms"]["version"]
    assert before <= consents[0]["accepted_at"] <= datetime.now(UTC)
    (user_id,) = {row["user_id"] for row in rows}
    hand_out(store, user_id, tmp_path / "answer")
    lines = (tmp_path / "answer" / "tables" / "conversations.jsonl").read_text().splitlines()
    assert {json.loads(line)["consent"]["language"] for line in lines} == {"de"}
    take_down(store, [user_id], [], datetime.now(UTC), False)
    assert store.read("conversations").is_empty() and store.read("sightings").is_empty()


def test_whoever_accepted_other_terms_is_asked_again(build, admission):
    first, second = (application(build(), admission, terms=text) for text in ("Old terms", "New terms"))

    async def visits():
        visitor = Page(first)
        await visitor.begin()
        await visitor.say("A question")
        other = Page(second)
        other.client.cookies = visitor.client.cookies
        said = {"mode": "battle", "text": "Another"}
        assert (await other.client.post("/say", json=said)).json()["key"] == "terms_first"
        stale = first_version(visitor)
        refused = await other.client.post(f"/terms?version={stale}")
        assert (refused.status_code, refused.json()["key"]) == (409, "terms_changed"), "a page that was open before"
        for forged in ("0" * 16, "0" * 16 + ".en.1", f"{stale}.xx.1", f"{stale}.en.x"):
            liar = Page(second)
            liar.client.headers["cookie"] = f"arena_browser=liar; arena_terms={forged}"
            assert (await liar.client.post("/say", json=said)).json()["key"] == "terms_first"
        await other.client.post("/terms")
        assert "number" in (await other.client.post("/say", json=said)).json()

    def first_version(visitor) -> str:
        return visitor.client.cookies["arena_terms"].partition(".")[0]

    asyncio.run(visits())


@pytest.mark.parametrize("days", [-400, -20_000, 1, 1_000_000])
def test_an_acceptance_at_a_time_that_no_arena_wrote_is_asked_for_again(build, admission, days):
    app = application(build(), admission, terms="The terms")
    at = max(0, int(time.time()) + days * 86_400)

    async def visit():
        visitor = Page(app)
        visitor.client.headers["cookie"] = f"arena_browser=b; arena_terms={digest_of_terms('The terms')}.en.{at}"
        return (await visitor.client.post("/say", json={"mode": "battle", "text": "A question"})).json()

    assert asyncio.run(visit())["key"] == "terms_first"


def test_a_share_is_a_line_of_its_own_that_ingest_reads(build, admission, tmp_path):
    built = build()
    app = application(built, admission)

    async def visits():
        visitor = Page(app)
        await visitor.begin()
        await visitor.say("A question")
        await visitor.share()
        await visitor.act("unshare")

    asyncio.run(visits())
    shares = [record["arena"] for record, _ in built.seen() if record["type"] == RecordType.SHARE]
    assert [share.get("withdrawn", False) for share in shares] == [False, True]
    assert all(share["terms"]["language"] == "en" for share in shares)
    assert ingested(built.folder, tmp_path / "store").read("conversations").height == 2


def test_a_shared_picture_is_read_alone(build, admission):
    built = build(vision=MODELS)
    app = application(built, admission)
    opened = []

    async def visits():
        visitor = Page(app)
        await visitor.begin()
        for seed in range(2):
            content = image_file(seed=seed)
            name = (await visitor.client.post("/pictures", content=content)).json()["name"]
            await visitor.say("What is this?", [name])
        address = await visitor.share()
        sys.addaudithook(lambda event, values: event == "open" and opened.append(str(values[0])))
        return [(await stranger(app, f"/s/{address}/pictures/{place}")).content for place in (1, 0, 2)]

    second, first, none = asyncio.run(visits())
    assert first != second and first and second and not none
    assert len([path for path in opened if "serve_images" in path]) == 2


def test_a_reaction_that_does_not_say_on_which_answer_leaves_the_list_of_talks_as_it_is(build, admission):
    built = build()
    app = application(built, admission)

    async def visits():
        visitor = Page(app)
        await visitor.begin()
        await visitor.say("Which colour?")
        await visitor.act("react", kind="upvote", place=0)
        (file,) = built.folder.glob("vision-tmp-*.json")
        *lines, last = file.read_text().splitlines()
        reaction = json.loads(last)
        del reaction["arena"]["voted_on"]
        file.write_text("".join(f"{line}\n" for line in [*lines, json.dumps(reaction)]))
        return await visitor.client.get("/mine.json")

    (talk,) = asyncio.run(visits()).json()
    assert [said["kind"] for said in talk["votes"]] == ["upvote"]
