"""A release with anything of the hidden split does not verify."""

import shutil
from pathlib import Path

import pytest

from flows.products import problems_of
from schemas.benches.bench import HiddenItem
from tasks.release.build import released_files, write_manifest
from tasks.release.fetched import read_manifest
from tasks.storage.tables import frame_of
from tests.small_store import make_release

ABOUT = {"topic": 0, "first_month": "2024-09", "last_month": "2024-11", "drawn": False}


@pytest.fixture
def held(own_store):
    """A store and a release in it, made before the prompt of c03, b1 and the benchmark's were reserved."""
    store, folder = own_store, Path(own_store.at("releases/first"))
    asked = dict(store.read("conversations").select("conversation_id", "document_id").iter_rows())
    rows = [HiddenItem(document_id=asked[name], **ABOUT) for name in ("c03", "b1", "c00")]
    store.replace("hidden", frame_of(HiddenItem, rows))
    return store, folder


def test_reserved_prompts_are_found_in_every_configuration_where_the_store_is_there(held):
    _, folder = held
    problems = problems_of(folder)
    assert {problem.split("/")[0] for problem in problems} == {"chat", "battle", "bench"}
    assert all("is reserved for the hidden split" in problem for problem in problems)
    assert any("'c03'" in problem for problem in problems)


def test_a_copy_is_checked_against_the_store_that_is_named(held, tmp_path):
    store, folder = held
    copy = shutil.copytree(folder, tmp_path / "copy")
    assert problems_of(copy) == []
    assert problems_of(copy, store) == problems_of(folder)


def test_the_next_release_of_the_store_has_none_of_them(held, tmp_path):
    store, _ = held
    folder = tmp_path / "store" / make_release(store, reported=True, release="1.0.1").result
    assert problems_of(folder) == []


@pytest.mark.parametrize("name", ["hidden/train-00000-of-00001.parquet", "report/tables/Hidden_items.csv"])
def test_a_sealed_file_named_after_the_hidden_split_is_a_problem(own_release, name):
    folder = own_release
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"x")
    sealed = read_manifest(folder).model_copy(update={"files": released_files(folder)})
    write_manifest(sealed, folder)
    assert any(problem == f"{name}: the hidden split is in no release" for problem in problems_of(folder))
