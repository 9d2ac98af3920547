"""The explorer of a store over HTTP: nothing without the token, personal data masked, hostile texts inert."""

import json
import re
import shutil
from datetime import UTC, datetime
from html import unescape

import polars as pl
import pytest

from tasks.explore.masking import masked_text
from tasks.explore.of_store import OfStore
from tasks.explore.pages import ASSETS
from tasks.explore.server import explorer
from tasks.policy.explained import explained
from tasks.review.held import HeldQueue
from tasks.shown import item_key
from tasks.storage.keyed_ids import UNFINISHED
from tasks.storage.queries.repeated_values import with_repeats
from tasks.storage.tables import Store
from tasks.takedown.take_down import take_down
from tests.builders import battle, conversation, decision, facts_frame, sides, store_with
from tests.looked_store import EMAIL, HOSTILE, PORT, SOURCE, USER, Looked, TestClient, client, strict

PERSONAL, FACE = item_key("conversation", "personal"), item_key("conversation", "face")
ADDRESSES = [
    "/", "/?q=picture", "/topics", "/boards", "/dropped", "/nowhere", "/topics/points.js", "/topics/piece-0.js",
]  # fmt: skip


def all_addresses(of_store) -> list[str]:
    return [*ADDRESSES, *(f"/items/{key}" for key in of_store.listing["key"])]


@pytest.fixture
def own(looked, tmp_path) -> Looked:
    """A copy of the store to write to."""
    return looked._replace(store=Store(str(shutil.copytree(looked.store.root, tmp_path / "store"))))


def test_without_the_token_nothing_is_shown(looked):
    app, path = explorer(OfStore(looked.store, explained), lambda: PORT)
    visitor = TestClient(app, base_url=f"http://127.0.0.1:{PORT}")
    for address in [
        *ADDRESSES,
        f"/thumbs/{looked.plain}",
        "/static/explore.css",
        "/?token=x",
        f"/items/{PERSONAL}?token=x",
    ]:
        refused = visitor.get(address)
        assert (refused.status_code, "token" in refused.text) == (403, True)
    assert visitor.post(f"/items/{PERSONAL}/open").status_code == 403
    assert visitor.get(path, follow_redirects=False).headers["set-cookie"].endswith("HttpOnly; Path=/; SameSite=lax")


@pytest.mark.parametrize("host", ["evil.test", f"evil.test:{PORT}", "127.0.0.1:80", f"192.168.1.7:{PORT}", ""])
def test_another_host_name_is_refused(browser, host):
    assert browser.get("/", headers={"host": host}).status_code == 403


def test_no_page_has_inline_script_or_leads_elsewhere(browser, of_store):
    for address in all_addresses(of_store):
        answer = browser.get(address)
        assert answer.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'; style-src")
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"
        if answer.headers["content-type"].startswith("text/html"):
            strict(answer.text)
        else:
            assert "<" not in answer.text


def test_no_page_has_an_address_a_path_a_key_or_what_is_masked(browser, of_store, looked):
    secret = looked.store.read_bytes("secret/user_key")
    hidden = [
        EMAIL,
        SOURCE,
        USER,
        looked.store.root,
        "A flagged prompt",
        *([secret.decode(errors="ignore")] if secret else []),
    ]
    for address in all_addresses(of_store):
        page = browser.get(address).text
        assert [each for each in hidden if each in page] == []


def _items(page: str) -> int:
    return int(re.search(r'id="total">([\d,]+)<', page)[1].replace(",", ""))


def test_topics_count_the_items_that_browse_lists_and_the_sides_of_battles_apart(browser):
    whole, page = browser.get("/").text, browser.get("/topics").text
    assert re.search(r'<span id="kinds">\d+ conversations, 1 battle</span>; 2 sides of battles, under Kind', whole)
    assert "Each number counts items: conversations, and battles once." in whole
    topics = re.findall(r'<a href="(/\?topic=[^"]+)"><bdi>.*?<td class="n">([\d,]+)</td>', page)
    assert topics and {address: _items(browser.get(unescape(address)).text) for address, _ in topics} == {
        address: int(count) for address, count in topics
    }
    placed, elsewhere = re.search(r"of (\d+) items on the map", page), re.search(r"(\d+) items? have no place", page)
    assert _items(page) == int(placed[1]) and _items(whole) == int(placed[1]) + int(elsewhere[1] if elsewhere else 0)
    assert "2 sides of battles" in browser.get("/topics").text


