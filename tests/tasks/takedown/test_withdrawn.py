"""Built releases go with what they hold, and a killed takedown is finished by the next."""

import os
from pathlib import Path

import polars as pl
import pytest

from flows.products import problems_of
from schemas.errors import BadInput
from schemas.tables import TABLES
from tasks.images.decode import open_image
from tasks.storage.keyed_ids import UNFINISHED
from tasks.storage.queries.explain import removal_reasons
from tasks.storage.tables import Store
from tasks.takedown.take_down import take_down
from tests.builders import NOON, image_bytes
from tests.small_store import make_release
from tests.tasks.ingest.logs import conv_id
from tests.tasks.takedown.conftest import SECRET, files_with

OWN_IMAGE, SHARED_IMAGE = open_image(image_bytes(0)), open_image(image_bytes(1))


def user_of(store, name):
    return store.read("conversations").filter(conversation_id=conv_id(name))["user_id"].item()


def take(store, *asked, users=(), dry_run=False):
    return take_down(store, asked, users, NOON, dry_run)


def test_a_built_release_that_holds_it_is_withdrawn_and_its_version_stays_taken(store):
    folder = Path(store.root) / "releases" / "1.0.0"
    assert take(store, conv_id("ann")).releases == ["1.0.0"]
    assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", "withdrawn.json"]
    with pytest.raises(BadInput, match="was withdrawn"):
        problems_of(folder)
    assert make_release(store).result != "releases/1.0.0"
    assert take(store, conv_id("ann")).releases == []


def test_a_release_without_it_stays_as_it_is(store):
    take(store, conv_id("ann"))
    made = Path(store.root) / make_release(store, release="2.0.0").result
    assert problems_of(made) == []
    assert take(store, conv_id("ann"), dry_run=True).releases == []
    assert take(store, conv_id("bob2")).releases == ["2.0.0"]


def test_a_difference_says_that_a_row_was_taken_down(store):
    ann, bob = (store.read("conversations").filter(conversation_id=conv_id(name)) for name in ("ann", "bob2"))
    take(store, conv_id("ann"))
    why = removal_reasons(store)
    ids = [ann["conversation_id"].item(), "f" * 32, bob["conversation_id"].item()]
    taken, unknown, kept = (why("chat", ids)[each] for each in ids)
    assert (taken, unknown) == (["taken down"], ["not in the store"])
    assert kept not in (taken, unknown)


def test_killed_anywhere_it_is_finished_by_doing_it_again(store, monkeypatch):
    undisturbed = Store(f"{store.root}-undisturbed")
    store.fs.put(store.root, undisturbed.root, recursive=True)
    take(undisturbed, user_of(store, "ann"))
    user, number, steps = user_of(store, "ann"), 0, {"left": 0}

    def counted(function):
        def step(*arguments, **options):
            if steps["left"] == 0:
                raise KeyboardInterrupt
            steps["left"] -= 1
            return function(*arguments, **options)

        return step

    for name in ("replace", "remove", "unlink"):
        monkeypatch.setattr(os, name, counted(getattr(os, name)))
    while True:
        steps["left"], own = 10**9, Store(f"{store.root}-{number}")
        store.fs.put(store.root, own.root, recursive=True)
        steps["left"] = number
        try:
            take(own, user)
            break
        except KeyboardInterrupt:
            steps["left"] = 10**9
            if store.fs.exists(own.at("takedown/unfinished")):
                with pytest.raises(BadInput, match="a takedown was interrupted"):
                    make_release(own)
            take(own, user)
            for table in TABLES:
                assert own.read(table).sort(pl.all()).equals(undisturbed.read(table).sort(pl.all())), (number, table)
            assert files_with(own, SECRET, user) == [], number
        number += 23
    assert number > 100


def test_a_backup_forgets_by_the_tombstones_of_its_store(store):
    backup = Store(f"{store.root}-backup")
    store.fs.put(store.root, backup.root, recursive=True)
    take(store, user_of(store, "ann"))
    backup.replace("takedowns", store.read("takedowns"))
    backup.write_bytes(UNFINISHED, b"")
    take(backup)
    assert files_with(backup, SECRET) == []
    for table in TABLES:
        assert backup.read(table).sort(pl.all()).equals(store.read(table).sort(pl.all())), table


def test_a_release_that_was_copied_in_part_goes_too(store):
    half = Path(store.root) / "releases" / "2.0.0" / "chat" / "data" / "train-00000-of-00001.parquet"
    half.parent.mkdir(parents=True)
    half.write_bytes(SECRET.encode())
    take(store, conv_id("ann"))
    assert not half.exists()
    assert (Path(store.root) / "releases" / "1.0.0" / "manifest.json").exists()


def test_a_killed_writers_leftovers_go_too(store):
    leftover = Path(store.root) / "tables" / "conversations" / "0000.parquet.77.tmp"
    leftover.write_bytes(SECRET.encode())
    building = Path(store.root) / "releases" / ".building" / "chat.parquet"
    building.parent.mkdir()
    building.write_bytes(SECRET.encode())
    take(store, conv_id("ann"))
    assert not leftover.exists()
    assert not building.exists()
