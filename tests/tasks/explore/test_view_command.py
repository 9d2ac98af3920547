"""`curate view` on the command line: it serves, it exports, and bad input gives one clear line."""

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

import fsspec
import pytest

from flows.commands.view import opened
from tasks.explore.source import Gone
from tasks.storage.keyed_ids import UNFINISHED
from tasks.storage.tables import Store
from tests.tampered_release import CHAT, rewrite


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
    places = repr([store.root, str(release)])
    code = (
        "import sys, uvicorn\nfrom flows.commands.view import opened\nfrom tasks.explore.server import explorer\n"
        f"for place in {places}:\n    with opened(place, None) as (source, _):\n        assert source.listing.height\n"
        "print(sorted({'datasets', 'matplotlib', 'pandas', 'prefect', 'scipy', 'torch'} & {*sys.modules}))"
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
    with opened(str(release), str(old)) as (_, comparison):
        assert comparison.diff.why["chat"] == {"not in the store": 1}
    assert curate("view", release, "--against", old, "--export", tmp_path / "site")[0] == 0
    page = (tmp_path / "site" / "compare.html").read_text(encoding="utf-8")
    assert "left since" in page and "not in the store" not in page


def refused(curate, *arguments) -> str:
    code, out, err = curate("view", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    return err


def test_bad_input_is_one_clear_line(curate, store, release, tmp_path):
    assert "is not a release: it has no manifest.json" in refused(curate, tmp_path)
    assert "there is no such folder" in refused(curate, tmp_path / "nothing")
    assert "--against 'x': " in refused(curate, store.root, "--against", "x")
    assert "'old'" in refused(curate, release, "--against", "old")
    assert "a store is private; export a release of it" in refused(curate, store.root, "--export", tmp_path / "site")
    (tmp_path / "mine").write_text("mine")
    assert "is not an empty folder; name a new one" in refused(curate, release, "--export", tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"--port {port} cannot be used (Address already in use)" in refused(curate, release, "--port", port)
    assert "--port" in refused(curate, release, "--port", "99999")


def test_a_store_with_an_unfinished_takedown_is_refused_in_one_line(curate, store, tmp_path):
    copy = Store(str(shutil.copytree(store.root, tmp_path / "copy")))
    copy.write_bytes(UNFINISHED, b"")
    assert "finish it with `curate takedown`" in refused(curate, copy.root, "--no-browser")


def test_a_release_of_another_version_and_a_withdrawn_one_are_refused(curate, release, tmp_path):
    copy = Path(shutil.copytree(release, tmp_path / "release"))
    (copy / "manifest.json").write_text('{"software": "99.0"}')
    assert "arena-curation 99.0 made it: use that" in refused(curate, copy)
    (copy / "withdrawn.json").write_text("{}")
    assert "was withdrawn" in refused(curate, copy)


def test_addresses_of_an_object_store_work(curate, store, tmp_path):
    memory = fsspec.filesystem("memory")
    memory.put(store.root, "memory://looked", recursive=True)
    address = "memory://looked/releases/1.0.0"
    assert curate("view", address, "--export", tmp_path / "site")[0] == 0
    with opened("memory://looked", None) as (source, _):
        assert source.private and source.listing.height == len({*source.listing["key"]}) > 12
        memory.pipe_file("/looked/takedown/unfinished", b"")
        with pytest.raises(Gone):
            source.refresh()
    assert "'memory://looked/nothing' is not a release" in refused(curate, "memory://looked/nothing")


def test_topics_of_two_releases_are_a_table_of_diff_and_its_page_belongs_to_it(curate, store, release, tmp_path):
    page = tmp_path / "topics.html"
    code, out, _ = curate("diff", release, release, "--table", "topics", "--out", page, "--json")
    assert code == 0 and '"matched":' in out.splitlines()[0] and "<h1>Topics of" in page.read_text()
    assert curate("diff", release, release, "--out", page)[2].endswith("add --table topics\n")
    code, _, err = curate("diff", store.root, release, "--table", "topics")
    assert code == 2 and "is a store; give two releases" in err
    assert "curate diff A B --table topics" in curate("topics", "compare", release, release)[2]
