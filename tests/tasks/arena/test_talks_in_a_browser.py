"""A visitor's talk in two browsers, where they are installed: votes on turns, reactions, and what ingest reads."""

import json
import os
import re
from pathlib import Path

import pytest

from tasks.storage.tables import Store
from tests.browsers import ENGINES, launched
from tests.served_arena import NAMES, Served, curate_process, logged, models_file
from tests.waiting import free_port

UNBROKEN = "Wortohnepause" * 4
WIDE, PHONE = {"width": 1366, "height": 768}, {"width": 390, "height": 844}


@pytest.fixture
def talks(place, tmp_path):
    """An arena of its own, with a folder of logs of its own."""
    running = Served(place / tmp_path.name, place / "models.yaml")
    yield running
    running.end()


@pytest.fixture(scope="module")
def shared_talks(place, tmp_path_factory):
    """An arena for all tests that look at their own visitors' talks alone: its start takes longer than most of them."""
    running = Served(place / tmp_path_factory.mktemp("shared").name, place / "models.yaml")
    yield running
    running.end()


@pytest.fixture(scope="module", params=["chromium", "firefox"])
def engine(request, tmp_path_factory):
    """What starts a browser, light or dark, once for all tests of this file; each reaches this machine alone."""
    if not ENGINES[request.param]:
        pytest.skip(f"no {request.param} on the PATH: the page was not opened in it")
    api = pytest.importorskip("playwright.sync_api")
    api.expect.set_options(timeout=30_000)
    with api.sync_playwright() as playwright:
        started = {}

        def opened(dark: bool):
            dark = dark and request.param == "firefox"  # a page of Chromium says it for itself
            if dark not in started:
                started[dark] = launched(playwright, request.param, tmp_path_factory.mktemp("engine"), dark)
                started[dark].expect = api.expect
            return started[dark]

        yield opened
        for browser in started.values():
            browser.close()


@pytest.fixture
def browser(request, engine):
    """A browser without visitors: no page, cookie or draft of another test."""
    look = getattr(request.node, "callspec", None) and request.node.callspec.params.get("look", {})
    opened = engine("color_scheme" in (look or {}))
    yield opened
    for visitor in opened.contexts:
        visitor.close()


def opened_page(browser, url: str, wrong: list[str], **context):
    """A page of a new visitor; what it asks of others, and its errors, are added to `wrong`."""
    page = browser.new_context(**{"viewport": WIDE, **context}).new_page()
    page.on("request", lambda asked: asked.url.startswith(url) or wrong.append(asked.url))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(url)
    return page


def say(page, text: str) -> None:
    """Send a message, and wait until both answers have ended."""
    turn_count = page.locator(".turn").count()
    page.get_by_label("Your message").fill(text)
    page.get_by_label("Your message").press("Enter")
    accept = page.locator("#terms-yes")
    if not turn_count:
        accept.click()
    page.locator(".turn").nth(turn_count).locator(".thumb").nth(3).wait_for()


def keep(page, name: str) -> None:
    """Keep an image of a page in the folder that CURATE_TEST_SCREENSHOTS names."""
    if folder := os.environ.get("CURATE_TEST_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png")