def test_held_conversations_are_those_that_wait_for_a_review_some_of_them_sides_of_battles(tmp_path):
    chats = [conversation("a", "Who is it?", "A person."), *sides("b", "Who?", "A person.")]
    vote = battle(*chats[1:])
    held = [decision(each, "face").model_copy(update={"held": True}) for each in (*chats, vote)]
    made = store_with(tmp_path, conversations=chats, battles=[vote], decisions=held)
    page = client(OfStore(made, explained)).get("/", params={"outcome": "held"}).text
    counted = re.search(r'id="kinds">1 battle, 1 conversation</span>; (\d) sides of battles, under Kind', page)
    assert _items(page) == 2 and 1 + int(counted[1]) == len(HeldQueue().waiting(made))


def test_masked_data_is_not_found_and_a_text_that_was_not_searched_is_masked(browser, of_store):
    assert "searched" not in of_store.listing.columns  # read at the first search
    assert "Nothing matches" in browser.get("/", params={"q": EMAIL}).text
    assert of_store.searchable.drop("searched").equals(of_store.listing)
    assert "[email]" in browser.get("/", params={"q": "write to"}).text
    page = browser.get(f"/items/{item_key('battle', 'b0')}").text
    assert "not searched for personal data yet" in page and ">Left.<" not in page
    assert "The voter wrote" in page and "ask <mark>email</mark>" in page


def test_masked_data_is_shown_after_asking_and_that_is_counted(browser):
    assert "<mark>email</mark>" in browser.get(f"/items/{PERSONAL}").text
    assert "shown 0 times" in browser.get("/").text
    opened = browser.post(f"/items/{PERSONAL}/open")
    assert f"<mark>{EMAIL}</mark>" in opened.text
    assert "shown 1 time" in browser.get("/").text
    assert EMAIL not in browser.get("/", params={"q": "write to"}).text


def test_an_image_with_a_face_is_blurred_until_somebody_asks(browser, looked):
    stored = {row["image_id"]: row["bytes"] for row in looked.store.read("images").iter_rows(named=True)}
    assert browser.get(f"/images/{looked.plain}").content == stored[looked.plain]
    small = browser.get(f"/thumbs/{looked.faces}").content
    assert browser.get(f"/images/{looked.faces}").content == small
    assert browser.get(f"/images/{looked.faces}?opened=1").content == small
    page = browser.post(f"/items/{FACE}/open").text
    assert "<rect" in page and "face 0.90" in page
    assert browser.get(f"/images/{looked.faces}").content == stored[looked.faces]
    assert browser.get(f"/thumbs/{looked.faces}").content == small


def test_what_is_quarantined_has_no_address(browser, of_store, looked):
    key = item_key("conversation", looked.quarantined)
    (image_id,) = (
        looked.store.read("conversations").filter(conversation_id=looked.quarantined)["image_ids"].to_list()[0]
    )
    answers = [browser.get(f"/items/{key}"), browser.get(f"/images/{image_id}"), browser.get(f"/thumbs/{image_id}")]
    answers.append(browser.post(f"/items/{key}/open"))
    assert [answer.status_code for answer in answers] == [404] * 4
    assert looked.quarantined not in of_store.listing["id"].to_list()


def test_only_listed_files_are_served_and_an_address_without_a_page_says_so(browser):
    answer = browser.get("/nowhere")
    assert answer.status_code == 404 and "There is no page at this address" in answer.text
    assert all(browser.get(f"/static/{name}").status_code == 200 for name in ASSETS)
    for name in ("../server.py", "..%2fserver.py", "server.py", "%2e%2e/pages.py", ""):
        assert browser.get(f"/static/{name}").status_code == 404


