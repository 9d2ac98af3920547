"""A store says what reads it, and one that this version does not read is refused before anything is done with it."""

import json
import shutil
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from schemas.errors import BadInput, StoreUnwell
from schemas.items.reject import Tombstone
from schemas.layout import LAYOUT, StoreLayout
from schemas.tables import TABLES
from tasks.storage.layout import state_layout
from tasks.storage.queries.released import decided_hash, decided_policy
from tasks.storage.tables import Store, frame_of, frame_schema
from tests.builders import NOON, facts_frame
from tests.older_store import LAYOUT_FILE, add_table, make_older
from tests.small_store import make_release, small_store
from tests.tasks.ingest.logs import DAY, chat, write

COMMANDS = (
    "run --logs {logs} --store {store}", "ingest --logs {logs} --store {store}", "measure --store {store}",
    "decide --store {store}", "decide --dry-run --store {store}", "sample --store {store}", "rate --store {store}",
    "rate --table win_rates --store {store}", "release --store {store}", "view {store}",
    "review out held --store {store}", "review serve --no-browser --store {store}",
    "bench show --store {store}", "bench refresh --store {store}",
    "bench failures --store {store}", "judge board --store {store}", "estimate --store {store}",
    "topics show --store {store}", "demo --check --out {expected.parent} --store {store}",
)  # fmt: skip
ANY_LAYOUT = (
    "status {store}", "doctor --store {store}", "explain --store {store} x", "backup --store {store} {logs}/backup",
    "takedown x --yes --store {store}", "migrate {store} --yes", "migrate {store} --yes --out {logs}/copy",
)  # fmt: skip
"""Commands for stores of earlier layouts, too."""


@pytest.fixture
def store(tmp_path) -> Store:
    """A small store."""
    return small_store(tmp_path)


@pytest.fixture
def older(store) -> Store:
    """The store as an earlier layout left it."""
    return make_older(store)


def _files(store: Store) -> dict[str, tuple[bytes, int]]:
    return {path: (store.fs.cat_file(path), store.fs.info(path)["ino"]) for path in store.fs.find(store.path)}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_refuses_an_older_store_without_touching_it(command, older, refused, tmp_path):
    logs = tmp_path / "logs"
    write(logs, DAY, chat("ann", "a question?", "an answer"))
    (tmp_path / "expected.jsonl").touch()
    before = _files(older)
    err = refused(*command.format(store=older.root, logs=logs, expected=tmp_path / "expected.jsonl").split())
    assert f"store '{older.root}' has layout {LAYOUT - 1}, of 0.1.9, and" in err
    assert f"`curate migrate {older.root}` brings it on; until then" in err
    assert _files(older) == before


@pytest.mark.parametrize("command", [*COMMANDS, *ANY_LAYOUT])
def test_a_command_refuses_a_store_without_a_number_without_touching_it(command, store, refused, tmp_path):
    store.fs.rm_file(store.at(LAYOUT_FILE))
    logs = tmp_path / "logs"
    write(logs, DAY, chat("ann", "a question?", "an answer"))
    (tmp_path / "expected.jsonl").touch()
    before = _files(store)
    err = refused(*command.format(store=store.root, logs=logs, expected=tmp_path / "expected.jsonl").split())
    assert f"store '{store.root}' has no tables/layout.json, as before version 0.2, so it is not read" in err
    assert "Make a new store of its logs" in err
    assert _files(store) == before and len(list(logs.iterdir())) == 1


def test_nothing_is_listed_in_a_store_without_a_number_as_if_it_were_new(store):
    store.fs.rm_file(store.at(LAYOUT_FILE))
    again = Store(store.root)
    again.replace("rejects", again.read("rejects"))
    assert store.read_bytes(LAYOUT_FILE) is None


@pytest.fixture
def begun(store, tmp_path) -> Store:
    """A new store that begins with the takedowns of another one."""
    store.replace("takedowns", frame_of(Tombstone, [Tombstone(key="k", kind="user", taken_down_at=NOON)]))
    begun = Store(str(tmp_path / "begun"))
    store.fs.copy(store.at("tables/takedowns"), begun.at("tables/takedowns"), recursive=True)
    begun = Store.open(begun.root)
    begun.replace("rejects", store.read("rejects"))
    return begun


