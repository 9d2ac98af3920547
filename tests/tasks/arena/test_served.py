"""The arena as a process, over HTTP, in two browsers where they are installed, and curated."""

import asyncio
import io
import json
import os
import re
from itertools import product
from pathlib import Path

import httpx
import PIL.Image
import pytest

from schemas.asked_model import ArenaModel
from schemas.errors import MissingProvider
from schemas.items.conversation import RecordType
from tasks.arena.answers import Counts
from tasks.arena.reasons import read_reasons
from tasks.arena.words import page_words
from tasks.providers.capabilities import ChatMessage, Thought, TokensUsed
from tasks.providers.chat import streaming_model
from tasks.storage.tables import Store
from tests.arena_client import Visitor
from tests.browsers import ENGINES, launched
from tests.built_arena import image_file
from tests.chat_server import HOSTILE, THOUGHT
from tests.served_arena import ANN_KEY, NAMES, Served, curate_process, hidden, logged, models_file
from tests.tasks.ingest.logs import ingested
from tests.voted_store import voted


@pytest.fixture(scope="module")
def served(place):
    """The running arena."""
    store = voted(place / "tasks")
    tasks = {"store": store.root, "lists": ["sheet"], "overlap": 1, "annotators": {"Ann": "ANN_KEY"}}
    (place / "tasks.yaml").write_text(json.dumps(tasks))
    running = Served(place / "logs", place / "models.yaml", "--tasks", place / "tasks.yaml")
    running.browsers = 0
    yield running
    running.end()


def test_each_model_is_asked_once_and_those_that_fail_are_named(chat_port, tmp_path):
    broken = models_file(tmp_path / "broken.yaml", chat_port, ("broken-model", "half-model", *NAMES))
    refused = curate_process("arena", "--models", str(broken), "--check")
    assert refused.returncode == 2 and refused.stdout.count("first word after") == 2, refused.stderr
    assert refused.stderr == "curate: 2 of 4 models do not answer: broken-model, half-model\n"
    assert "secret" not in refused.stdout + refused.stderr


def test_a_model_that_thinks_is_asked_as_its_server_wants_it(chat_port, monkeypatch):
    monkeypatch.setenv("TEAM_NAME", "vision")
    row = {"name": "thinking-model", "base_url": f"http://127.0.0.1:{chat_port}/v1", "answer_tokens_max": 50}
    asked = {"limit_key": "max_completion_tokens", "extra_body": {"reasoning_effort": "low"}}
    asked["headers"] = {"X-Team": "TEAM_NAME"}

    async def said(**keys) -> list[str]:
        model = streaming_model(ArenaModel(**row, **keys))
        try:
            return [piece async for piece in model.stream([ChatMessage("user", "Hi")])]
        finally:
            await model._streaming.close()  # before the loop of the connection ends

    pieces = asyncio.run(said(**asked))
    assert pieces == ["First ", "I think of ", THOUGHT, "An answer.", TokensUsed(12, 34)]
    assert [isinstance(each, Thought) for each in pieces] == [True, True, True, False, False]
    with pytest.raises(Exception, match="max_tokens"):
        asyncio.run(said())
    monkeypatch.delenv("TEAM_NAME")
    with pytest.raises(MissingProvider, match="header 'X-Team' is not set"):
        streaming_model(ArenaModel(**row, **asked))