def test_a_dropped_item_says_why_and_a_long_message_is_cut_and_can_be_read_whole(browser):
    assert "pii_text: text_pii.types of message 1 is email" in browser.get(f"/items/{PERSONAL}").text
    page = browser.get(f"/items/{item_key('conversation', 'twin')}").text
    assert f"/items/{item_key('conversation', 'c1')}" in page and "equal prompts" in page
    dropped = browser.get("/dropped").text
    assert "faces.confidence_max of image 1 is 0.9" in dropped and "at character 3 (1)" in dropped
    key = item_key("conversation", f"c{HOSTILE.index('a' * 1_000_000)}")
    assert len(browser.get(f"/items/{key}").content) < 100_000
    assert "a" * 1_000_000 in browser.get(f"/items/{key}?whole=1").text


def test_a_takedown_removes_an_item_at_once_and_nothing_is_shown_while_it_is_under_way(own):
    visitor, key = client(OfStore(own.store, explained)), item_key("conversation", "c4")
    assert visitor.get(f"/items/{key}").status_code == 200
    take_down(own.store, ["c4"], [], datetime.now(UTC), dry_run=False)
    assert visitor.get(f"/items/{key}").status_code == 404
    assert key not in visitor.get("/").text + visitor.get("/topics/piece-0.js").text
    visitor = client(OfStore(own.store, explained))
    own.store.write_bytes(UNFINISHED, b"")
    assert visitor.get("/").status_code == 410 and "takedown" in visitor.get("/").text
    assert visitor.get(f"/images/{own.plain}").status_code == 404


class _Slow(OfStore):
    """A store of which the first image takes so long to read that a takedown happens meanwhile."""

    visitor = None

    def image(self, image_id):
        content = super().image(image_id)
        if visitor := self.visitor:
            self.visitor = None
            take_down(self._written, ["face"], [], datetime.now(UTC), dry_run=False)
            assert visitor.get("/").status_code == 200
        return content


def test_a_small_copy_that_was_made_during_a_takedown_is_not_kept(own):
    source = _Slow(own.store, explained)
    visitor = source.visitor = client(source)
    visitor.get(f"/thumbs/{own.faces}")
    assert visitor.get(f"/thumbs/{own.faces}").status_code == 404


@pytest.mark.parametrize("table", ["topics", "battles", "signals/language", "conversations"])
def test_a_damaged_part_is_named_and_the_rest_is_shown(own, table):
    (part,) = own.store.parts(table)
    own.store.write_bytes(f"tables/{table}/{part}", b"broken")
    page = client(OfStore(own.store, explained)).get("/").text
    assert f"table {table}: a part is lost or broken" in page and own.store.root not in page


ITEM_TABLES = [
    *("battles", "decisions", "near_prompts", "bench_items", "captions", "references", "generated_items", "answers"),
    *("verdicts", "images", "signals/text_embedding", "near_images"),
]


@pytest.mark.parametrize("item", ["c4", "personal", "twin", "b0"])
def test_with_a_lost_part_in_its_tables_an_item_is_shown_as_before_and_each_is_named_once(own, item):
    key = item_key("battle" if item == "b0" else "conversation", item)
    before = client(OfStore(own.store, explained)).get(f"/items/{key}").text
    for table in ITEM_TABLES:
        listed = [*own.store.parts(table), f"{'0' * 20}-2000-1000.parquet"]
        own.store.write_bytes(f"tables/{table}/parts.json", json.dumps(listed).encode())
    source = OfStore(own.store, explained)
    visitor = client(source)
    page, again = visitor.get(f"/items/{key}").text, visitor.get(f"/items/{key}").text
    assert page == again and source.problems == sorted({*source.problems}) and len(source.problems) > 4
    problems = [line for line in page.splitlines() if "a part is lost or broken" in line]
    assert [line for line in page.splitlines() if line not in problems] == before.splitlines()


def test_an_item_whose_images_cannot_be_read_is_shown_without_them(own):
    (part,) = own.store.parts("images")
    own.store.write_bytes(f"tables/images/{part}", b"broken")
    visitor = client(OfStore(own.store, explained))
    page = visitor.get(f"/items/{item_key('conversation', 'c4')}")
    assert page.status_code == 200 and "table images: a part is lost or broken" in page.text
    assert visitor.get(f"/images/{own.plain}").status_code == 404


def broken_last_part(own, table):
    own.store.write_bytes(f"tables/{table}/{own.store.parts(table)[-1]}", b"broken")
    return OfStore(own.store, explained)