def test_a_store_that_begins_with_the_takedowns_of_another_one_has_the_layout_of_today(begun):
    assert StoreLayout.model_validate_json(begun.read_bytes(LAYOUT_FILE)).layout == LAYOUT


def test_a_new_store_keeps_the_takedowns_it_began_with(begun, store):
    assert begun.read("takedowns").equals(store.read("takedowns"))


def test_an_older_store_is_not_called_whole(older, curate):
    code, out, _ = curate("doctor", "--store", older.root)
    assert (code, out.count("\n")) == (1, 2), "the layout, and the audit log"
    assert f"has layout {LAYOUT - 1}, of 0.1.9" in out


@pytest.fixture
def of_later_policy(older) -> Store:
    """The older store, decided by a policy with a key that this version does not know."""
    policy = older.at(f"policies/{decided_hash(older)}.json")
    older.fs.pipe_file(policy, older.fs.cat_file(policy).replace(b"{", b'{"once": 1, ', 1))
    return older


def test_a_policy_of_another_version_hinders_no_explanation(of_later_policy, curate):
    battle = of_later_policy.read("battles", ["battle_id"])["battle_id"][0]
    code, out, _ = curate("explain", "--store", of_later_policy.root, battle)
    assert code == 0 and f"battle {battle} (" in out


def test_a_policy_of_another_version_is_one_clear_line(of_later_policy):
    with pytest.raises(
        BadInput, match=r"was decided by a policy of another version \(once\); run `curate decide` again"
    ):
        decided_policy(of_later_policy)


@pytest.fixture
def older_in_memory(older) -> None:
    """The older store as `memory://older/store`."""
    inside = Store("memory://older/store")
    for path in older.fs.find(older.path):
        inside.fs.pipe_file(inside.at(path.removeprefix(f"{older.path}/")), older.fs.cat_file(path))


@pytest.mark.usefixtures("older_in_memory")
def test_an_older_store_on_an_object_store_is_recognised():
    with pytest.raises(BadInput, match=rf"'memory://older/store' has layout {LAYOUT - 1}, of 0\.1\.9, and"):
        Store.existing("memory://older/store")


@pytest.mark.usefixtures("older_in_memory")
def test_an_older_store_on_an_object_store_is_read_for_what_reads_any_layout():
    read = Store.existing("memory://older/store", any_layout=True).read("battles")
    assert read["vote_reason"].null_count() == read.height > 0


def test_a_new_store_says_its_layout_beside_the_version_that_made_it(store):
    stated = StoreLayout.model_validate_json(store.read_bytes(LAYOUT_FILE))
    assert stated.layout == LAYOUT and len(stated.written_by) == 1


def test_a_store_says_every_version_that_wrote_to_it(store):
    stated = StoreLayout.model_validate_json(store.read_bytes(LAYOUT_FILE))
    store.write_bytes(LAYOUT_FILE, json.dumps({"layout": LAYOUT, "written_by": ["0.1.9"]}).encode())
    state_layout(store)
    assert StoreLayout.model_validate_json(store.read_bytes(LAYOUT_FILE)).written_by == ["0.1.9", *stated.written_by]


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        (
            LAYOUT - 1,
            f"has layout {LAYOUT - 1}, of 0.1.9, 0.1.10, and .* layout {LAYOUT}: `curate migrate .*` brings it on",
        ),
        (LAYOUT + 1, f"has layout {LAYOUT + 1}, of 0.1.9, 0.1.10, and .* layout {LAYOUT}: use the later version"),
    ],
)
def test_a_store_of_another_layout_names_who_reads_it(store, layout, said):
    store.write_bytes(LAYOUT_FILE, json.dumps({"layout": layout, "written_by": ["0.1.9", "0.1.10"]}).encode())
    for opened in (Store.open, Store.existing):
        with pytest.raises(BadInput, match=said):
            opened(store.root)


