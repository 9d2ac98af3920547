"""`--version`, `curate topics show`, `curate rate` on a release and on a store, and what `export dataset` left out."""

import json
from importlib.metadata import version
from pathlib import Path

import pytest

from tasks.storage.tables import Store
from tests.small_store import make_release, small_store


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    made = small_store(tmp_path_factory.mktemp("small"))
    make_release(made, release="1.0.0")
    return made


def test_version_is_that_of_the_package(curate):
    assert curate("--version") == (0, f"curate {version('arena-curation')}\n", "")


def test_topics_show_lists_the_largest_topic_first(curate, store):
    code, out, _ = curate("topics", "show", "--store", store.root, "--json")
    topics = [json.loads(line) for line in out.splitlines()]
    assert (code, {topic["topic"] for topic in topics}) == (0, {-1, 0, 1})
    assert sum(topic["prompts"] for topic in topics) == store.read("topics").height
    assert [topic["prompts"] for topic in topics] == sorted((topic["prompts"] for topic in topics), reverse=True)
    words = curate("topics", "show", "--store", store.root, "--first", "1")[1]
    assert "picture, thing" in words and "2 more; all with --first 3" in words


def test_slices_of_a_store_are_printed_and_nothing_is_stored(curate, store):
    before = store.read("ratings")
    code, out, _ = curate("rate", "--store", store.root, "--slice", "all", "--json")
    boards = {json.loads(line)["slice"] for line in out.splitlines()}
    assert (code, "overall" in boards, len(boards) > 1) == (0, True, True)
    assert store.read("ratings").equals(before)


def test_an_export_says_which_rows_it_left_out(curate, store, tmp_path):
    release = Path(store.root) / "releases" / "1.0.0"
    code, out, _ = curate("export", "dataset", release, "--out", tmp_path / "export")
    counts = json.loads((release / "manifest.json").read_text())["counts"]
    exported, _, left_out = out.partition("left out, without an image: ")
    for name in ("chat", "battle", "bench"):
        given = [int(part.split()[-1]) for text in (exported, left_out) for part in text.split(", ") if name in part]
        assert sum(given) == counts[name]
    assert code == 0
