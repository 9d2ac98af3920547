"""`curate migrate` loses nothing or changes nothing; a takedown on an older store misses nothing silently."""

import shutil
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path

import polars as pl
import pytest
from filelock import FileLock

from schemas.items.reject import Tombstone
from schemas.layout import LAYOUT
from schemas.tables import TABLES
from tasks.storage.layout import stated_layout
from tasks.storage.migrate import STEPS, migrate, migrated_copy
from tasks.storage.tables import Store, frame_of, frame_schema
from tests.builders import NOON
from tests.cut_off import room_for
from tests.disk_steps import Killed, ends_at, killed_after
from tests.older_store import EARLIER, LAYOUT_FILE, add_table, make_older, rename_column, written
from tests.places import contents
from tests.tasks.ingest.logs import conv_id
from tests.tasks.takedown.conftest import SECRET, everything, files_with

FATE = {"description_id": "d", "bench": "b", "fate": "kept", "reason": "", "images": 1, "score": 0.5}
FATES = ("generated_fates", "generated_outcomes")
SAID = ("reviews", "takedowns", "answers", "verdicts", "judge_votes", "captions", "signals")
"""Tables of what people and models said."""


def say_outcome(table: str, rows: pl.DataFrame) -> tuple[str, pl.DataFrame]:
    """A step to a layout in which a table and a column have other names."""
    return ("generated_outcomes", rows.rename({"fate": "outcome"}, strict=False)) if table in FATES else (table, rows)


@pytest.fixture
def older(store, tmp_path, monkeypatch) -> Store:
    """A store with something in every table as an earlier version left it, and one inside it."""
    store.fs.copy(store.at("tables"), store.at("canaries/tables"), recursive=True)
    make_older(Store(store.at("canaries")))
    store.replace("takedowns", frame_of(Tombstone, [Tombstone(key="k", kind="user", taken_down_at=NOON)]))
    monkeypatch.setattr("tasks.storage.migrate.STEPS", (say_outcome,))
    fates = pl.DataFrame([FATE], schema_overrides={"images": pl.Int32}).to_arrow()
    store.list_parts("generated_fates", [store.write_part("generated_fates", fates)])
    return make_older(store)


@pytest.fixture
def migrated(curate, store):
    """Run `curate migrate` on the store: (exit status, stdout, stderr)."""
    return partial(curate, "migrate", store.root)


def rows_of(store: Store) -> dict[str, pl.DataFrame]:
    """The rows of every table; what an earlier version lacks is null."""
    store.any_layout = True
    return {table: store.read(table) for table in TABLES}


def test_columns_that_came_are_null_and_what_people_and_models_said_is_as_it_was(older, migrated, curate):
    rows, files = rows_of(older), dict(everything(older))
    code, out, err = migrated("--yes")
    assert (code, err) == (0, ""), err
    assert "canaries/battles: 1 part written anew; null: vote_reason, vote_reason_id\n" in out
    assert "\nbattles: 1 part written anew; null: vote_reason, vote_reason_id\n" in out
    assert "\ngenerated_fates: now generated_outcomes: 1 part written anew\n" in out
    now = Store.existing(older.root)
    assert stated_layout(now).layout == LAYOUT
    assert {table for table, found in rows_of(now).items() if not found.equals(rows[table])} == {"generated_outcomes"}
    assert now.read("generated_outcomes").rows(named=True) == [
        {name: FATE.get(name, FATE["fate"]) for name in TABLES["generated_outcomes"].row.model_fields}
    ]
    written = dict(everything(older))
    said = [name for name in files if name.removeprefix("tables/").startswith(SAID)]
    assert {name.split("/")[1] for name in said} >= {*SAID} and all(written[name] == files[name] for name in said)
    assert curate("rate", "--store", older.root, "--table", "win_rates")[0] == 0
    code, again, _ = migrated()
    assert code == 0 and again.startswith(f"store '{older.root}': 0 tables to change for layout {LAYOUT}\n")


