"""A takedown works on a store that an earlier version wrote, or removes nothing; it never misses something silently."""

from functools import partial

import pytest

from tasks.storage.tables import Store
from tests.older_store import LAYOUT_FILE, add_table, make_older, rename_column, written
from tests.tasks.ingest.logs import conv_id
from tests.tasks.takedown.conftest import SECRET, everything, files_with

CHECKS = [
    {"item_id": conv_id(name), "reference_id": "7" * 32, "rater": f"rater of {name}", "correct": name == "bob"}
    for name in ("ann", "bob")
]


@pytest.fixture
def older(store) -> Store:
    """The store as an earlier version left it, with a table of people's verdicts that has another name now."""
    return make_older(store, {"item_checks": CHECKS})


@pytest.fixture
def takedown(curate, store):
    """Run `curate takedown` on the store: (exit status, stdout, stderr)."""
    return partial(curate, "takedown", "--yes", "--store", store.root)


def test_what_was_taken_down_is_in_no_file_of_an_older_store(older, takedown):
    assert files_with(older, f"{SECRET} one", conv_id("ann"), "rater of ann")
    code, out, err = takedown(conv_id("ann"), conv_id("left"))
    assert (code, err) == (0, "")
    assert files_with(older, SECRET, conv_id("ann"), conv_id("left"), "rater of ann") == []
    assert "gone         1  item_checks" in out and "gone         3  conversations" in out


def test_what_stays_in_an_older_store_is_as_it_was_for_the_version_that_wrote_it(older, takedown):
    tables = ("conversations", "battles", "item_checks")
    before = {table: written(older, table) for table in tables}
    assert takedown(conv_id("ann"))[0] == 0
    for table, rows in before.items():
        left = written(older, table)
        assert left.schema.equals(rows.schema), table
        kept = [
            row for row in rows.to_pylist() if conv_id("ann") not in (row.get("conversation_id"), row.get("item_id"))
        ]
        assert left.to_pylist() == kept, table
    assert older.read_bytes(LAYOUT_FILE) is None


def test_a_conversation_of_an_older_store_is_explained_and_after_its_takedown_called_gone(older, takedown, curate):
    explain = partial(curate, "explain", "--store", older.root)
    assert explain(conv_id("left"))[1].startswith(f"conversation {conv_id('left')}")
    assert takedown(conv_id("left"))[0] == 0
    code, _, err = explain(conv_id("left"))
    assert (code, "was taken down from this store" in err) == (2, True)


def test_facts_of_a_package_that_is_not_installed_any_more_go_with_their_text(store, takedown):
    ids = [row["content_id"] for row in written(store, "signals/language").to_pylist()]
    add_table(store, "signals/mood", [{"content_id": each, "mood": f"mood of {each}"} for each in ids])
    gone = {turn["text_id"] for row in written(store, "conversations").to_pylist() for turn in row["turns"]
            if row["conversation_id"] == conv_id("ann")}  # fmt: skip
    code, out, _ = takedown(conv_id("ann"))
    left = {row["content_id"] for row in written(store, "signals/mood").to_pylist()}
    assert (code, left < {*ids}, left & gone) == (0, True, set())
    assert "signals/mood" in out


@pytest.mark.parametrize("stated", [True, False])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (partial(add_table, table="notes", rows=[{"note": SECRET}]), "a table 'notes' that this version does not know"),
        (partial(rename_column, table="sightings", old="images", new="once"), "lacks 'images', also has 'once'"),
        (partial(add_table, table="near_prompts", rows=[{"conversation_a": 1}]), "another type of 'conversation_a'"),
    ],
)
def test_where_something_could_be_missed_nothing_is_taken_down(store, takedown, change, said, stated):
    change(store)
    if not stated:
        store.fs.rm_file(store.at(LAYOUT_FILE))
    before = dict(everything(store))
    code, out, err = takedown(conv_id("ann"))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err and "nothing was removed. `curate migrate` the store first" in err
    assert dict(everything(store)) == before


def test_nothing_is_taken_down_from_a_store_of_a_later_version(store, takedown):
    store.write_bytes(LAYOUT_FILE, b'{"layout": 99, "written_by": ["9.0.0"], "more": 1}')
    before = dict(everything(store))
    code, _, err = takedown(conv_id("ann"))
    assert (code, "has layout 99, of 9.0.0" in err, dict(everything(store)) == before) == (2, True, True)