def test_a_talk_with_votes_on_turns_is_logged_as_ingest_reads_it(talks, browser, tmp_path):
    wrong, expect = [], browser.expect
    page = opened_page(browser, talks.url, wrong)
    say(page, "Which colour?")
    page.get_by_role("button", name="Good answer (Model A)").click()
    expect(page.get_by_role("button", name="Good answer (Model A)")).to_be_focused()
    expect(page.get_by_role("button", name="Good answer (Model A)")).to_have_attribute("aria-pressed", "true")
    page.locator(".reaction").get_by_label("Helpful").check()
    page.locator(".reaction").get_by_label("About this answer").fill("Short <b>and</b> good")
    keep(page, "reaction")
    page.locator(".reaction").get_by_role("button", name="Send").click()
    expect(page.locator("#notice")).to_contain_text("Thank you")
    page.get_by_role("button", name="Bad answer (Model B)").click()
    page.get_by_role("button", name="Bad answer (Model B)").click()
    expect(page.get_by_role("button", name="Bad answer (Model B)")).to_have_attribute("aria-pressed", "false")
    page.get_by_label("Go on after the vote").check()
    page.locator("h2").first.click()
    page.keyboard.press("a")
    expect(page.locator("#notice")).to_contain_text("You may go on")
    assert not any(name in page.content() for name in NAMES)
    page.get_by_label("Clearer").check()
    page.get_by_label("About B").fill("Too long")
    keep(page, "went-on")
    page.locator("#why").get_by_role("button", name="Send").click()
    expect(page.locator("#notice")).to_contain_text("added to your vote")
    say(page, "And its opposite?")
    assert page.get_by_label("Go on after the vote").is_checked(), "the choice is kept"
    expect(page.locator(".on-turn")).to_have_text("You voted: A is better.")
    page.reload()
    expect(page.get_by_role("button", name="B is better")).to_be_enabled()
    keep(page, "second-turn")
    page.get_by_role("button", name="I do not know").click()
    expect(page.locator("#notice")).to_contain_text("you do not know")
    page.get_by_role("button", name="End and show the names").click()
    expect(page.locator("#notice")).to_contain_text("A is ")
    assert all(name in page.inner_text("#notice") for name in NAMES)
    keep(page, "revealed")
    assert wrong == []
    talks.end()
    done = curate_process("ingest", "--logs", str(talks.folder), "--store", str(tmp_path / "store"))
    assert done.returncode == 0, done.stderr
    store = Store.existing(str(tmp_path / "store"))
    (battle,) = store.read("battles").to_dicts()
    assert (battle["winner"], battle["turns_a"], battle["anonymous"]) == ("model_a", 1, True)
    assert battle["vote_reason"] == "Clearer"
    rows = store.read("reactions").sort("side", "turn", nulls_last=True)
    assert rows.select("side", "turn", "liked", "reasons", "comment").rows() == [
        ("a", 1, None, ["clear+"], None),
        ("b", 1, None, [], "Too long"),
        (None, 1, True, ["helpful+"], "Short <b>and</b> good"),
    ]
    assert not store.parts("rejects") or store.read("rejects").is_empty()


def send_and_answer(page, yes: bool) -> str:
    """Send the typed message, answer the question that this opens, and return the question."""
    questions: list[str] = []
    page.once("dialog", lambda opened: (questions.append(opened.message), opened.accept() if yes else opened.dismiss()))
    page.get_by_label("Your message").press("Enter")
    while not questions:  # the test's time limit ends this
        page.wait_for_timeout(20)
    return questions[0]


def test_a_message_with_a_phone_number_is_sent_only_after_a_question(shared_talks, browser):
    wrong = []
    page = opened_page(browser, shared_talks.url, wrong)
    say(page, "Which colour?")
    page.get_by_label("Your message").fill("Call me at +49 30 901820")
    assert "a phone number" in send_and_answer(page, yes=False)
    browser.expect(page.get_by_label("Your message")).to_have_value("Call me at +49 30 901820")
    page.reload()
    browser.expect(page.get_by_label("Your message")).to_have_value("Call me at +49 30 901820")
    send_and_answer(page, yes=True)
    page.locator(".turn").nth(1).locator(".thumb").nth(3).wait_for()
    browser.expect(page.get_by_label("Your message")).to_have_value("")
    assert wrong == []


def test_what_is_typed_and_not_sent_outlives_all_that_happens_beside_it(shared_talks, browser):
    wrong, expect = [], browser.expect
    page = opened_page(browser, shared_talks.url, wrong)
    say(page, "Which colour?")
    page.get_by_role("button", name="Bad answer (Model B)").click()
    reaction, comment = page.locator(".reaction"), page.locator(".reaction").get_by_label("About this answer")
    reaction.locator("[name=chip]").first.check()
    comment.fill("Not sent yet")
    page.get_by_role("button", name="Report A").click()
    expect(page.locator("#notice")).to_contain_text("Reported")
    expect(comment).to_have_value("Not sent yet")
    expect(reaction.locator("[name=chip]").first).to_be_checked()
    message = page.get_by_label("Your message")
    message.fill("And its opposite?")
    message.press("Enter")
    comment.press("End")
    comment.press_sequentially(", and longer")
    page.locator(".turn").nth(1).locator(".thumb").nth(3).wait_for()
    expect(comment).to_have_value("Not sent yet, and longer")
    expect(comment).to_be_focused()
    page.get_by_role("button", name="Good answer (Model A)").nth(1).click()
    page.locator(".reaction").nth(1).get_by_label("About this answer").fill("On the last answer")
    message.fill("A draft")
    page.get_by_role("button", name="A is better").click()
    expect(page.locator("#why").get_by_label("About A")).to_have_value("On the last answer")
    expect(page.locator("#why").get_by_label("About B")).to_have_value("")
    assert wrong == []