def test_a_migration_that_is_killed_anywhere_is_finished_by_the_next_one(older, tmp_path):
    whole, places = Store(str(shutil.copytree(older.path, tmp_path / "whole"))), count()
    migrate(whole)
    for place in places:
        with suppress(Killed), killed_after(place, older.path):
            migrate(older)
            break
    assert place > 5 and contents(Path(older.path)) == contents(Path(whole.path))


def test_a_copy_that_is_killed_before_it_says_its_layout_is_not_there(older, tmp_path):
    before = contents(Path(older.path))
    with ends_at("write", f"/copy.half/{LAYOUT_FILE}"), pytest.raises(Killed):
        migrated_copy(older, tmp_path / "copy")
    assert not list(tmp_path.glob("copy*")) and contents(Path(older.path)) == before


# too small for a file of the store, and for a part that is written anew
@pytest.mark.parametrize("size", [8 * 1024, 64 * 1024])
def test_a_copy_without_room_is_one_line(older, migrated, tmp_path, size):
    with room_for(size):
        code, _, err = migrated("--out", tmp_path / "copy", "--yes")
    assert (code, err.count("\n"), "too large" in err or "no room left" in err) == (2, 1, True), err
    assert not list(tmp_path.glob("copy*"))


def test_a_copy_is_what_the_store_becomes(older, migrated, tmp_path):
    before = contents(Path(older.path))
    assert migrated("--out", tmp_path / "copy", "--yes")[0] == 0
    assert contents(Path(older.path)) == before and not list(tmp_path.glob("*.half"))
    migrate(older)
    assert contents(tmp_path / "copy") == contents(Path(older.path))


def _newer(store: Store) -> None:
    store.write_bytes(LAYOUT_FILE, b'{"layout": 99, "written_by": ["9.0.0"]}')


@pytest.mark.parametrize(
    ("spoil", "options", "said"),
    [
        (_newer, ["--yes"], "has layout 99, of 9.0.0, and"),
        (partial(add_table, table="notes", rows=[{"note": "x"}]), ["--yes"], "has a table 'notes', for which this ve"),
        (partial(rename_column, table="sightings", old="images", new="once"), ["--yes"], "'images', also has 'once'"),
        (partial(add_table, table="rejects", rows=[{"line": "one"}]), ["--yes"], "has another type of 'line', for wh"),
        (lambda store: None, [], "nobody is there to ask; read the output of --dry-run, then say --yes"),
        (lambda store: None, ["--yes", "--out", "{store}"], "exists; give a new folder for the copy"),
        (lambda store: None, ["--yes", "--out", "{store}/copy"], "give a folder beside it"),
    ],
)  # fmt: skip
def test_what_cannot_be_brought_on_is_one_line_and_stays_as_it_was(older, migrated, spoil, options, said):
    spoil(older)
    before = contents(Path(older.path))
    code, _, err = migrated(*(option.format(store=older.root) for option in options))
    assert (code, err.count("\n")) == (2, 1) and said in err
    assert contents(Path(older.path)) == before


def test_nothing_is_migrated_while_somebody_writes_and_what_is_no_store_is_told(older, migrated, curate, tmp_path):
    before = contents(Path(older.path))
    with FileLock(older.at("writing.lock")):
        code, _, err = migrated("--yes")
    assert code == 2 and "another run has been writing to store" in err
    Path(older.at("writing.lock")).unlink()
    assert contents(Path(older.path)) == before
    assert curate("migrate", tmp_path / "none")[2].startswith(f"curate: '{tmp_path}/none' is not a store")
    code, out, _ = migrated("--dry-run")
    assert code == 0 and "battles: 1 part" in out and contents(Path(older.path)) == before


def test_a_part_that_lacks_columns_is_brought_on_in_a_store_of_todays_layout_too(store, migrated):
    add_table(store, "rejects", [{"source": "a", "line": 1}])
    assert migrated("--yes")[1].startswith("rejects: 1 part written anew; null: reason, evidence\n")
    assert Store.existing(store.root).read("rejects").rows() == [("a", 1, None, None)]


