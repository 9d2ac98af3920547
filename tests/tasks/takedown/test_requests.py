"""What visitors asked an arena to forget before a run is kept out by that run, and comes back with no later one."""

import os
import re
from pathlib import Path

import pytest

from flows.before_work import check_before_work
from schemas.errors import BadInput
from schemas.items.reject import REQUESTS
from schemas.publication import Publication
from schemas.settings import Settings
from tasks.takedown.steps import apply_requests, forget_requested
from tests.builders import NOON
from tests.small_store import make_release
from tests.tasks.ingest.logs import DAY, chat, conv_id, ingested, served, vote, write
from tests.tasks.takedown.conftest import LINES, OTHER, OWN, SECRET, SHARED, everything, files_with

NEXT_DAY = "vision-tmp-2024-06-21-conv.json"


@pytest.fixture
def logs(tmp_path):
    """The raw logs of one server, in a folder of its own below the log folder."""
    folder = tmp_path / "logs" / "server1"
    write(folder, DAY, *LINES)
    return served(folder, OWN, SHARED, OTHER)


def ask(logs: Path, *names: str) -> None:
    """What the arena writes when visitors press `Forget my conversation`."""
    with (logs / REQUESTS).open("a") as file:
        file.writelines(f"{conv_id(name)}\n" for name in names)


def applied(logs: Path, store: Path):
    """The report of the first step of ingest."""
    return apply_requests.fn(Settings(logs=str(logs), store=str(store)))


def ids(store) -> set[str]:
    return set(store.read("conversations")["conversation_id"])


def test_a_conversation_that_was_never_in_the_store_does_not_come_into_it(logs, tmp_path):
    ask(logs, "ann", "left")
    report = applied(logs.parent, tmp_path / "store")
    assert report.counts == {"requests": 2, "new": 2} and report.notes == []
    store = ingested(logs.parent, tmp_path / "store", looked := [])
    assert ids(store) == {conv_id(name) for name in ("bob", "bob2")} and len(looked) == 2
    assert files_with(store, f"{SECRET} one", f"{SECRET} two", conv_id("ann"), conv_id("left")) == []
    assert files_with(store, OWN) == [] and files_with(store, SHARED) != []


def test_requests_that_are_known_change_nothing_and_new_ones_hold_for_lines_that_come_later(logs, tmp_path):
    ask(logs, "ann", "later")
    applied(logs.parent, tmp_path / "store")
    store = ingested(logs.parent, tmp_path / "store")
    before = dict(everything(store))
    assert applied(logs.parent, tmp_path / "store").counts == {"requests": 2, "new": 0}
    assert dict(everything(store)) == before
    write(logs, NEXT_DAY, chat("later", f"{SECRET} later?"), vote("later", "side"), chat("bob3"))
    ask(logs, "bob3", "ann")
    assert applied(logs.parent, tmp_path / "store").counts == {"requests": 3, "new": 1}
    assert ids(ingested(logs.parent, tmp_path / "store")) == {
        conv_id(name) for name in ("bob", "bob2", "left", "right")
    }
    assert files_with(store, f"{SECRET} later") == []


def test_what_is_in_the_store_and_in_releases_goes_and_the_run_says_what_to_do(store, logs, capfd):
    made = make_release(store, release="2.0.0").result
    row = Publication(repo="o/n", version="2.0.0", revision="2.0.0", commit="c", public=True, published_at=NOON)
    store.write_bytes("published/o/n/2.0.0.json", row.model_dump_json().encode())
    ask(logs, "ann")
    report = applied(logs, Path(store.root))
    assert report.counts["new"] == 1 and report.counts["conversations"] == 1
    assert files_with(store, f"{SECRET} one") == [] and not (Path(store.root) / made / "chat").exists()
    assert any("release STORE/releases/2.0.0" in note for note in report.notes)
    assert "curate yank 2.0.0 --repo o/n --store STORE" in report.notes[-1]
    assert not any(store.root in note for note in report.notes)
    err = capfd.readouterr().err
    assert f"1 lines, 1 image files\n  {DAY}:1\n  {OWN}.png\n" in err
    (kept,) = (Path(store.root) / "takedown").glob("*.json")
    assert REQUESTS in kept.read_text() and conv_id("ann") not in kept.read_text()


UNREADABLE = [b"abc", b"please forget me", b"203.0.113.7", b"\xff\xfe\x00\x01" * 4, b"a" * 65, b"\xc3\xa4" * 9]


@pytest.mark.parametrize("line", UNREADABLE, ids=repr)
def test_a_line_that_cannot_be_read_stops_the_run_before_it_begins(logs, tmp_path, line):
    (logs / REQUESTS).write_bytes(conv_id("ann").encode() + b"\r\n\n" + line + b"\n" + conv_id("bob").encode())
    place = re.escape(f"takedown requests 'server1/{REQUESTS}', line 3: ")
    with pytest.raises(BadInput, match=rf"^{place}no conversation id [^\n]*$"):
        check_before_work(Settings(logs=str(logs.parent), store=str(tmp_path / "store")))
    assert not (tmp_path / "store").exists()


ODD = {
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a link to itself": lambda path: path.symlink_to(path.name),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("make", ODD.values(), ids=ODD)
def test_requests_that_are_no_file_stop_the_run(logs, make):
    make(logs / REQUESTS)
    with pytest.raises(BadInput, match=r"^takedown requests 'server1/takedown_requests.txt' is no file; [^\n]*$"):
        forget_requested(Settings(logs=str(logs.parent), store="unused"))


def test_a_log_folder_without_requests_reports_nothing(logs, tmp_path):
    assert forget_requested(Settings(logs=str(logs.parent), store=str(tmp_path / "store"))) == []
    (logs / REQUESTS).write_bytes(b"\xef\xbb\xbf\r\n \n")
    assert forget_requested(Settings(logs=str(logs.parent), store=str(tmp_path / "store"))) == []
    assert not (tmp_path / "store").exists()
