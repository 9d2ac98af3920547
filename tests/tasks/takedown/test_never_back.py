"""Reading the same logs again does not bring back what was taken down."""

import hashlib

import polars as pl
import pytest

from tasks.storage.tables import Store
from tasks.takedown.take_down import finish, take_down
from tests.builders import NOON, image_bytes
from tests.tasks.ingest.logs import DAY, chat, conv_id, image_name, ingested, served, state, vote, write
from tests.tasks.takedown.conftest import ANN, LINES, OWN, SECRET, SHARED, files_with, user_of

INGESTED = ("sightings", "conversations", "battles", "images", "rejects", "quarantine")
OTHER_DAY = "vision-tmp-2024-06-21-conv.json"


def ids(store):
    return set(store.read("conversations")["conversation_id"])


@pytest.fixture
def logs(tmp_path):
    write(tmp_path / "logs", DAY, *LINES)
    return served(tmp_path / "logs", OWN, SHARED)


@pytest.mark.parametrize("what", ["conversation", "side", "user", "image"])
def test_a_store_made_anew_from_the_same_logs_is_what_the_takedown_left(logs, tmp_path, what):
    store = ingested(logs, tmp_path / "store")
    asked = {"conversation": conv_id("ann"), "side": conv_id("right"), "user": user_of(store, "ann"), "image": SHARED}
    take_down(store, [asked[what]], [], NOON, dry_run=False)
    anew = Store(str(tmp_path / "anew"))
    anew.replace("takedowns", store.read("takedowns"))
    ingested(logs, tmp_path / "anew")
    for table in INGESTED:
        assert anew.read(table).sort(pl.all()).equals(store.read(table).sort(pl.all())), table
    assert (SECRET in str(anew.read("conversations").to_dicts())) == (what != "user")


def test_later_lines_of_a_removed_user_and_conversation_stay_out(logs, tmp_path):
    store = ingested(logs, tmp_path / "store")
    take_down(store, [user_of(store, "ann")], [], NOON, dry_run=False)
    later = [chat("later", f"{SECRET} later?", "Yes.", ip=ANN), chat("ann", f"{SECRET} one?", "from elsewhere", at=99)]
    write(logs, OTHER_DAY, *later)
    ingested(logs, tmp_path / "store")
    assert ids(store) == {conv_id("bob"), conv_id("bob2")}
    assert files_with(store, SECRET) == []


def test_a_removed_image_under_another_name_goes_with_who_shows_it(logs, tmp_path):
    store = ingested(logs, tmp_path / "store")
    take_down(store, [OWN], [], NOON, dry_run=False)
    renamed = image_name("renamed")
    (logs / "serve_images" / f"{renamed}.png").write_bytes(image_bytes(0))
    write(logs, OTHER_DAY, chat("again", "What is it?", "A cat.", images=[renamed]))
    looked = []
    ingested(logs, tmp_path / "store", looked)
    assert looked == []
    finish(store, NOON)
    assert ids(store) == {conv_id(name) for name in ("bob", "bob2", "left", "right")}
    digest = hashlib.sha256(image_bytes(0)).hexdigest()
    assert files_with(store, conv_id("again"), renamed, digest, "What is it?") == []
    write(logs, "vision-tmp-2024-06-22-conv.json", chat("third", "And it?", "A cat.", images=[renamed]))
    ingested(logs, tmp_path / "store")
    assert (conv_id("third") in ids(store), finish(store, NOON)) == (False, {})


def test_a_preset_that_was_taken_down_is_not_taken_in_again_and_leaves_no_hash(logs, tmp_path):
    presets = logs.parent / "presets"
    presets.mkdir()
    (presets / "cat.png").write_bytes(image_bytes(9))
    (presets / "presets.json").write_text('[{"dataset": "Demo", "path": "cat.png"}]')
    store = ingested(logs, tmp_path / "store")
    named, digest = store.read("presets")["logged_name"].item(), hashlib.sha256(image_bytes(9)).hexdigest()
    take_down(store, [str(presets / "cat.png")], [], NOON, dry_run=False)
    write(logs, OTHER_DAY, chat("again", "What is it?", "A cat.", images=[named]))
    ingested(logs, tmp_path / "store")
    assert finish(store, NOON) == {}
    assert files_with(store, named, digest, conv_id("again")) == []


def test_a_vote_that_arrives_later_takes_its_other_side_down_when_ingest_ends(logs, tmp_path):
    write(logs, DAY, *[line for line in LINES if not isinstance(line, dict) or line["type"] == "chat"])
    store = ingested(logs, tmp_path / "store")
    take_down(store, [conv_id("left")], [], NOON, dry_run=False)
    assert conv_id("right") in ids(store)
    write(logs, OTHER_DAY, vote(state("left", f"{SECRET} two?", "x"), state("right", f"{SECRET} two?", "y"), ip=ANN))
    ingested(logs, tmp_path / "store")
    finish(store, NOON)
    assert files_with(store, f"{SECRET} two", conv_id("left"), conv_id("right")) == []
    assert finish(store, NOON) == {}
