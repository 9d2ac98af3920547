"""A place that is no store is called what it is, with the store to give instead."""

import shutil
from pathlib import Path

import pytest

from schemas.errors import BadInput
from tasks.storage.tables import Store
from tests.small_store import make_release, small_store


@pytest.fixture(scope="module")
def arena(tmp_path_factory) -> Path:
    """A folder with a store in it that has a release; do not write to it."""
    folder = tmp_path_factory.mktemp("arena")
    make_release(small_store(folder), release="1.0.0")
    shutil.copytree(folder / "store" / "releases" / "1.0.0", folder / "copy")
    (folder / "empty").mkdir()
    return folder


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("store/releases/1.0.0", "is a release of store '{arena}/store', not a store; give '{arena}/store'"),
        ("store/releases/1.0.0/", "is a release of store '{arena}/store', not a store; give '{arena}/store'"),
        ("store/releases", "is a folder of store '{arena}/store', not a store; give '{arena}/store'"),
        ("store/releases/1.0.0/chat/data", "is a folder of store '{arena}/store', not a store; give '{arena}/store'"),
        ("copy", "is a release, not a store; give the store that it was made in"),
        ("copy/manifest.json", "is a file, not a store; give the folder of one"),
        ("", "is not a store, but holds 1 ('{arena}/store'); give '{arena}/store'"),
        ("nosuch", "'{arena}/nosuch' is not a store: there is no such folder. `curate run --logs"),
        ("empty", "is not a store: it has no tables. `curate run --logs DIR --store {arena}/empty` makes one of it"),
    ],
)
def test_what_is_no_store_is_called_what_it_is(place, said, arena):
    with pytest.raises(BadInput) as refused:
        Store.existing(f"{arena}/{place}" if place else str(arena))
    assert said.format(arena=arena) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_nothing_is_written_into_a_release_that_is_given_as_a_store(arena):
    for release in ("copy", "store/releases/1.0.0"):
        before = sorted((arena / release).rglob("*"))
        with pytest.raises(BadInput, match="is a release"):
            Store.open(f"{arena}/{release}")
        assert sorted((arena / release).rglob("*")) == before


def test_places_are_named_as_they_were_given(arena, monkeypatch):
    monkeypatch.chdir(arena / "store" / "releases")
    with pytest.raises(BadInput, match=f"'1.0.0' is a release of store '{arena}/store'"):
        Store.existing("1.0.0")
    monkeypatch.chdir(arena)
    with pytest.raises(
        BadInput, match=r"'store/releases/1.0.0' is a release of store 'store', not a store; give 'store'"
    ):
        Store.existing("store/releases/1.0.0")


def test_a_release_on_an_object_store_names_its_store(arena):
    inside = Store("memory://places/store")
    inside.fs.put(f"{arena}/store", inside.path, recursive=True)
    with pytest.raises(BadInput, match=r"is a release of store 'memory://places/store', not a store"):
        Store.existing("memory://places/store/releases/1.0.0")
    with pytest.raises(BadInput, match=r"'memory://places' is not a store, but holds 1 \('memory://places/store'\)"):
        Store.existing("memory://places")


@pytest.mark.parametrize("place", ["store", "store/tables", ""])
def test_a_store_is_no_battle_table(place, arena, curate):
    code, _, err = curate("rate", arena / place)
    assert (code, err.count("\n")) == (2, 1)
    assert f"holds tables of a store; `curate rate --store {arena}/store` rates" in err
