"""`curate view` serves, exports and refuses; a query is a link, and facets count what each choice would leave."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import parse_qsl

import fsspec
import polars as pl
import pytest

from flows.commands.pages import opened
from tasks.explore.facets import Query, find, matching, query_of
from tasks.explore.listing import finished, with_marks
from tasks.explore.static_pages import sampled
from tasks.shown import SIDE, Gone
from tasks.storage.keyed_ids import UNFINISHED
from tasks.storage.tables import Store
from tasks.takedown.releases import TAKEDOWN, withdraw_releases
from tasks.upkeep.retention import RETENTION
from tests.small_store import manifest_of
from tests.tampered_release import CHAT, rewrite, state_rows


@pytest.fixture
def store(small_release) -> Store:
    return Store(str(small_release.parents[1]))


@pytest.fixture
def release(small_release) -> Path:
    return small_release


def test_it_serves_until_it_is_stopped_and_writes_no_log(store):
    command = [sys.executable, "-c", "from flows.commands import main; main()", "view", store.root, "--no-browser"]
    environment = {**os.environ, "BROWSER": "false"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as running:
        try:
            link, how = running.stdout.readline().strip(), running.stdout.readline()
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{32}", link)
            with pytest.raises(urllib.error.HTTPError, match="403"):
                urllib.request.urlopen(link.partition("?")[0])
            visitor = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            assert b"What is in picture" in visitor.open(link).read()
        finally:
            running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert (how, out, err, running.returncode) == ("Ctrl-C ends it\n", "", "", 0)


def test_what_starts_the_explorer_imports_no_large_library_that_it_does_not_need(store, release):
    places = repr([store.root, str(release)])  # pandas is needed: pyarrow.dataset imports it, and DuckDB reads that
    code = (
        "import sys, uvicorn\nfrom flows.commands.pages import opened\nfrom tasks.explore.server import explorer\n"
        f"for place in {places}:\n    with opened(place, None) as (source, _):\n        assert source.listing.height\n"
        "print(sorted({'datasets', 'matplotlib', 'prefect', 'scipy', 'torch'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_release_is_exported(curate, release, tmp_path):
    code, out, _ = curate("view", release, "--export", tmp_path / "site", "--rows-max", "5")
    assert code == 0 and re.fullmatch(r"5 items in .*/site/index\.html, sampled evenly over topics from \d+\n", out)
    assert (tmp_path / "site" / "topics.html").is_file()


def test_an_export_has_no_reasons_of_the_store(curate, store, release, tmp_path):
    old = Path(shutil.copytree(release, tmp_path / "old"))
    rewrite(old, CHAT, lambda rows: [*rows, rows[0] | {"conversation_id": "left since"}])
    state_rows(old, "chat", manifest_of(old)["counts"]["chat"] + 1)
    with opened(str(release), str(old)) as (_, comparison):
        assert comparison.diff.why["chat"] == {"not in the store": 1}
    assert curate("view", release, "--against", old, "--export", tmp_path / "site")[0] == 0
    page = (tmp_path / "site" / "compare.html").read_text(encoding="utf-8")
    assert "left since" in page and "not in the store" not in page


def test_bad_input_is_one_clear_line(refused, store, release, tmp_path):
    assert "is not a release: it has no manifest.json" in refused("view", tmp_path)
    assert "there is no such folder" in refused("view", tmp_path / "nothing")
    assert "--against 'x': " in refused("view", store.root, "--against", "x")
    assert "'old'" in refused("view", release, "--against", "old")
    assert "a store is private; export a release of it" in refused("view", store.root, "--export", tmp_path / "site")
    (tmp_path / "mine").write_text("mine")
    assert "is not an empty folder; name a new one" in refused("view", release, "--export", tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"--port {port} cannot be used (Address already in use)" in refused("view", release, "--port", port)
    assert "--port" in refused("view", release, "--port", "99999")


def test_an_unfinished_takedown_a_later_version_and_a_withdrawal_are_refused_in_one_line(
    refused, store, tmp_path, release
):
    copy = Store(str(shutil.copytree(store.root, tmp_path / "copy")))
    copy.write_bytes(UNFINISHED, b"")
    assert "finish it with `curate takedown`" in refused("view", copy.root, "--no-browser")
    copy = Path(shutil.copytree(release, tmp_path / "release"))
    (copy / "manifest.json").write_text('{"software": "99.0"}')
    assert "arena-curation 99.0 made it: use that" in refused("view", copy)
    (copy / "withdrawn.json").write_text("{}")
    assert "was withdrawn" in refused("view", copy)


@pytest.mark.parametrize(
    ("why", "line"), [(RETENTION, "retention did not keep its data"), (TAKEDOWN, "a takedown removed its data")]
)
def test_a_release_that_is_withdrawn_while_it_is_open_says_who_removed_it(store, tmp_path, why, line):
    copy = Store(str(shutil.copytree(store.root, tmp_path / "copy")))
    with opened(copy.at("releases/1.0.0"), None) as (source, _):
        source.refresh()
        withdraw_releases(copy, ["1.0.0"], why)
        with pytest.raises(Gone, match=f"this release was withdrawn: {line}"):
            source.refresh()


def test_addresses_of_an_object_store_work(curate, refused, store, tmp_path):
    memory = fsspec.filesystem("memory")
    memory.put(store.root, "memory://looked", recursive=True)
    address = "memory://looked/releases/1.0.0"
    assert curate("view", address, "--export", tmp_path / "site")[0] == 0
    with opened("memory://looked", None) as (source, _):
        assert source.private and source.listing.height == len({*source.listing["key"]}) > 12
        memory.pipe_file("/looked/takedown/unfinished", b"")
        with pytest.raises(Gone):
            source.refresh()
    assert "'memory://looked/nothing' is not a release" in refused("view", "memory://looked/nothing")


def test_topics_of_two_releases_are_a_table_of_diff_and_its_page_belongs_to_it(
    curate, refused, store, release, tmp_path
):
    page = tmp_path / "topics.html"
    code, out, _ = curate("diff", release, release, "--table", "topics", "--out", page, "--json")
    assert code == 0 and '"matched":' in out.splitlines()[0] and "<h1>Topics of" in page.read_text()
    assert curate("diff", release, release, "--out", page)[2].endswith("add --table topics\n")
    assert "is a store; give two releases" in refused("diff", store.root, release, "--table", "topics")


def test_a_folder_in_place_of_the_page_of_topics_is_one_line(refused, release, tmp_path):
    (tmp_path / "topics.html").mkdir()
    line = refused("diff", release, release, "--table", "topics", "--out", tmp_path / "topics.html")
    assert "cannot be written (Is a directory)" in line


@pytest.fixture(scope="module")
def listing() -> pl.DataFrame:
    rows = {
        "kind": ["conversation", "conversation", "battle", SIDE],
        "id": ["a", "b", "v", "v"],
        "models": [["one"], ["two"], ["one", "two"], ["one"]],
        "language": ["English", "German", "English", "English"],
        "tags": [["ocr", "humor"], ["ocr"], [], []],
        "topic": ["maps", "maps", "cats", "cats"],
        "prompt": ["A MAP of Oslo", "Eine Karte", "Two cats", "Two cats"],
        "answers": ["Fine.", None, "Yes.", "Yes."],
        "tstamp": [1.0, 2.0, 3.0, 3.0],
    }
    return finished([pl.DataFrame(rows)])


def ids(listing, **asked) -> list[str]:
    pairs = [
        (name, value) for name, values in asked.items() for value in ([values] if isinstance(values, str) else values)
    ]
    return find(listing, query_of(pairs)).rows["id"].to_list()


def counts(listing, facet, **asked) -> dict[str, int]:
    found = find(listing, query_of(asked.items()))
    return {count.value: count.rows for each, some in found.counts.items() if each.name == facet for count in some}


def test_facets_add_up_count_what_others_would_give_and_search_looks_in_any_case(listing):
    assert ids(listing) == ["v", "b", "a"]
    assert ids(listing, language=["German", "English"], tag="ocr") == ["b", "a"]
    assert ids(listing, tag="humor", language="German") == []
    assert counts(listing, "language", language="German") == {"English": 2, "German": 1}
    assert counts(listing, "tag", language="German") == {"ocr": 1}
    assert counts(listing, "model") == {"one": 2, "two": 2}
    assert ids(listing, q="map of") == ["a"] and ids(listing, q="YES.") == ["v"]
    assert ids(listing, q=".*") == []
    assert ids(listing, kind=SIDE) == ["v"]
    assert counts(listing, "kind")[SIDE] == 1
    assert [find(listing, query_of(asked)).kinds for asked in ([], [("kind", SIDE)], [("language", "German")])] == [
        "2 conversations, 1 battle", "1 side of a battle", "1 conversation",
    ]  # fmt: skip
    assert [find(listing, query_of(asked)).sides for asked in ([], [("kind", SIDE)], [("language", "German")])] == [
        1, 0, 0,
    ]  # fmt: skip
    query = query_of([("language", "English")])
    assert matching(listing, query).sum() == find(listing, query).total == 2


def test_answers_that_name_a_model_of_the_vote_or_hold_hidden_marks_are_tagged(listing):
    rows = {
        "kind": ["battle"] * 3,
        "id": ["n", "m", "p"],
        "models": [["gpt-4o-mini", "tern-2"]] * 3,
        "tags": [["ocr"]] * 3,
    }
    answers = ["Ask **GPT 4o mini**.", "Two\u2060 cats", "gpt"]
    told = pl.DataFrame(rows | {"answers": answers, "prompt": "gpt-4o-mini", "tstamp": [3.0, 2.0, 1.0]})
    tagged = finished([with_marks(told)])
    assert tagged["tags"].to_list() == [["ocr", "names_model"], ["ocr", "unseen_marks"], ["ocr"]]
    assert "names_model" not in counts(listing, "tag")


@pytest.mark.parametrize("value", ["x", "a&b=c#d", "</script>", "\u202e", "100 %", "ä ö"])
def test_a_view_is_a_link_and_the_link_is_the_view(value):
    query = (
        Query("words & more", {}, page=3).toggled("topic", value).toggled("model", value).but(page=2, outliers=False)
    )
    assert query_of(parse_qsl(query.encoded())) == query
    assert query.toggled("topic", value).chosen == {"model": (value,)}


@pytest.mark.parametrize("page", ["0", "-1", "x", "9" * 40, "٣"])
def test_a_page_that_does_not_exist_is_the_nearest_one(listing, page):
    found = find(listing, query_of([("page", page)]))
    assert (found.page, found.total) == (1, 3)


def test_a_sample_is_even_over_topics(listing):
    rows = {"kind": ["conversation"] * 100, "id": [str(n) for n in range(100)], "models": [["m"]] * 100}
    many = finished([pl.DataFrame(rows | {"topic": ["large"] * 90 + ["small"] * 10, "prompt": [""] * 100})])
    topics = sampled(many, 30)["topic"].cast(pl.String).value_counts()
    assert dict(topics.iter_rows()) == {"large": 20, "small": 10}
    assert sampled(many, 100).height == 100
