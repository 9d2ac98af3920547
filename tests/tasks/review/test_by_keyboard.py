"""Reviewing by keyboard in Debian's Chromium with the network refused, on a served store whose every text is hostile.

Skipped where no Chromium is on the PATH; the same claims are tested over HTTP in `test_pages.py`.
"""

import re
import signal
import subprocess
import sys
from contextlib import contextmanager

import filelock

from tasks.storage.reviews import journalled, reviews_of
from tests.looked_store import EMAIL
from tests.reviewed_store import HELD, held_store
from tests.tasks.explore.test_in_a_browser import PHONE_IN_THE_DARK, Tab, engine, keep  # noqa: F401


@contextmanager
def served(root: str):
    """`curate review serve` in a process of its own: the process, its address and its link."""
    started = [sys.executable, "-c", "from flows.commands import main; main()", "review", "serve", "--store", root]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*started, "--no-browser"], **pipes) as server:
        try:
            link = server.stdout.readline().strip()
            yield server, re.match(r"http://127\.0\.0\.1:\d+", link)[0], link
        finally:
            if server.poll() is None:
                server.send_signal(signal.SIGINT)
                server.communicate(timeout=60)


def sound(tab: Tab) -> None:
    """The page is there with its styles, and nothing is wrong with it."""
    tab.page.wait_for_load_state()
    tab.page.wait_for_selector(".decide")
    tab.sound()


def test_a_reviewer_decides_by_keyboard_and_nothing_is_lost_when_the_server_is_killed(engine, looked, tmp_path):  # noqa: F811
    store = held_store(looked.store, tmp_path)
    lock = filelock.FileLock(store.at("writing.lock"))
    with served(store.root) as (server, address, link):
        context = engine.new_context(**PHONE_IN_THE_DARK)
        tab = Tab(context, f"{address}/")
        page = tab.page
        page.goto(link)
        page.keyboard.type("Ada")
        page.keyboard.press("Enter")
        page.click("text=Review held conversations")
        sound(tab)
        with lock:  # a run writes to the store
            for key in ("r", "d", "n"):
                before = page.url
                page.keyboard.press(key)
                page.wait_for_function("before => location.href !== before", arg=before)
                sound(tab)
            assert "2 in the journal" in page.inner_text(".left")
            assert EMAIL not in page.content()
            page.keyboard.press("o")
            page.wait_for_selector(f"mark:has-text('{EMAIL}')")
            keep(page, "review-phone-dark")
            server.send_signal(signal.SIGKILL)
            server.wait()
            assert len(journalled(store)) == 2 and reviews_of(store).is_empty()
        tab.sound()
        context.close()
    with served(store.root) as (server, address, link):
        assert dict(reviews_of(store).select("item_id", "verdict").iter_rows()) == {"c0": "release", "c1": "drop"}
        context = engine.new_context()
        tab = Tab(context, f"{address}/")
        page = tab.page
        page.goto(link)
        page.fill("#reviewer", "Ada")
        page.keyboard.press("Enter")
        page.click("text=Review held conversations")
        sound(tab)
        page.keyboard.press("d")
        page.wait_for_selector("text=Change the last verdict")
        sound(tab)
        page.keyboard.press("u")
        page.wait_for_selector("text=Your verdict: drop")
        sound(tab)
        keep(page, "review")
        context.close()
    assert set(reviews_of(store)["item_id"]) == {*HELD[:3]}