def test_thinking_tokens_and_two_arms_of_one_model_reach_the_store_and_no_answer(place, chat_port):
    address = {"base_url": f"http://127.0.0.1:{chat_port}/v1"}
    wanted = {"answer_tokens_max": 50, "limit_key": "max_completion_tokens", "headers": {"X-Team": "TEAM_NAME"}}
    thinks = {"name": "thinks", "model": "thinking-model", "extra_body": {"reasoning_effort": "low"}, **wanted}
    arms = [{"name": f"arm-{each}", "model": "system-model", "system": f"Be {each}."} for each in ("brief", "long")]
    thinks["price"] = {"input_usd_per_million": 1, "output_usd_per_million": 2}
    (place / "think.yaml").write_text(json.dumps({"models": [each | address for each in (thinks, *arms)]}))
    named = os.environ | {"TEAM_NAME": "vision"}
    asked = curate_process("arena", "--models", str(place / "think.yaml"), "--check", env=named)
    assert f"${(12 * 1 + 34 * 2) / 1e6:.6f}" in asked.stdout and "no price is known" in asked.stdout
    running = Served(place / "think", place / "think.yaml", TEAM_NAME="vision")
    try:
        for name in ("thinks", "arm-brief", "arm-long"):
            visitor = Visitor(running.url)
            told = visitor.say("Hello", mode="direct", chosen=[name])
            assert THOUGHT in told[-1]["messages"] and '<details class="thinking">' in told[-1]["messages"]
            visitor.say("And then?")
    finally:
        running.end()
    thought = ingested(place / "think", place / "thought")
    rows = {row["model"]: row for row in thought.read("conversations").to_dicts()}
    answers = {name: [turn["content"] for turn in row["turns"][1::2]] for name, row in rows.items()}
    told = {f"arm-{each}": [f"I am told: Be {each}."] * 2 for each in ("brief", "long")}
    assert answers == {"thinks": ["An answer."] * 2} | told
    for row in rows.values():
        assert [(each["turn"], THOUGHT in each["thinking"]) for each in row["served"]] == [(1, True), (3, True)]
        assert {(each["input_tokens"], each["output_tokens"]) for each in row["served"]} == {(12, 34)}


def test_images_lose_their_metadata_and_are_their_owners(served):
    with httpx.Client(base_url=served.url, timeout=None) as visitor:
        page = visitor.get("/")
        policy = page.headers["content-security-policy"]
        assert "unsafe" not in policy and "script-src 'self';" in policy and "img-src 'self';" in policy
        assert "HttpOnly" in page.headers["set-cookie"] and not re.search(r"<script>|style=|onclick", page.text)
        exif = PIL.Image.Exif()
        exif[0x010F] = "maker"
        photo = image_file("JPEG", exif=exif)
        name = visitor.post("/pictures", content=photo).json()["name"]
        kept = visitor.get(f"/pictures/{name}").content
        with PIL.Image.open(io.BytesIO(kept)) as image:
            assert image.format == "PNG" and b"maker" not in kept
        assert "is not one still image" in visitor.post("/pictures", content=b"<svg/>").json()["refused"]
        for hidden in ("/docs", "/openapi.json", "/static/..%2fapp.py", "/c/x", f"/c/{'0' * 32}/pictures/0"):
            assert visitor.get(hidden).status_code == 404, hidden
        mine = dict(visitor.cookies)
        visitor.cookies.clear()
        assert visitor.get(f"/pictures/{name}").status_code == 404, "of another browser's upload"
        assert "cookies allowed" in visitor.post("/pictures", content=photo).json()["refused"]
        visitor.cookies.update(mine)
        assert visitor.delete(f"/pictures/{name}").status_code == 204
        assert visitor.get(f"/pictures/{name}").status_code == 404, "it was removed before it was sent"


def test_pages_refusals_and_news_come_in_the_language_that_the_browser_wants(served):
    visitor = Visitor(served.url)
    visitor.client.headers["accept-language"] = "ar,en;q=0.5"
    arabic = page_words("ar")
    for address in ("/", "/side-by-side", "/direct", "/board", "/mine", "/tasks", "/nowhere"):
        page = visitor.client.get(address).text
        assert '<html lang="ar" dir="rtl">' in page and arabic["modes"]["battle"] in page
        text = re.sub(r"(?s)<(script|title|select|bdi)\b.*?</\1>|<[^>]*>|&\S+;", " ", page)
        assert set(re.findall(r"[A-Za-z]{2,}", text)) <= {"Vision", "arena", "Top", "Charts", "JavaScript", "JSON"}
    assert arabic["unreadable"] in visitor.client.post("/pictures", content=b"<svg/>").json()["refused"]
    assert visitor.say("x" * 12_001)[0]["refused"] == arabic["too_long"].format(characters="12,001", most="12,000")
    told = visitor.say("Hello")
    assert told[-1]["notice"] == arabic["answers_ended"] and arabic["votes"]["leftvote"] in told[-1]["bar"]
    assert visitor.vote().startswith(arabic["voted"]["leftvote"])
    page = visitor.client.get(f"/c/{visitor.number}").text
    arabic_reason = read_reasons(None).fitting(RecordType.LEFT_VOTE, "ar")["clear"]
    assert arabic_reason in page and 'value="clear"' in page, "the log has one language"
    assert httpx.get(served.url, headers={"accept-language": "de"}).text.count('<html lang="de" dir="ltr">') == 1