def test_without_a_readable_quarantine_nothing_is_shown(own):
    visitor = client(OfStore(own.store, explained))
    broken_last_part(own, "quarantine")
    app, path = explorer(OfStore(own.store, explained), lambda: PORT)
    visitor = TestClient(app, base_url=f"http://127.0.0.1:{PORT}")
    assert visitor.get(path).status_code == 500 and "A flagged prompt" not in visitor.get("/").text
    assert visitor.get(f"/items/{item_key('conversation', own.quarantined)}").status_code == 500
    assert visitor.get(f"/images/{own.plain}").status_code == 404


@pytest.mark.parametrize("signal", ["faces", "nsfw", "image_text", "image_moderation"])
def test_while_a_measurement_is_lost_images_are_blurred(own, signal):
    frame = own.store.read(f"signals/{signal}").filter(content_id=own.plain)
    flagged = facts_frame("image_moderation", {own.plain: {"flagged_categories": ["violence"]}})
    own.store.append(f"signals/{signal}", flagged if signal == "image_moderation" else frame)
    assert broken_last_part(own, f"signals/{signal}").hidden_image(own.plain)


def test_while_a_later_search_for_personal_data_is_lost_texts_are_masked(own):
    own.store.append("signals/text_pii", own.store.read("signals/text_pii"))
    visitor = client(broken_last_part(own, "signals/text_pii"))
    for address in ("/", f"/items/{item_key('conversation', 'c4')}"):
        page = visitor.get(address).text
        assert "not searched for personal data yet" in page and "evil.test/p.png" not in page
    assert visitor.get(f"/images/{own.plain}").headers["content-type"] == "image/png"  # it shows no text


def test_a_face_that_was_found_meanwhile_is_blurred_at_once(own):
    visitor = client(OfStore(own.store, explained))
    plain = visitor.get(f"/images/{own.plain}").content
    own.store.append(
        "signals/faces",
        own.store.read("signals/faces").filter(content_id=own.faces).with_columns(content_id=pl.lit(own.plain)),
    )
    blurred = visitor.get(f"/images/{own.plain}")
    assert blurred.content != plain and blurred.headers["content-type"] == "image/webp"


@pytest.mark.parametrize("site", ["same-site", "cross-site", "none"])
def test_no_other_page_opens_an_item(browser, site):
    assert browser.post(f"/items/{PERSONAL}/open", headers={"sec-fetch-site": site}).status_code == 403
    assert EMAIL not in browser.get(f"/items/{PERSONAL}").text
    assert browser.post(f"/items/{PERSONAL}/open", headers={"sec-fetch-site": "same-origin"}).status_code == 200


def test_nothing_is_written_to_the_store(own, of_store):
    before = {path: path.stat().st_mtime_ns for path in own_files(own)}
    visitor = client(OfStore(own.store, explained))
    for address in all_addresses(of_store):
        visitor.get(address)
    assert {path: path.stat().st_mtime_ns for path in own_files(own)} == before


def own_files(own):
    from pathlib import Path

    return [path for path in Path(own.store.root).rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    "tables", [{}, {"conversations": [conversation("a", "Hello", "World")]}], ids=["empty", "ingested"]
)
def test_a_store_without_topics_battles_or_decisions_is_shown(tmp_path, tables):
    visitor = client(OfStore(store_with(tmp_path, **tables), explained))
    pages = {address: visitor.get(address) for address in ("/", "/topics", "/boards", "/dropped", "/topics/points.js")}
    assert {answer.status_code for answer in pages.values()} == {200}
    assert "Hello" not in pages["/"].text  # nothing searched it for personal data yet
    assert ("not searched for personal data yet" in pages["/"].text) == bool(tables)
    assert "There are no topics" in pages["/topics"].text and "There is no leaderboard" in pages["/boards"].text


def test_a_value_that_only_an_answer_repeats_is_masked_with_what_was_found():
    asked, answered = "I am Ana Lopez", "Hello Ana Lopez, not Ana Lopezova"
    found = [(asked, [{"type": "person", "start": 5, "end": 14}]), (answered, []), ("Ana Lopez", None)]
    masks = with_repeats(found)
    assert masked_text(answered, masks[1]) == "Hello [person], not Ana Lopezova"
    assert masks[2] is None  # not searched: nothing of it is shown
