"""Hostile texts in two browsers, with the network refused: no script runs, no request leaves, no layout breaks.

A browser that is not on the PATH is skipped; the same claims are tested over HTTP in `test_store_pages.py`.
"""

import os
import socket
import threading
from pathlib import Path

import pytest
import uvicorn

from tasks.explore.of_store import OfStore
from tasks.explore.server import explorer
from tasks.explore.static_pages import export_pages
from tasks.policy.explained import explained
from tasks.shown import item_key
from tests.browsers import ENGINES, launched
from tests.looked_store import EMAIL, HOSTILE

PERSONAL = item_key("conversation", "personal")


_TRIED = "The page’s settings blocked WebAssembly"
"""Firefox's word that the map's library tried it, and does without."""


class Tab:
    """A page, and what happened in it that must not."""

    def __init__(self, context, allowed: str) -> None:
        self.page, self.wrong = context.new_page(), []
        self.page.on("request", lambda request: request.url.startswith(allowed) or self.wrong.append(request.url[:200]))
        self.page.on("pageerror", lambda error: _TRIED in str(error) or self.wrong.append(str(error)))
        self.page.on("console", lambda line: line.type == "error" and self.wrong.append(line.text))
        self.page.on("dialog", lambda dialog: self.wrong.append(dialog.message))

    def sound(self) -> None:
        """No script of a text ran, nothing went elsewhere, and nothing is wider than the window."""
        assert self.wrong == []
        assert self.page.evaluate("window.ran") is None
        assert self.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.fixture(scope="module", params=["chromium", "firefox"])
