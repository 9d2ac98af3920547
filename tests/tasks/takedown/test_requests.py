"""What was taken down, or what visitors asked to be forgotten before a run, comes back with no later one."""

import hashlib
import os
import re
from pathlib import Path

import polars as pl
import pytest

from flows.before_work import check_before_work
from schemas.errors import BadInput
from schemas.items.reject import REQUESTS_FILE
from schemas.publication import Publication
from schemas.settings import Settings
from tasks.storage.tables import Store
from tasks.takedown.steps import apply_requests, forget_requested
from tasks.takedown.take_down import finish, take_down
from tests.builders import NOON, image_bytes
from tests.small_store import make_release
from tests.tasks.ingest.logs import DAY, chat, conv_id, image_name, ingested, served, state, vote, write
from tests.tasks.takedown.conftest import ANN, LINES, OTHER, OWN, SECRET, SHARED, everything, files_with, user_of

NEXT_DAY = "vision-tmp-2024-06-21-conv.json"


@pytest.fixture
def logs(tmp_path):
    """The raw logs of one server, in a folder of its own below the log folder."""
    folder = tmp_path / "logs" / "server1"
    write(folder, DAY, *LINES)
    return served(folder, OWN, SHARED, OTHER)


def ask(logs: Path, *names: str) -> None:
    """What the arena writes when visitors press `Forget my conversation`."""
    with (logs / REQUESTS_FILE).open("a") as file:
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
    assert REQUESTS_FILE in kept.read_text() and conv_id("ann") not in kept.read_text()


UNREADABLE = [b"abc", b"please forget me", b"203.0.113.7", b"\xff\xfe\x00\x01" * 4, b"a" * 65, b"\xc3\xa4" * 9]


@pytest.mark.parametrize("line", UNREADABLE, ids=repr)
def test_a_line_that_cannot_be_read_stops_the_run_before_it_begins(logs, tmp_path, line):
    (logs / REQUESTS_FILE).write_bytes(conv_id("ann").encode() + b"\r\n\n" + line + b"\n" + conv_id("bob").encode())
    place = re.escape(f"takedown requests 'server1/{REQUESTS_FILE}', line 3: ")
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
    make(logs / REQUESTS_FILE)
    with pytest.raises(BadInput, match=r"^takedown requests 'server1/takedown_requests.txt' is no file; [^\n]*$"):
        forget_requested(Settings(logs=str(logs.parent), store="unused"))


def test_a_log_folder_without_requests_reports_nothing(logs, tmp_path):
    assert forget_requested(Settings(logs=str(logs.parent), store=str(tmp_path / "store"))) == []
    (logs / REQUESTS_FILE).write_bytes(b"\xef\xbb\xbf\r\n \n")
    assert forget_requested(Settings(logs=str(logs.parent), store=str(tmp_path / "store"))) == []
    assert not (tmp_path / "store").exists()


INGESTED = ("sightings", "conversations", "battles", "images", "rejects", "quarantine")
OTHER_DAY = "vision-tmp-2024-06-21-conv.json"


def conversation_ids(store):
    return set(store.read("conversations")["conversation_id"])


@pytest.fixture
def own_logs(tmp_path):
    write(tmp_path / "logs", DAY, *LINES)
    return served(tmp_path / "logs", OWN, SHARED)


@pytest.mark.parametrize("what", ["conversation", "side", "user", "image"])
def test_a_store_made_anew_from_the_same_logs_is_what_the_takedown_left(own_logs, tmp_path, what):
    store = ingested(own_logs, tmp_path / "store")
    asked = {"conversation": conv_id("ann"), "side": conv_id("right"), "user": user_of(store, "ann"), "image": SHARED}
    take_down(store, [asked[what]], [], NOON, dry_run=False)
    anew = Store(str(tmp_path / "anew"))
    anew.replace("takedowns", store.read("takedowns"))
    ingested(own_logs, tmp_path / "anew")
    for table in INGESTED:
        assert anew.read(table).sort(pl.all()).equals(store.read(table).sort(pl.all())), table
    assert (SECRET in str(anew.read("conversations").to_dicts())) == (what != "user")


def test_later_lines_of_a_removed_user_and_conversation_stay_out(own_logs, tmp_path):
    store = ingested(own_logs, tmp_path / "store")
    take_down(store, [user_of(store, "ann")], [], NOON, dry_run=False)
    later = [chat("later", f"{SECRET} later?", "Yes.", ip=ANN), chat("ann", f"{SECRET} one?", "from elsewhere", at=99)]
    write(own_logs, OTHER_DAY, *later)
    ingested(own_logs, tmp_path / "store")
    assert conversation_ids(store) == {conv_id("bob"), conv_id("bob2")}
    assert files_with(store, SECRET) == []


def test_a_removed_image_under_another_name_goes_with_who_shows_it(own_logs, tmp_path):
    store = ingested(own_logs, tmp_path / "store")
    take_down(store, [OWN], [], NOON, dry_run=False)
    renamed = image_name("renamed")
    (own_logs / "serve_images" / f"{renamed}.png").write_bytes(image_bytes(0))
    write(own_logs, OTHER_DAY, chat("again", "What is it?", "A cat.", images=[renamed]))
    looked = []
    ingested(own_logs, tmp_path / "store", looked)
    assert looked == []
    finish(store, NOON)
    assert conversation_ids(store) == {conv_id(name) for name in ("bob", "bob2", "left", "right")}
    digest = hashlib.sha256(image_bytes(0)).hexdigest()
    assert files_with(store, conv_id("again"), renamed, digest, "What is it?") == []
    write(own_logs, "vision-tmp-2024-06-22-conv.json", chat("third", "And it?", "A cat.", images=[renamed]))
    ingested(own_logs, tmp_path / "store")
    assert (conv_id("third") in conversation_ids(store), finish(store, NOON)) == (False, {})


def test_a_preset_that_was_taken_down_is_not_taken_in_again_and_leaves_no_hash(own_logs, tmp_path):
    presets = own_logs.parent / "presets"
    presets.mkdir()
    (presets / "cat.png").write_bytes(image_bytes(9))
    (presets / "presets.json").write_text('[{"dataset": "Demo", "path": "cat.png"}]')
    store = ingested(own_logs, tmp_path / "store")
    named, digest = store.read("presets")["logged_name"].item(), hashlib.sha256(image_bytes(9)).hexdigest()
    take_down(store, [str(presets / "cat.png")], [], NOON, dry_run=False)
    write(own_logs, OTHER_DAY, chat("again", "What is it?", "A cat.", images=[named]))
    ingested(own_logs, tmp_path / "store")
    assert finish(store, NOON) == {}
    assert files_with(store, named, digest, conv_id("again")) == []


def test_a_vote_that_arrives_later_takes_its_other_side_down_when_ingest_ends(own_logs, tmp_path):
    write(own_logs, DAY, *[line for line in LINES if not isinstance(line, dict) or line["type"] == "chat"])
    store = ingested(own_logs, tmp_path / "store")
    take_down(store, [conv_id("left")], [], NOON, dry_run=False)
    assert conv_id("right") in conversation_ids(store)
    write(
        own_logs, OTHER_DAY, vote(state("left", f"{SECRET} two?", "x"), state("right", f"{SECRET} two?", "y"), ip=ANN)
    )
    ingested(own_logs, tmp_path / "store")
    finish(store, NOON)
    assert files_with(store, f"{SECRET} two", conv_id("left"), conv_id("right")) == []
    assert finish(store, NOON) == {}
