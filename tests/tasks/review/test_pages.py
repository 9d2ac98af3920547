"""Review pages over HTTP: verdicts reach the table or wait in the journal; none is lost, or given to what changed."""

import re
import subprocess
import sys

import polars as pl
import pytest

from schemas.items.review import Review
from tasks.shown import item_key
from tasks.storage.reviews import JOURNAL, journalled, keep, reviews_of, take_in_journal
from tasks.storage.tables import Store
from tests.builders import NOON
from tests.disk_steps import Killed, ends_at
from tests.looked_store import EMAIL, strict
from tests.reviewed_store import HELD, reviewing


@pytest.fixture
def ada(store):
    return reviewing(store)


def stored(store: Store) -> dict[str, str]:
    return {f"{row['reviewer']} {row['item_id']}": row["verdict"] for row in reviews_of(store).to_dicts()}


def test_verdicts_go_from_the_page_into_the_table_and_the_next_item_follows(store, ada):
    verdicts = ("release", "drop", "release", "release")
    paths = [ada.give(verdict)[0] for verdict in verdicts]
    assert len(set(paths)) == 4
    assert stored(store) == dict(zip((f"Ada {name}" for name in HELD), verdicts, strict=True))
    assert journalled(store) == []
    home = ada.client.get("/review/held").text
    assert "<strong>0</strong> of 4 without your verdict" in home
    again = ada.client.get(paths[1])
    fields = dict(re.findall(r'name="(token|shown)" value="([^"]*)"', again.text))
    ada.client.post(paths[1], data=fields | {"verdict": "release"})
    assert stored(store)["Ada c1"] == "release" and reviews_of(store).height == 4


def test_a_second_reviewer_sees_no_verdict_of_the_first_and_untouched_items_first(store, ada):
    ada.give("drop")
    bob = reviewing(store, "Bob")
    path, _, html = bob.page()
    assert path.endswith(item_key("held", "c1")) and "Your verdict" not in html
    for _ in range(3):
        bob.give("release")
    path, _, html = bob.page()
    assert path.endswith(item_key("held", "c0")) and "Your verdict" not in html and "1 left" in html


def test_a_held_item_says_in_words_what_its_rule_found(store):
    ours = pl.col("item_id") == "c0"
    reasons = pl.when(ours).then(pl.lit(["face"])).otherwise("reasons").alias("reasons")
    store.replace("decisions", store.read("decisions").with_columns(reasons))
    assert "face: a face with confidence 0.5 or more in an image" in reviewing(store).page()[2]


def test_pages_mask_and_blur_until_asked_and_run_nothing_of_a_text(store, looked):
    ada = reviewing(store, '<script>window.ran = 1</script>"\u202e')
    pages = [ada.client.get(f"/review/held/{item_key('held', name)}").text for name in HELD]
    for html in (*pages, ada.client.get("/review").text):
        strict(html)
    assert all(EMAIL not in html for html in pages) and "Blurred" in pages[2]
    before = ada.client.get(f"/images/{looked.faces}").content
    for name in ("personal", "face"):
        path = f"/review/held/{item_key('held', name)}"
        html = ada.client.post(f"{path}/open", data={"token": ada.page()[1]["token"]}).text
    assert "because somebody asked" in html
    assert EMAIL in ada.client.get(f"/review/held/{item_key('held', 'personal')}").text
    assert ada.client.get(f"/images/{looked.faces}").content != before
    assert "shown 2 times" in html


def test_forms_of_elsewhere_store_nothing(store, ada):
    path, fields, _ = ada.page()
    given = fields | {"verdict": "release"}
    answers = [
        ada.client.post(path, data=given, headers={"sec-fetch-site": "same-site"}),
        ada.client.post(path, data=given | {"token": "0"}),
        ada.client.post(path, data=given | {"shown": "0" * 32}),
        ada.client.post(path, data=fields | {"verdict": "maybe"}),
        ada.client.post(path, data=fields),
        ada.client.post(path, data=given | {"padding": "x" * 30_000}),
        ada.client.post(f"/review/none/{'0' * 16}", data=given),
    ]
    assert [answer.status_code for answer in answers] == [403, 403, 409, 409, 409, 413, 404]
    ada.client.cookies.delete("curate_reviewer_8399")
    assert ada.client.post(path, data=given).status_code == 409
    ada.client.cookies.clear()
    assert ada.client.post(path, data=given).status_code == 403
    assert stored(store) == {} and journalled(store) == []