MALFORMED = [b"", b"[]", b"{", b'{"mode": "x", "text": 1}', b'{"mode": "battle", "text": null}', b"\xff"]


def test_a_malformed_action_is_refused_in_words_and_repeats_nothing(served):
    for body, path in product(MALFORMED, ("/say", "/c/x/vote")):
        told = httpx.post(
            f"{served.url}{path}", content=body, headers={"content-type": "application/json"}, timeout=None
        )
        assert told.status_code in (409, 422) and set(told.json()) == {"refused", "key"}, told.text
    visitor = Visitor(served.url)
    visitor.say("Hello")
    assert "does not understand" in visitor.act("explode")["refused"]
    assert "no vote for this kind" in visitor.act("vote", kind="share")["refused"]
    assert "no vote for this kind" in visitor.act("flag", place=7)["refused"]


FORGED = [
    {"host": "evil.test"}, {"host": "evil.test:80", "origin": "http://evil.test:80"}, {"origin": "https://evil.test"},
    {"origin": "null"}, {"origin": "http://127.0.0.1"}, {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
    {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"},
]  # fmt: skip


@pytest.mark.parametrize("forged", FORGED, ids=str)
def test_no_route_answers_a_page_of_another_site_or_another_host_name(served, forged):
    with httpx.Client(base_url=served.url, headers=forged, timeout=None) as client:
        for path in ("/", "/mine.json", "/health", "/c/x/events", "/pictures/x", "/static/arena.js"):
            assert client.get(path).status_code == 403, path
        for path in ("/say", "/pictures", "/terms", "/mine/forget", "/c/x/vote"):
            assert client.post(path, json={}).status_code == 403, path
    own = {"origin": served.url, "sec-fetch-site": "same-origin"}
    assert httpx.get(f"{served.url}/health", headers=own, timeout=None).status_code == 200
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert httpx.get(served.url, headers=link, timeout=None).status_code == 200, "a link may be followed"


def test_a_file_or_a_message_that_is_too_large_is_refused_before_it_is_kept(served):
    with httpx.Client(base_url=served.url, timeout=None) as visitor:
        visitor.get("/")
        assert visitor.post("/pictures", content=b"x" * (20 * 1024 * 1024 + 1)).status_code == 413
        assert visitor.post("/say", content=b"x" * (1024 * 1024 + 1)).status_code == 413
        pieces = (b"x" * 65536 for _ in range(20))
        assert visitor.post("/say", content=pieces).status_code in (413, 422), "of unsaid length"


def test_a_conversation_belongs_to_its_browser_and_names_are_nowhere_before_the_vote(served):
    assert "accept the terms" in Visitor(served.url, accepted=False).say("Hello")[0]["refused"]
    mine, other = Visitor(served.url), Visitor(served.url)
    told = json.dumps(mine.say("Hello"))
    pages = "".join(mine.client.get(path).text for path in (f"/c/{mine.number}", "/mine", "/mine.json"))
    assert not any(name in told + pages for name in NAMES) and "(name hidden)" in told and "(name hidden)" in pages
    other.number = mine.number
    assert "another browser" in other.vote() and other.client.get(f"/c/{mine.number}").status_code == 404
    assert other.client.get("/mine.json").json() == [] and "another browser" in other.say("Hello")[0]["refused"]
    said = mine.vote(words="x" * 600)
    assert said.startswith("You voted: A is better.") and all(name in said for name in NAMES)
    assert mine.vote(1).startswith("You voted: A is better."), "the first vote stands"
    assert mine.say("And more?")[0]["key"] == "ended"
    health = httpx.get(f"{served.url}/health", timeout=None).json()
    assert set(health) == {"status", "logs_writable", "models", "answers_coming", *vars(Counts())}
    assert health["models"] == {"answering": 2, "down": 0}
    assert all(isinstance(each, str | int) for each in health.values() if each is not health["models"])


def test_a_visitor_reopens_votes_exports_and_forgets_what_another_process_logged(served, place):
    visitor = Visitor(served.url)
    picture = visitor.client.post("/pictures", content=image_file(seed=5)).json()["name"]
    visitor.say("Project Zebra", pictures=[picture])
    kept = visitor.number
    visitor.number = ""
    visitor.say("Project Lion")
    again = Served(served.folder, place / "models.yaml")
    try:
        visitor.client.base_url = again.url
        listed = visitor.client.get("/mine.json").json()
        assert next(each["sides"][0]["messages"][0]["content"] for each in listed) == "Project Lion"
        assert all(side["model"] is None for each in listed for side in each["sides"])
        page = visitor.client.get(f"/c/{kept}")
        assert "Project Zebra" in page.text and not any(name in page.text for name in NAMES)
        image = visitor.client.get(f"/c/{kept}/pictures/0")
        assert PIL.Image.open(io.BytesIO(image.content)).size == (60, 40)
        visitor.number = kept
        assert visitor.vote(2, "the same").startswith("You voted: tie.")
        votes = int(re.search(r"(\d+) votes? on 2 models", visitor.client.get("/board").text)[1])
        (zebra,) = [each for each in visitor.client.get("/mine.json").json() if each["number"] == kept]
        assert {side["model"] for side in zebra["sides"]} == set(NAMES) and zebra["votes"][-1]["reason"] == "the same"
        assert '"ip"' not in json.dumps(zebra) and "127.0.0.1" not in json.dumps(zebra)
        assert "remove this conversation" in visitor.act("forget")["notice"]
        board = visitor.client.get("/board").text
        assert (f"{votes - 1} vote" if votes > 1 else "No votes yet") in board, "what was forgotten is gone at once"
        assert len(visitor.client.get("/mine.json").json()) == 1
        assert "remove your conversations" in visitor.client.post("/mine/forget").json()["notice"]
        assert visitor.client.get("/mine.json").json() == []
    finally:
        again.end()


def test_who_waits_for_others_is_told_the_place_in_the_queue(place, chat_port):
    models = models_file(place / "slow.yaml", chat_port, ("slow-model", "good-model"))
    running = Served(place / "slow", models, "--set", "answers_at_once=1")
    first, second = Visitor(running.url), Visitor(running.url)
    try:
        said = [
            each.client.post("/say", json={"mode": "battle", "text": "Hello"}).json()
            for each in (first, second, Visitor(running.url))
        ]
        assert ["waiting" in each["notice"] or "next" in each["notice"] for each in said] == [False, True, True]
        assert said[1]["notice"] == "You are next." and said[2]["notice"] == "1 waiting before you."
        first.number, second.number = said[0]["number"], said[1]["number"]
        first.act("stop")
        with second.client.stream("GET", f"/c/{second.number}/events") as stream:
            lines = (line for line in stream.iter_lines() if '"html":"<p>' in line)
            assert re.search("word0|red", next(lines)), "its models are asked now"
    finally:
        running.kill()


def test_an_annotator_needs_a_key_and_gets_images_and_texts_without_models(served):
    with httpx.Client(base_url=served.url, follow_redirects=True, timeout=None) as annotator:
        nobody = annotator.post("/tasks", data={"key": "a wrong key", "list": "sheet"}).text
        assert "No annotator has this key" in nobody and "Prompt" not in nobody
        page = annotator.post("/tasks", data={"key": ANN_KEY, "list": "sheet"}).text
        assert "6 left for you" in page and "Which answer is better?" in page and "=left" in page
        assert not re.search(r"\b(ant|bee|cat)\b", page)
        image = annotator.get(re.search(r"/tasks/sheet/0\?[\w-]+", page)[0])
        assert image.status_code == 200 and PIL.Image.open(io.BytesIO(image.content)).format == "PNG"
        assert "Choose a verdict" in annotator.post("/tasks/sheet", data=hidden(page)).text
        assert "5 left for you" in annotator.post("/tasks/sheet", data=hidden(page) | {"verdict": "tie"}).text
        assert "changed meanwhile" in annotator.post("/tasks/sheet", data=hidden(page) | {"verdict": "tie"}).text
    assert "No annotator" in httpx.post(f"{served.url}/tasks/sheet", data={"verdict": "tie"}, timeout=None).text


@pytest.mark.parametrize("engine", ["chromium", "firefox"])
def test_battles_in_a_browser_go_through_every_step_and_load_nothing_from_elsewhere(served, tmp_path, engine):
    if not ENGINES[engine]:
        pytest.skip(f"no {engine} on the PATH: the page was not opened in it")
    api = pytest.importorskip("playwright.sync_api")
    api.expect.set_options(timeout=30_000)
    wrong: list[str] = []
    with api.sync_playwright() as playwright:
        browser = launched(playwright, engine, tmp_path)
        page = browser.new_context(viewport={"width": 1366, "height": 660}).new_page()
        page.on("request", lambda asked: asked.url.startswith(served.url) or wrong.append(asked.url))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        if not os.environ.get("CURATE_TEST_SCREENSHOTS"):  # for which playwright adds a style
            page.on("console", lambda told: told.type == "error" and wrong.append(told.text))
        page.goto(served.url)
        api.expect(page.get_by_label("Your message")).to_be_in_viewport()
        page.get_by_role("button", name="Charts").click()
        page.locator("#pictures img").wait_for()
        keep(page, f"{engine}-first")
        say(
            page,
            "What is this? ``` <div style='position:fixed'></div> <script>window.ran = 1</script> $y^2$, $5 or $10",
        )
        page.get_by_role("button", name="Accept and send").click()
        page.locator(".answer math").first.wait_for()  # the formula of the last words, rendered
        assert page.locator(".message.user math").count() == 1 and "$5 or $10" in page.inner_text(".message.user")
        assert not any(name in page.content() for name in NAMES)
        page.reload()
        page.locator(".answer math").first.wait_for()
        api.expect(page.get_by_role("button", name="Both are bad")).to_be_enabled()
        page.locator("h2").first.click()
        page.keyboard.press("x")
        api.expect(page.locator("#notice")).to_contain_text("You voted: both are bad.")
        assert all(name in page.inner_text("#notice") for name in NAMES)
        page.locator("#why").get_by_role("button", name="Send").click()
        api.expect(
            page.locator("#why").get_by_label("In your words")
        ).to_be_focused()  # nothing was said, and nothing is thanked for
        page.get_by_label("Made something up").check()
        page.locator("#why").get_by_role("button", name="Send").click()
        api.expect(page.locator("#notice")).to_contain_text("added to your vote")
        page.once("dialog", lambda dialog: dialog.dismiss())
        page.get_by_role("button", name="Share a link").click()
        page.once("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="Share a link").click()
        api.expect(page.locator("#notice")).to_contain_text("Anybody with the link")
        page.get_by_role("button", name="Take the link back").click()
        api.expect(page.get_by_role("button", name="Share a link")).to_be_visible()
        assert page.locator("#why").count() == 0, "the reason was given already"
        keep(page, f"{engine}-voted")
        page.get_by_role("link", name="New round").click()
        page.set_input_files("#file", {"name": "a.png", "mimeType": "image/png", "buffer": image_file()})
        page.locator("#pictures img").wait_for()
        page.get_by_role("button", name="Remove this image").click()
        api.expect(page.locator("#pictures img")).to_have_count(0)
        page.set_input_files("#file", {"name": "a.png", "mimeType": "image/png", "buffer": image_file()})
        page.locator("#pictures img").wait_for()
        say(page, "And this?")
        page.get_by_role("button", name="Regenerate").wait_for()  # both answers have ended
        page.get_by_role("button", name="A is better").click()
        api.expect(page.locator("#notice")).to_contain_text("You voted: A is better.")
        page.get_by_role("link", name="My conversations").click()
        assert page.locator(".mine li").count() == 2 and "And this?" in page.inner_text(".mine")
        page.get_by_role("link", name="Leaderboard").click()
        votes = httpx.get(f"{served.url}/health", timeout=None).json()["votes"]
        made_before = served.browsers and r"\d+"  # a board is made at most twice a minute
        api.expect(page.locator("#board-votes")).to_have_text(re.compile(f"^{made_before or votes} votes on 2 models$"))
        assert page.locator("td.interval svg").count() == 2
        keep(page, f"{engine}-board")
        page.set_viewport_size({"width": 390, "height": 844})
        for address in ("/", "/direct", "/board", "/mine"):
            page.goto(served.url + address)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (
                f"{address}: a phone scrolls sideways"
            )
        page.locator(".opens").first.click()
        page.get_by_role("button", name="Model B").click()
        api.expect(page.locator('.answer[data-side="1"]')).to_be_in_viewport()
        keep(page, f"{engine}-narrow")
        page.goto(served.url)
        say(page, "One answer at a time?")
        page.get_by_role("button", name="Regenerate").wait_for()
        api.expect(page.get_by_role("button", name="A is better")).to_be_disabled()
        page.get_by_role("button", name="Model B").click()
        api.expect(page.get_by_role("button", name="A is better")).to_be_enabled()
        api.expect(page.locator("#notice")).to_be_empty()
        page.reload()
        api.expect(page.get_by_role("button", name="A is better")).to_be_enabled()
        page.get_by_role("button", name="Regenerate").click()  # other answers, of which one was opened
        api.expect(page.locator("#notice")).to_contain_text("Open both answers")
        api.expect(page.get_by_role("button", name="A is better")).to_be_disabled()
        page.goto(served.url)
        api.expect(page.get_by_label("Your message")).to_be_in_viewport()
        assert page.evaluate("window.ran") is None and page.locator(".rich iframe, .rich form, .rich div").count() == 0
        weight = page.evaluate(
            "performance.getEntries().filter((each) => each.initiatorType !== 'img')"
            ".reduce((sum, each) => sum + (each.decodedBodySize || 0), 0)"
        )
        browser.close()
    assert wrong == [] and weight < 150_000
    served.browsers += 1


def test_what_browsers_sent_is_logged_and_curated_without_a_reject(served, place):
    if not served.browsers:
        pytest.skip("no browser on the PATH")
    served.end()
    check_logged(served.folder)
    store = place / "store"
    logs, presets = str(served.folder), str(place / "presets")
    done = curate_process("ingest", "--logs", logs, "--presets", presets, "--store", str(store))
    assert done.returncode == 0, done.stderr
    tables = {
        name: Store.existing(str(store)).read(name) for name in ("conversations", "battles", "rejects", "presets")
    }
    assert set(tables["rejects"]["reason"]) == {"taken_down"}, "what was forgotten above, and nothing else"
    assert tables["conversations"].height == 6 + 6 * served.browsers and "Project" not in str(
        tables["conversations"].to_dicts()
    )
    assert "Made something up" in tables["battles"]["vote_reason"].to_list()
    assert tables["battles"]["vote_reason"].str.len_chars().max() == 500
    winners = ["model_a"] * (2 + served.browsers) + ["tie_bothbad"] * served.browsers
    assert tables["battles"]["winner"].sort().to_list() == winners
    presets = {*tables["presets"]["image_id"]}  # the example image, and pictures of starter prompts
    image_ids = tables["conversations"]["image_ids"]
    assert sum(not presets.isdisjoint(images) for images in image_ids) == 2 * served.browsers


def say(page, text: str) -> None:
    page.get_by_label("Your message").fill(text)
    page.get_by_label("Your message").press("Enter")


def keep(page, name: str) -> None:
    """Keep an image of a page in the folder that CURATE_TEST_SCREENSHOTS names."""
    if folder := os.environ.get("CURATE_TEST_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png")


def check_logged(folder: Path) -> None:
    """Every line is whole, and what the hostile model said is there word for word, flagged for its name."""
    records = [json.loads(line) for line in logged(folder).splitlines()]
    said = [each for each in records if each.get("model") == "hostile-model-7b"]
    assert said and all(each["state"]["messages"][-1][1] == HOSTILE and each["arena"]["names_itself"] for each in said)
    assert b"127.0.0.1" not in logged(folder)