def test_a_shared_link_is_read_without_a_cookie_until_it_is_taken_back(shared_talks, browser):
    wrong = []
    page = opened_page(browser, shared_talks.url, wrong)
    say(page, "Which colour?")
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Share a link").click()
    address = page.get_by_role("link", name="Open the link").get_attribute("href")
    reader = browser.new_context(viewport=PHONE)
    other = reader.new_page()
    other.on("pageerror", lambda error: wrong.append(str(error)))
    other.goto(shared_talks.url + address)
    assert "Which colour?" in other.inner_text("main") and other.locator(".answer:visible").count() == 2
    assert other.locator("button:visible, form").count() == 0 and reader.cookies() == []
    assert other.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it scrolls sideways"
    keep(other, "link")
    page.get_by_role("button", name="Take the link back").click()
    browser.expect(page.get_by_role("button", name="Share a link")).to_be_visible()
    assert other.goto(shared_talks.url + address).status == 410
    browser.expect(other.locator("h1")).to_have_text("This conversation is no longer shared.")
    assert wrong == []


def distance_to_end(page, inner: str, outer: str) -> float:
    """Pixels between the ends of two elements, in the direction of the page."""
    a, b = (page.locator(each).bounding_box() for each in (inner, outer))
    if page.evaluate("document.dir") == "rtl":
        return a["x"] - b["x"]
    return b["x"] + b["width"] - a["x"] - a["width"]


@pytest.fixture(scope="module")
def with_long_terms(place, tmp_path_factory):
    """An arena whose terms fill several screens."""
    folder = tmp_path_factory.mktemp("terms")
    (folder / "terms.md").write_text("You agree to many things. " * 400)
    running = Served(place / folder.name, place / "models.yaml", "--terms", folder / "terms.md")
    yield running
    running.end()


@pytest.mark.parametrize("look", [{"viewport": PHONE}, {"locale": "ar"}], ids=["phone", "arabic"])
def test_long_terms_begin_at_their_title_and_are_accepted_without_scrolling(with_long_terms, browser, look):
    wrong = []
    page = opened_page(browser, with_long_terms.url, wrong, **look)
    page.get_by_role("textbox").first.fill("Hello")
    page.keyboard.press("Enter")
    height = page.viewport_size["height"]
    for part in ("#terms-title", "#terms-no", "#terms-yes"):
        box = page.locator(part).bounding_box()
        assert box["y"] >= 0 and box["y"] + box["height"] <= height, part
    text = page.locator("#terms .rich")
    page.keyboard.press("End")
    while not text.evaluate("each => each.scrollTop"):  # the test's time limit ends this
        page.wait_for_timeout(20)
    keep(page, f"long-terms-{browser.browser_type.name}-{page.evaluate('innerWidth')}")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.locator(".thumb").nth(3).wait_for(state="attached")
    assert not text.is_visible() and wrong == []


@pytest.mark.parametrize(
    "look",
    [
        {"viewport": PHONE},
        {"viewport": PHONE, "color_scheme": "dark"},
        {"color_scheme": "dark"},
        {"locale": "ar", "viewport": PHONE},
        {"locale": "ar"},
    ],
    ids=["phone", "dark-phone", "dark", "arabic-phone", "arabic"],
)
def test_a_talk_fits_each_screen(shared_talks, browser, look, request):
    wrong = []
    page = opened_page(browser, shared_talks.url, wrong, **look)
    assert page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") == ("color_scheme" in look)
    name = re.sub(r"\W+", "-", request.node.callspec.id)
    page.locator(".starter").first.scroll_into_view_if_needed()
    keep(page, f"{name}-first")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the first screen scrolls sideways"
    page.locator("#text").fill("Which colour?")
    page.locator("#text").press("Enter")
    page.locator("#terms-yes").click()
    page.locator(".thumb").nth(3).wait_for(state="attached")
    if page.locator(".switch").is_visible():
        page.locator("[data-show]").nth(1).click()
        page.locator("[data-show]").nth(0).click()
    page.locator(".thumb.upvote").first.click()
    page.locator(".reaction").wait_for()
    page.locator("#goes-on").check()
    keep(page, f"{name}-reaction")
    assert distance_to_end(page, "#send", ".box") < 20, "Send is at the end of its row"
    page.locator(".vote.leftvote").click()
    page.locator("#why").wait_for()
    keep(page, f"{name}-voted")
    covers = page.evaluate("getComputedStyle(document.querySelector('.dock')).position") == "sticky"
    assert covers == (page.viewport_size["width"] > 760), "on a phone the reasons leave the answers their place"
    assert page.locator("#why input").first.evaluate("each => each === document.activeElement")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it scrolls sideways"
    assert wrong == []