@pytest.mark.parametrize("content", [b"", b"[]", b"[1]", b'{"layout": "x"}', b"\xff"])
def test_a_broken_layout_file_is_one_clear_line(store, content):
    store.write_bytes(LAYOUT_FILE, content)
    with pytest.raises(
        StoreUnwell, match=r"is damaged: tables/layout.json cannot be read; put that of a backup in its place"
    ):
        Store.existing(store.root)


FACES = "signals/faces"
FACE = {"box": [1, 2, 3, 4]}


@pytest.fixture
def older_faces(store) -> Store:
    """The store with one more part of faces, which has no confidence in it."""
    kind = pl.List(pl.Struct({"box": pl.List(pl.Int32)}))
    older = facts_frame("faces", {"0" * 32: {"faces": []}}).with_columns(faces=pl.Series([[FACE]], dtype=kind))
    store.list_parts(FACES, [*store.parts(FACES), store.write_part(FACES, older.to_arrow())])
    return store


def test_facts_of_an_older_part_are_read_beside_todays(older_faces):
    now = pl.concat([older_faces.read_part(FACES, part) for part in older_faces.parts(FACES)[:-1]])
    both = Store.existing(older_faces.root).read(FACES)
    assert both.schema == frame_schema(TABLES[FACES].row) and both.height == now.height + 1


def test_fields_that_facts_of_a_signal_got_later_are_null_in_older_ones(older_faces):
    both = Store.existing(older_faces.root).read(FACES)
    assert both.filter(content_id="0" * 32)["faces"].to_list() == [[FACE | {"confidence": None}]]


def test_slices_of_older_parts_have_the_rows_of_the_table(older_faces):
    assert pl.concat(older_faces.read_slices(FACES)).equals(Store.existing(older_faces.root).read(FACES))


def test_a_part_of_another_version_among_todays_is_one_clear_line(store):
    add_table(store, "rejects", [{"source": "a", "line": 1}])
    older = store.parts("rejects")
    store.append("rejects", pl.DataFrame({"source": "b", "line": 1, "reason": "not_json", "evidence": ""}))
    assert len(older) == 1
    with pytest.raises(
        BadInput, match="written by another version: a part of table 'rejects' lacks 'reason'; `curate mi"
    ):
        store.read("rejects")


def test_a_part_with_another_type_of_a_column_is_one_clear_line(store):
    typed = pa.table({"source": ["a"], "line": ["one"], "reason": ["x"], "evidence": [""]})
    store.list_parts("rejects", [store.write_part("rejects", typed)])
    with pytest.raises(BadInput, match="a part of table 'rejects' has another type of 'line'"):
        Store.existing(store.root, any_layout=True).read("rejects")


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


@pytest.mark.parametrize(
    ("folder", "place", "message"),
    [
        ("store/releases", "1.0.0", "'1.0.0' is a release of store '{arena}/store'"),
        (
            ".",
            "store/releases/1.0.0",
            "'store/releases/1.0.0' is a release of store 'store', not a store; give 'store'",
        ),
    ],
)
def test_places_are_named_as_they_were_given(arena, monkeypatch, folder, place, message):
    monkeypatch.chdir(arena / folder)
    with pytest.raises(BadInput) as refused:
        Store.existing(place)
    assert message.format(arena=arena) in str(refused.value)


@pytest.fixture(scope="module")
def arena_in_memory(arena) -> None:
    """The store of the arena as `memory://places/store`."""
    inside = Store("memory://places/store")
    inside.fs.put(f"{arena}/store", inside.path, recursive=True)


@pytest.mark.usefixtures("arena_in_memory")
def test_a_release_on_an_object_store_names_its_store():
    with pytest.raises(BadInput, match=r"is a release of store 'memory://places/store', not a store"):
        Store.existing("memory://places/store/releases/1.0.0")


@pytest.mark.usefixtures("arena_in_memory")
def test_a_folder_on_an_object_store_names_the_store_in_it():
    with pytest.raises(BadInput, match=r"'memory://places' is not a store, but holds 1 \('memory://places/store'\)"):
        Store.existing("memory://places")


@pytest.mark.parametrize("place", ["store", "store/tables", ""])
def test_a_store_is_no_battle_table(place, arena, refused):
    assert f"holds tables of a store; `curate rate --store {arena}/store` rates" in refused("rate", arena / place)