def engine(request, tmp_path_factory):
    """A browser that reaches this machine alone."""
    if not ENGINES[request.param]:
        pytest.skip(f"no {request.param} on the PATH: pages were not opened in it")
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as playwright:
        opened = launched(playwright, request.param, tmp_path_factory.mktemp("engine"))
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def served(engine, looked):
    """The explorer of the hostile store, one for each browser: its address, and the link to open first."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        app, path = explorer(OfStore(looked.store, explained), lambda: port)
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
        running = threading.Thread(target=server.run, args=([listener],))
        running.start()
        yield f"http://127.0.0.1:{port}", path
        server.should_exit = True
        running.join()


@pytest.fixture
def tab(engine, served, request):
    """A tab that has followed the link; parametrised with options of its window."""
    address, path = served
    context = engine.new_context(**getattr(request, "param", {}))
    opened = Tab(context, f"{address}/")
    opened.page.goto(address + path)
    yield opened
    opened.sound()
    context.close()


def keep(page, name: str) -> None:
    """Keep an image of a page in the folder that CURATE_TEST_SCREENSHOTS names."""
    if folder := os.environ.get("CURATE_TEST_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}-{page.context.browser.browser_type.name}.png")


PHONE_IN_THE_DARK = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"}


@pytest.mark.parametrize("tab", [{}, PHONE_IN_THE_DARK], indirect=True, ids=["wide", "390 px, dark"])
def test_no_page_runs_a_text_or_sends_a_request_or_breaks(tab, served):
    address, _ = served
    narrow = tab.page.evaluate("innerWidth") < 400
    items = [f"/items/{item_key('conversation', f'c{n}')}" for n in range(len(HOSTILE))]
    for path in ["/", "/boards", "/dropped", f"/items/{item_key('battle', 'b0')}", *(items if narrow else items[1:3])]:
        tab.page.goto(address + path)
        tab.sound()
    tab.page.goto(f"{address}/?q=%3Cscript")
    assert tab.page.locator(".card").count() >= 2
    keep(tab.page, "browse-phone-dark" if narrow else "browse")


LAPTOP = {"viewport": {"width": 1366, "height": 768}}


@pytest.mark.parametrize("tab", [LAPTOP, PHONE_IN_THE_DARK], indirect=True, ids=["laptop", "390 px, dark"])
def test_both_answers_of_a_battle_begin_above_the_fold_below_one_prompt(tab, served):
    tab.page.goto(f"{served[0]}/items/{item_key('battle', 'b0')}")
    height = tab.page.evaluate("innerHeight")
    tops = [side.bounding_box()["y"] for side in tab.page.locator(".battle .side h2").all()]
    assert len(tops) == 2 and max(tops) < height - 100
    assert tab.page.locator(".message.user").count() == 1
    keep(tab.page, f"battle-{tab.page.evaluate('innerWidth')}")


@pytest.mark.parametrize("tab", [PHONE_IN_THE_DARK], indirect=True, ids=["390 px, dark"])
def test_no_column_of_a_board_is_cut_on_a_phone(tab, served):
    tab.page.goto(f"{served[0]}/boards")
    cut = "tables => tables.filter(table => table.scrollWidth > table.parentElement.clientWidth + 1).length"
    assert tab.page.locator(".scroll table").count() >= 2
    assert tab.page.locator(".scroll table").evaluate_all(cut) == 0
    keep(tab.page, "board-phone-dark")


def _open_map(page, address: str) -> None:
    """Open the map, where the browser draws it."""
    page.goto(address)
    page.wait_for_selector("#map[data-ready], #no-map:visible")
    if page.locator("#no-map").is_visible() and page.context.browser.browser_type.name == "firefox":
        pytest.skip("this Firefox draws no WebGL: the map was not opened in it")


def test_the_map_is_drawn_named_and_hovered(tab, served):
    _open_map(tab.page, f"{served[0]}/topics")
    assert str(tab.page.evaluate("window.exploreMap.shown()")) == tab.page.inner_text("#total")
    assert tab.page.locator("#map .label").count() == 2
    box = tab.page.locator("#map").bounding_box()
    edge = (1 - 0.88) / 2  # the outermost places are that far from the frame, on both axes
    tab.page.mouse.move(box["x"] + edge * box["width"] + 2, box["y"] + edge * box["height"] + 2, steps=3)
    tab.page.wait_for_selector("#hover:visible")
    assert tab.page.locator("#hover .what").text_content()
    keep(tab.page, "map")


def _drawn_around(page) -> None:
    """Draw a line around the whole map."""
    box = page.locator("#map").bounding_box()
    page.click("#lasso")
    corners = [(0.01, 0.01), (0.99, 0.01), (0.99, 0.99), (0.01, 0.99)]
    page.mouse.move(box["x"] + 4, box["y"] + 4)
    page.mouse.down()
    for across, down in corners:
        page.mouse.move(box["x"] + across * box["width"], box["y"] + down * box["height"], steps=4)
    page.mouse.up()


@pytest.mark.parametrize("tab", [LAPTOP, PHONE_IN_THE_DARK], indirect=True, ids=["laptop", "390 px, dark"])
def test_what_is_drawn_on_the_map_is_a_link_to_the_same_items(tab, served):
    _open_map(tab.page, f"{served[0]}/topics")
    every = tab.page.inner_text("#total")
    assert tab.page.locator("#selection").is_hidden()
    _drawn_around(tab.page)
    tab.page.wait_for_selector("#selection:visible")
    assert tab.page.inner_text("#selected") == every
    keep(tab.page, f"lasso-{tab.page.evaluate('innerWidth')}")
    assert "area=" in tab.page.url
    tab.page.click("#selection a >> text=open")
    tab.page.wait_for_selector(".chips >> text=area of the map")
    assert tab.page.inner_text("#total") == every


def test_part_of_the_map_selects_what_the_server_selects(tab, served):
    _open_map(tab.page, f"{served[0]}/topics")
    every = int(tab.page.inner_text("#total"))
    box = tab.page.locator("#map").bounding_box()
    tab.page.click("#lasso")
    tab.page.mouse.move(box["x"] + 3, box["y"] + 3)
    tab.page.mouse.down()
    for across, down in [(0.6, 0.01), (0.3, 0.99), (0.01, 0.99)]:
        tab.page.mouse.move(box["x"] + across * box["width"], box["y"] + down * box["height"], steps=30)
    tab.page.mouse.up()
    tab.page.wait_for_selector("#selection:visible")
    chosen = int(tab.page.inner_text("#selected"))
    assert 0 < chosen < every
    tab.page.reload()
    assert int(tab.page.inner_text("#total")) == chosen


def test_by_keyboard_what_is_in_view_is_selected(tab, served):
    _open_map(tab.page, f"{served[0]}/topics")
    tab.page.focus("#in-view")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_selector("#selection:visible")
    assert tab.page.inner_text("#selected") == tab.page.inner_text("#total")


@pytest.mark.parametrize("tab", [{}, PHONE_IN_THE_DARK], indirect=True, ids=["wide", "390 px, dark"])
def test_a_question_in_sql_is_typed_and_its_items_are_selected(tab, served):
    tab.page.goto(f"{served[0]}/sql")
    tab.page.fill("textarea", "SELECT conversation_id, model FROM conversations WHERE conversation_id < 'c5'")
    tab.page.click("form.sql button")
    tab.page.wait_for_selector(".answer tbody tr")
    rows = tab.page.locator(".answer tbody tr").count()
    keep(tab.page, f"sql-{tab.page.evaluate('innerWidth')}")
    tab.sound()
    tab.page.click("text=Select the items of all rows")
    tab.page.wait_for_selector(".chips")
    assert 0 < int(tab.page.inner_text("#total")) <= rows


def test_without_webgl_the_table_of_topics_stands_alone(tab, served):
    address, _ = served
    tab.page.add_init_script("HTMLCanvasElement.prototype.getContext = () => null")
    tab.page.goto(f"{address}/topics")
    tab.page.wait_for_selector("#no-map:visible")
    assert tab.page.locator("#map").is_hidden() and tab.page.locator(".topics tbody tr").count() == 2


def test_masked_text_is_opened_by_keyboard_alone(tab, served):
    address, _ = served
    tab.page.goto(f"{address}/items/{PERSONAL}")
    assert EMAIL not in tab.page.content()
    keep(tab.page, "masked")
    for _ in range(30):
        tab.page.keyboard.press("Tab")
        if tab.page.evaluate("document.activeElement.textContent") == "Show this item":
            break
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_selector(f"mark:has-text('{EMAIL}')")
    tab.page.goto(address)
    tab.page.keyboard.press("/")
    tab.page.keyboard.type("email")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_selector(".chips")
    assert tab.page.locator(".card").count() == 1


def test_an_export_opens_from_a_disk(engine, of_release, tmp_path):
    export_pages(of_release, tmp_path / "site", 5_000, None)
    context = engine.new_context()
    tab = Tab(context, f"file://{tmp_path}")
    tab.page.goto(f"file://{tmp_path}/site/index.html")
    tab.page.wait_for_selector(".facets a[href^='#']")
    every = int(tab.page.inner_text("#total"))
    tab.page.click(".facets a[href^='#kind=battle']")
    tab.page.wait_for_selector(".chips")
    battles = int(tab.page.inner_text("#total"))
    assert tab.page.inner_text("#kinds") == f"{battles} battle{'s' * (battles != 1)}"
    assert 0 < battles < every and tab.page.locator(".card").count() == battles
    tab.page.fill("input[type=search]", "which is larger, 3")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_selector("#total:text-is('1')")
    tab.sound()
    tab.page.click(".card a")
    tab.page.wait_for_selector(".battle .side")
    _open_map(tab.page, f"file://{tmp_path}/site/topics.html")
    shown = tab.page.evaluate("window.exploreMap.shown()")
    assert tab.page.inner_text("#total") == str(shown) and f"of {shown} items on the map" in tab.page.inner_text("h1")
    tab.page.click("#outliers")
    assert tab.page.evaluate("window.exploreMap.shown()") < shown
    _drawn_around(tab.page)
    tab.page.wait_for_selector("#selection:visible")
    assert tab.page.inner_text("#selected") == str(shown)
    tab.page.click("#selection a >> text=open")
    tab.page.wait_for_selector(".chips >> text=area of the map")
    assert tab.page.inner_text("#total") == str(shown)
    tab.sound()
    keep(tab.page, "export-map")
    context.close()