def test_a_side_without_an_answer_gets_another_model_and_the_other_answer_stays(place, chat_port, browser, tmp_path):
    models = models_file(place / f"{tmp_path.name}.yaml", chat_port, (*NAMES, "broken-model"))
    running, wrong = Served(place / tmp_path.name, models), []
    try:
        page = opened_page(browser, running.url, wrong)
        anew = page.locator("[data-act=anew]")
        for number in range(40):  # two of three battles have the broken model, until it leaves the pool
            page.goto(running.url)
            page.get_by_label("Your message").fill("Which colour?")
            page.get_by_label("Your message").press("Enter")
            if not number:
                page.locator("#terms-yes").click()
            page.locator("[data-act=again]").wait_for()
            if anew.count():
                break
        keep(page, "failed")
        kept = page.locator(".answer:has(.thumb)")
        text = kept.locator(".said-by").inner_text()
        anew.focus()
        page.keyboard.press("Enter")
        page.locator(".thumb").nth(3).wait_for()
        browser.expect(page.get_by_role("button", name="A is better")).to_be_enabled()
        assert text in page.locator(".said-by").all_inner_texts() and anew.count() == 0
        assert wrong == []
    finally:
        running.end()


def test_both_answers_begin_above_the_votes_at_1366_by_768(shared_talks, browser):
    wrong = []
    page = opened_page(browser, shared_talks.url, wrong)
    page.locator(".starter[data-picture]").first.focus()
    page.keyboard.press("Enter")
    page.locator("#pictures img").wait_for()
    page.get_by_label("Your message").fill("A long question about this picture. " * 40)
    page.get_by_label("Your message").press("Enter")
    page.locator("#terms-yes").click()
    page.locator(".thumb").nth(3).wait_for()
    page.reload()
    page.locator(".thumb").nth(3).wait_for()

    def begins_above() -> bool:
        dock = page.locator(".dock").bounding_box()["y"]
        words = [page.locator(".said-by").nth(place).bounding_box()["y"] for place in range(2)]
        return max(words) + 20 < dock

    keep(page, "above")
    assert begins_above()
    page.get_by_label("Your message").fill("What I would say next")
    page.get_by_label("Go on after the vote").check()
    page.get_by_role("button", name="A is better").click()
    page.locator("#why").wait_for()
    keep(page, "above-voted")
    assert begins_above()
    browser.expect(page.get_by_label("Your message")).to_have_value("What I would say next")
    small = page.locator(".picture img").bounding_box()["height"]
    page.locator(".picture summary").focus()
    page.keyboard.press("Enter")
    assert page.locator(".picture img").bounding_box()["height"] > 2 * small
    assert wrong == []


def test_own_talks_are_at_the_side_where_there_is_room(shared_talks, browser):
    wrong = []
    page = opened_page(browser, shared_talks.url, wrong)
    assert not page.locator("#talks").is_visible()
    say(page, "Which colour?")
    browser.expect(page.locator("#talks a[aria-current]")).to_have_text("Which colour?")
    page.goto(shared_talks.url)
    page.locator("#talks").get_by_role("link", name="Which colour?").click()
    page.locator(".thumb").nth(3).wait_for()
    keep(page, "listed")
    page.set_viewport_size(PHONE)
    assert not page.locator("#talks").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it scrolls sideways"
    assert wrong == []


@pytest.mark.parametrize("look", [{}, {"viewport": PHONE}, {"color_scheme": "dark"}], ids=["wide", "phone", "dark"])
def test_operators_change_the_terms_on_a_page_that_fits_the_screen(place, browser, tmp_path, look, request):
    port, wrong, token = free_port(), [], "0123456789abcdef"
    options = ("--set", f"admin_port={port}", "--set", "operators.anna=ANNA_TOKEN")
    running = Served(place / tmp_path.name, place / "models.yaml", *options, ANNA_TOKEN=token)
    try:
        page = opened_page(browser, f"http://127.0.0.1:{port}", wrong, **look)
        page.get_by_label("Token").fill(token)
        page.keyboard.press("Enter")
        page.locator("summary", has_text="Terms").focus()
        page.keyboard.press("Enter")
        page.get_by_label("en, Markdown").fill("Be kind.")
        page.get_by_role("button", name="Publish").click()
        browser.expect(page.get_by_role("status")).to_contain_text("the terms have no version")
        browser.expect(page.get_by_label("en, Markdown")).to_have_value("Be kind.")
        page.get_by_label("Version").fill("2026-12")
        keep(page, f"admin-{request.node.callspec.id}")
        page.get_by_role("button", name="Publish").click()
        browser.expect(page.get_by_role("status")).to_contain_text("Done.")
        browser.expect(page.locator("summary", has_text="Terms")).to_have_text("Terms: version 2026-12")
        assert "anna" in page.locator("ul.plain li", has_text="terms of version 2026-12").inner_text()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it scrolls sideways"
        keep(page, f"admin-{request.node.callspec.id}-done")
        assert wrong == []
    finally:
        running.end()