@pytest.mark.parametrize(
    "forged",
    [
        {"host": "evil.test:8399"}, {"host": "127.0.0.1:1"}, {"origin": "https://evil.test"}, {"origin": "null"},
        {"origin": "http://127.0.0.1:1"}, {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"},
    ],
    ids=str,
)  # fmt: skip
def test_no_route_of_explorer_and_review_answers_another_site_or_host_name(ada, forged):
    routes = [(path, method.lower()) for r in ada.client.app.routes for path in [r.path] for method in r.methods]
    assert len(routes) > 14 and ("/review/{name}/{key}", "post") in routes
    for path, method in routes:
        path = re.sub(r"\{number.*?\}", "1", path)
        answer = ada.client.request(method, re.sub(r"\{.*?\}", "x", path), headers=forged)
        assert answer.status_code == 403, (method, path)
    own = {"origin": str(ada.client.base_url).rstrip("/"), "sec-fetch-site": "same-origin"}
    assert ada.client.get("/review", headers=own).status_code == 200


def test_a_verdict_on_what_changed_or_went_is_refused_in_one_line(store, ada):
    path, fields, _ = ada.page()
    texts = pl.col("turns").list.head(1)
    store.replace("conversations", store.read("conversations").with_columns(turns=texts))
    answer = ada.client.post(path, data=fields | {"verdict": "release"})
    assert answer.status_code == 409 and "This item changed since it was shown. Nothing was stored" in answer.text
    store.replace("conversations", store.read("conversations").filter(pl.col("conversation_id") != "c0"))
    answer = ada.client.post(path, data=fields | {"verdict": "release"})
    assert answer.status_code == 409 and "decided or taken down. Nothing was stored" in answer.text
    assert ada.client.get(path).status_code == 404
    assert stored(store) == {} and journalled(store) == []


HOLDER = "import filelock, sys; lock = filelock.FileLock(sys.argv[1]); lock.acquire(); print(flush=True); input()"


@pytest.fixture
def held_elsewhere(store):
    """Another process that writes to the store; calling it ends it."""
    command = [sys.executable, "-c", HOLDER, store.at("writing.lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()

        def end() -> None:
            other.stdin.close()
            other.wait()

        yield end


def test_verdicts_wait_while_another_process_writes_and_are_shown_as_given(store, ada, held_elsewhere):
    path, _ = ada.give("drop")
    ada.give("release")
    assert stored(store) == {} and len(journalled(store)) == 2
    assert "2 in the journal" in ada.page()[2] and "Your verdict: drop" in ada.client.get(path).text
    fields = dict(re.findall(r'name="(token|shown)" value="([^"]*)"', ada.client.get(path).text))
    ada.client.post(path, data=fields | {"verdict": "release"})
    held_elsewhere()
    ada.client.get("/review")
    assert stored(store) == {"Ada c0": "release", "Ada c1": "release"} and journalled(store) == []


def given(name: str, verdict: str, second: int = 0) -> Review:
    """A verdict of Ada's."""
    at = NOON.replace(second=second)
    return Review(
        conversation_id=name, content_id="0" * 32, reasons=["x"], verdict=verdict, queue="held", item_id=name,
        reviewer="Ada", reviewed_at=at,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "place", "number"),
    [("write", "tables/reviews/", 1), ("read", "tables/reviews$", 1), ("remove", JOURNAL, 1), ("remove", JOURNAL, 3)],
    ids=["before the table", "before it is synced", "before the journal goes", "in the midst of that"],
)
def test_no_verdict_is_lost_or_doubled_when_its_writer_ends_on_the_way(store, kind, place, number):
    for name, verdict, second in (("c0", "release", 2), ("c1", "drop", 0), ("c0", "drop", 1), ("gone", "drop", 0)):
        keep(store, given(name, verdict, second))

    with ends_at(kind, place, number), pytest.raises(Killed):
        take_in_journal(store)
    take_in_journal(store)
    once = reviews_of(store)
    take_in_journal(store)
    assert stored(store) == {"Ada c0": "release", "Ada c1": "drop"} and once.equals(reviews_of(store))
    assert journalled(store) == []


def test_a_row_of_an_earlier_version_is_a_verdict_on_a_held_conversation(store):
    old = pl.DataFrame({"conversation_id": ["c0"], "content_id": ["1"], "reasons": [["x"]], "verdict": ["release"]})
    part = store.write_part("reviews", old.with_columns(
        queue=pl.lit(None, pl.String), item_id=pl.lit(None, pl.String), reviewer=pl.lit(None, pl.String),
        reviewed_at=pl.lit(None, pl.Datetime("us", "UTC")),
    ))  # fmt: skip
    store.list_parts("reviews", [part])
    assert reviews_of(store).select("queue", "item_id", "reviewer").row(0) == ("held", "c0", "")