def test_there_is_a_step_to_each_layout_and_on_what_is_done_it_does_nothing():
    assert len(STEPS) == LAYOUT - 1
    for step in (*STEPS, say_outcome):
        for table in (*TABLES, "generated_fates"):
            rows = pl.DataFrame(schema=frame_schema(TABLES[table].row)) if table in TABLES else pl.DataFrame([FATE])
            once = step(table, rows)
            again = step(*once)
            assert again[0] == once[0] and again[1].equals(once[1]) and again[1].schema == once[1].schema


CHECKS = [
    {"item_id": conv_id(name), "reference_id": "7" * 32, "rater": f"rater of {name}", "correct": name == "bob"}
    for name in ("ann", "bob")
]


@pytest.fixture
def with_verdicts(store) -> Store:
    """The store as an earlier version left it, with a table of people's verdicts that has another name now."""
    return make_older(store, {"item_checks": CHECKS})


@pytest.fixture
def takedown(curate, store):
    """Run `curate takedown` on the store: (exit status, stdout, stderr)."""
    return partial(curate, "takedown", "--yes", "--store", store.root)


def test_what_was_taken_down_is_in_no_file_of_an_older_store(with_verdicts, takedown):
    assert files_with(with_verdicts, f"{SECRET} one", conv_id("ann"), "rater of ann")
    code, out, err = takedown(conv_id("ann"), conv_id("left"))
    assert (code, err) == (0, "")
    assert files_with(with_verdicts, SECRET, conv_id("ann"), conv_id("left"), "rater of ann") == []
    assert "gone         1  item_checks" in out and "gone         3  conversations" in out


def test_what_stays_in_an_older_store_is_as_it_was_for_the_version_that_wrote_it(with_verdicts, takedown):
    tables = ("conversations", "battles", "item_checks")
    before = {table: written(with_verdicts, table) for table in tables}
    assert takedown(conv_id("ann"))[0] == 0
    for table, rows in before.items():
        left = written(with_verdicts, table)
        assert left.schema.equals(rows.schema), table
        kept = [
            row for row in rows.to_pylist() if conv_id("ann") not in (row.get("conversation_id"), row.get("item_id"))
        ]
        assert left.to_pylist() == kept, table
    assert stated_layout(with_verdicts) == EARLIER


def test_a_conversation_of_an_older_store_is_explained_and_after_its_takedown_called_gone(
    with_verdicts, takedown, curate
):
    explain = partial(curate, "explain", "--store", with_verdicts.root)
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


@pytest.mark.parametrize(("column", "texts_left"), [("conv_id", {"bob"}), ("conversation_id", {"ann", "bob"})])
def test_a_text_that_goes_leaves_unknown_tables_unless_they_name_conversations(store, takedown, column, texts_left):
    texts = {name: text_of(store, name) for name in ("ann", "bob")}
    add_table(store, "notes", [{column: conv_id("bob"), "content_id": each} for each in texts.values()])
    assert takedown(conv_id("ann"))[0] == 0
    assert {row["content_id"] for row in written(store, "notes").to_pylist()} == {texts[name] for name in texts_left}


def text_of(store: Store, name: str) -> str:
    """The id of the first text of a conversation."""
    turns = store.read("conversations").filter(conversation_id=conv_id(name))["turns"].item()
    return turns[0]["text_id"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (partial(add_table, table="notes", rows=[{"note": SECRET}]), "a table 'notes' that this version does not know"),
        (partial(rename_column, table="sightings", old="images", new="once"), "lacks 'images', also has 'once'"),
        (partial(add_table, table="near_prompts", rows=[{"conversation_a": 1}]), "another type of 'conversation_a'"),
    ],
)
def test_where_something_could_be_missed_nothing_is_taken_down(store, takedown, change, said):
    change(store)
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