@pytest.fixture(scope="module")
def of_long_words(place, chat_port, tmp_path_factory):
    """An arena whose title, models, reasons and starters are words without a break."""
    folder = tmp_path_factory.mktemp("words")
    models = [
        {
            "name": f"{name}-{UNBROKEN}",
            "base_url": f"http://127.0.0.1:{chat_port}/v1",
            "model": name,
            "provider": UNBROKEN,
            "licence": UNBROKEN,
            "size": UNBROKEN[:30],
        }
        for name in NAMES
    ]
    groups = {group: {"long": {"en": UNBROKEN}} for group in ("better", "tie", "both_bad", "good", "bad")}
    starters = [{"title": {"en": UNBROKEN}, "prompts": {"en": [UNBROKEN * 9]}}]
    written = {"models": {"models": models}, "reasons": groups, "starters": {"categories": starters}}
    files = {name: folder / f"{name}.yaml" for name in written}
    for name, file in files.items():
        file.write_text(json.dumps(written[name]))  # JSON is YAML
    options = ["--set", f"reasons={files['reasons']}", "--set", f"starters={files['starters']}"]
    running = Served(place / folder.name, files["models"], *options, "--set", f"title={UNBROKEN}")
    yield running
    running.end()


@pytest.mark.parametrize("look", [{"viewport": PHONE}, {"viewport": PHONE, "locale": "ar"}], ids=["phone", "arabic"])
def test_words_without_a_break_fit_a_phone_wherever_an_operator_or_visitor_puts_them(of_long_words, browser, look):
    wrong = []
    page = opened_page(browser, of_long_words.url, wrong, **look)

    def fits(state: str) -> None:
        keep(page, f"words-{page.evaluate('document.dir')}-{state}")
        wide = page.evaluate(
            "[...document.querySelectorAll('main *')].filter((each) => each.checkVisibility() && "
            "(each.getBoundingClientRect().right > innerWidth + 1 || each.getBoundingClientRect().left < -1) && "
            "!each.closest('pre, table, .scroll, svg')).map((each) => each.outerHTML.slice(0, 90))"
        )
        assert wide == [] and page.evaluate("document.documentElement.scrollWidth <= innerWidth"), state

    fits("first")
    page.locator("#text").fill(UNBROKEN * 9)
    page.locator("#text").press("Enter")
    page.locator("#terms-yes").click()
    page.locator(".thumb").nth(3).wait_for(state="attached")
    fits("answered")
    page.locator(".thumb:visible").first.click()
    page.locator(".reaction:visible").wait_for()
    fits("reaction")
    page.locator("[data-show='1']").click()
    page.locator(".vote.leftvote").click()
    page.locator("#why").wait_for()
    fits("voted")
    lines = page.locator(".facts dt:visible").evaluate_all(
        "all => all.map((each) => { const range = document.createRange(); range.selectNodeContents(each); "
        "return range.getClientRects().length; })"
    )
    assert set(lines) == {1}, "the name of a fact is broken"
    for path in ("/mine", "/board", "/direct", "/side-by-side"):
        page.goto(of_long_words.url + path)
        fits(path.strip("/"))
    assert wrong == []


def test_a_vote_in_a_tab_that_shows_an_earlier_turn_is_not_counted(talks, browser):
    wrong, expect = [], browser.expect
    page = opened_page(browser, talks.url, wrong)
    say(page, "Which colour?")
    stale = page.context.new_page()
    stale.goto(page.url)
    say(page, "And its opposite?")
    stale.get_by_role("button", name="A is better").click()
    expect(stale.locator("#notice")).to_contain_text("does not show the latest answers")
    stale.reload()
    stale.get_by_role("button", name="B is better").click()
    expect(stale.locator("#notice")).to_contain_text("You voted: B is better.")
    lines = [json.loads(line) for line in logged(talks.folder).splitlines()]
    assert [line["type"] for line in lines if line["type"] != "chat"] == ["rightvote"]
    assert wrong == []
