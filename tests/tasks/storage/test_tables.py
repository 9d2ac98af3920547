"""The tables of a store: whole or not at all, the same bytes for the same rows, on a disk and on an object store."""

import json
import random
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime

import polars as pl
import pyarrow as pa
import pytest
import s3fs

from schemas.errors import BadInput, StoreUnwell
from schemas.items.reject import Reject, Tombstone
from schemas.tables import TABLES
from tasks.storage.lock import remove_leftovers
from tasks.storage.records import record_paths
from tasks.storage.tables import AT_ONCE_BYTES, PART_ROWS, SLICE_BYTES, Store, frame_of, frame_schema
from tests.builders import facts_frame
from tests.disk_steps import Killed, Step, heard, killed_after


@pytest.fixture(params=["folder", "object store"])
def store(request, tmp_path) -> Store:
    """A new store; fsspec's memory file system stands for object stores."""
    return Store.open(str(tmp_path / "s") if request.param == "folder" else f"memory://{uuid.uuid4().hex}/s")


def _rejects(*lines: int, evidence: str = "seen") -> pl.DataFrame:
    return frame_of(Reject, [Reject(source="a.json", line=n, reason="not_json", evidence=evidence) for n in lines])


def _files(store: Store, table: str) -> set[str]:
    return {path.rsplit("/", 1)[-1] for path in store.fs.ls(store.at(f"tables/{table}"), detail=False)}


def test_rows_are_read_back_in_the_order_of_their_key(store):
    store.replace("rejects", _rejects(3, 1, 2))
    assert store.read("rejects").equals(_rejects(1, 2, 3))


def test_columns_are_read_in_the_order_in_which_they_are_asked_for(store):
    store.replace("rejects", _rejects(3, 1, 2))
    assert store.read("rejects", ["line", "source"]).columns == ["line", "source"]


def test_rows_of_one_key_stay_in_the_order_in_which_they_came(store):
    twins = _rejects(*[1] * 20_000).with_columns(evidence=pl.int_range(pl.len()).cast(pl.String))
    store.replace("rejects", twins)
    assert store.read("rejects").equals(twins)


def test_parts_that_were_replaced_are_deleted(store):
    store.append("rejects", _rejects(1, evidence="old"))
    store.append("rejects", _rejects(2, evidence="old"))
    store.replace("rejects", _rejects(3))
    assert _files(store, "rejects") == {*store.parts("rejects"), "parts.json"}
    assert len(store.parts("rejects")) == 1


def test_a_large_table_that_is_replaced_is_in_several_parts_in_the_same_order(store):
    lines = pl.DataFrame({"line": pl.int_range(PART_ROWS + 1, eager=True).shuffle(seed=0)})
    rows = lines.select(pl.lit("a.json").alias("source"), "line", reason=pl.lit("not_json"), evidence=pl.lit("seen"))
    store.replace("rejects", rows)
    assert store.read("rejects").equals(rows.sort("line")) and len(store.parts("rejects")) == 2


@pytest.mark.parametrize("read", [
    lambda store: store.read("rejects")["line"].to_list(),
    lambda store: [part["line"].item() for part in store.read_parts("rejects")],
    lambda store: [store.read_part("rejects", name)["line"].item() for name in store.parts("rejects")],
], ids=["whole", "parts", "each part"])  # fmt: skip
def test_appended_rows_follow_in_parts_of_their_own(store, read):
    store.append("rejects", _rejects(5))
    store.append("rejects", _rejects(1))
    assert read(store) == [5, 1]


def test_the_same_rows_appended_again_are_there_once(store):
    store.append("rejects", _rejects(1, 2))
    store.append("rejects", _rejects(2, 1))
    assert store.read("rejects").height == 2


def test_appending_nothing_makes_no_part(store):
    store.append("rejects", _rejects())
    assert store.parts("rejects") == []


@pytest.fixture
def old_part(store) -> str:
    """The one listed part of the store's rejects."""
    store.append("rejects", _rejects(1))
    (part,) = store.parts("rejects")
    return part


@pytest.fixture
def new_part(store, old_part) -> str:
    """A written part of rejects that is not listed."""
    return store.write_part("rejects", _rejects(3, 2))


@pytest.mark.usefixtures("new_part")
def test_a_part_that_is_not_listed_does_not_count(store):
    assert store.read("rejects")["line"].to_list() == [1]


def test_parts_count_in_the_order_of_the_list(store, old_part, new_part):
    store.list_parts("rejects", [new_part, old_part])
    assert store.read("rejects")["line"].to_list() == [2, 3, 1]


def test_a_part_that_is_no_longer_listed_is_deleted(store, old_part, new_part):
    store.list_parts("rejects", [new_part, old_part])
    store.list_parts("rejects", [new_part])
    assert _files(store, "rejects") == {new_part, "parts.json"}


def test_the_same_rows_in_any_order_are_the_same_bytes(tmp_path):
    lines = list(range(200))
    first, second = Store.open(str(tmp_path / "first")), Store.open(str(tmp_path / "second"))
    first.replace("rejects", _rejects(*lines))
    random.Random(0).shuffle(lines)
    second.replace("rejects", _rejects(*lines))
    (part,) = first.parts("rejects")
    assert second.parts("rejects") == [part]
    path = f"tables/rejects/{part}"
    assert first.read_bytes(path) == second.read_bytes(path)


@pytest.mark.parametrize("change", ["append", "replace"])
def test_a_write_killed_at_any_step_leaves_the_old_table_or_the_new_one(change, tmp_path):
    """Killed at its first, second, … step on the disk until one run gets through; then everything is in order."""
    old, new = _rejects(1, 2), _rejects(3)
    expected = {"append": pl.concat([old, new]), "replace": new}[change]
    for survived in range(20):
        store = Store.open(str(tmp_path / str(survived)))
        store.replace("rejects", old)
        died = True
        with suppress(Killed), killed_after(survived, store.path):
            getattr(store, change)("rejects", new)
            died = False
        found = store.read("rejects")
        assert found.equals(expected) or (died and found.equals(old))
        getattr(store, change)("rejects", new)
        assert store.read("rejects").equals(expected)
        assert change == "append" or _files(store, "rejects") == {*store.parts("rejects"), "parts.json"}
        if not died:
            break
    assert not died
    assert survived >= 4  # two files, each written and then renamed


def test_a_reader_that_is_overtaken_by_a_writer_sees_the_new_table(tmp_path):
    store = Store.open(str(tmp_path))
    store.replace("rejects", _rejects(1))
    waiting = [_rejects(2)]

    def overtake(step: Step) -> None:
        if waiting and step.path.endswith(".parquet"):
            store.replace("rejects", waiting.pop())

    with heard(overtake):
        assert store.read("rejects")["line"].to_list() == [2]
    assert waiting == []


def test_a_part_that_is_lost_is_an_error(store):
    store.append("rejects", _rejects(1))
    store.append("rejects", _rejects(2))
    store.fs.rm_file(store.at(f"tables/rejects/{store.parts('rejects')[0]}"))
    for read in (store.read, lambda table: list(store.read_parts(table))):
        with pytest.raises(StoreUnwell, match=r"is damaged: a part of table 'rejects'"):
            read("rejects")


def test_a_file_that_was_never_written_has_no_content(store):
    assert store.read_bytes("runs/x.json") is None


def test_a_file_has_the_content_that_was_written_last(store):
    store.write_bytes("runs/x.json", b"one")
    store.write_bytes("runs/x.json", b"two")
    assert store.read_bytes("runs/x.json") == b"two"


def test_writing_a_file_again_leaves_no_other_file(store):
    store.write_bytes("runs/x.json", b"one")
    store.write_bytes("runs/x.json", b"two")
    assert len(store.fs.ls(store.at("runs"), detail=False)) == 1


def test_only_what_killed_writers_left_is_swept_away(store):
    store.append("rejects", _rejects(1))
    store.write_bytes("runs/x.json", b"one")
    before = sorted(store.fs.find(store.path))
    store.write_part("rejects", _rejects(2))
    store.fs.pipe_file(store.at("runs/y.json.4711.tmp"), b"half")
    remove_leftovers(store)
    assert sorted(store.fs.find(store.path)) == before


def test_a_new_table_whose_writer_was_killed_before_it_listed_a_part_is_empty(store):
    store.write_part("rejects", _rejects(1))
    other = Store(store.root)
    assert other.read("rejects").height == 0
    remove_leftovers(other)
    assert _files(store, "rejects") == {"parts.json"}


@pytest.fixture(params=["rejects", "takedowns", "signals/tokens"])
def without_list(store, request) -> tuple[Store, str, set[str]]:
    """A store whose list of parts of a table is lost, that table, and the files that are left of it."""
    table = request.param
    if table == "rejects":
        rows = _rejects(1)
    elif table == "takedowns":
        rows = frame_of(
            Tombstone, [Tombstone(key="0" * 32, kind="image", taken_down_at=datetime(2026, 1, 1, tzinfo=UTC))]
        )
    else:
        rows = facts_frame("tokens", {"0" * 32: {"tokens": 1}})
    store.append(table, rows)
    store.append(table, pl.concat([rows, rows]))
    store.fs.rm_file(store.at(f"tables/{table}/parts.json"))
    return Store(store.root), table, _files(store, table)


@pytest.mark.parametrize("use", [
    lambda store, table: store.read(table),
    lambda store, table: store.parts(table),
    lambda store, table: store.ask(f'SELECT * FROM "{table}"'),
    lambda store, table: store.append(table, store.empty(table).clear(1)),
    lambda store, table: store.replace(table, store.empty(table)),
    lambda store, table: store.purge(table),
    lambda store, _: remove_leftovers(store),
], ids=["read", "parts", "ask", "append", "replace", "purge", "next run"])  # fmt: skip
def test_parts_without_their_list_are_one_error_that_says_what_to_do_wherever_they_are_used(without_list, use):
    store, table, files = without_list
    with pytest.raises(
        StoreUnwell, match=rf"table '{table}' has parts and no parts.json, .*; none was removed\. Put .*"
    ):
        use(store, table)
    assert _files(store, table) == files


def test_a_check_of_a_store_names_each_table_whose_list_is_lost(without_list):
    store, table, _ = without_list
    (line,) = store.damage()
    assert f"table {table!r} has parts and no parts.json" in line


def test_a_check_of_a_store_names_a_table_of_a_later_version_whose_list_is_lost(store):
    store.add_parts(LATER_TABLE, [store.write_part(LATER_TABLE, pa.table({"text": ["whole"]}))])
    store.fs.rm_file(store.at(f"tables/{LATER_TABLE}/parts.json"))
    (line,) = store.damage()
    assert f"table {LATER_TABLE!r} has parts and no parts.json" in line


def test_a_lost_list_says_whether_the_table_can_be_made_again(without_list):
    store, table, _ = without_list
    with pytest.raises(StoreUnwell) as lost:
        store.parts(table)
    assert ("to have the next run make it again" in str(lost.value)) == TABLES[table].derived


def test_a_list_that_is_there_again_is_a_whole_table(without_list):
    store, table, files = without_list
    store.write_bytes(f"tables/{table}/parts.json", json.dumps(sorted(files)).encode())
    assert store.height(table) == 3
    assert list(store.damage()) == []


def test_equal_rows_that_threads_write_at_once_are_one_part(tmp_path):
    store, rows = Store.open(str(tmp_path)), _rejects(*range(2000))
    with ThreadPoolExecutor(8) as threads:
        parts = {*threads.map(lambda _: store.write_part("rejects", rows), range(64))}
    store.add_parts("rejects", [*parts])
    assert (len(parts), store.read("rejects").equals(rows)) == (1, True)
    assert _files(store, "rejects") == {*parts, "parts.json"}


LATER_TABLE = "made_by_a_later_version"


def test_what_a_killed_takedown_left_of_a_table_of_a_later_version_is_swept_away(store):
    """A takedown lists such a table without the rows it removes, and is killed before it deletes the part with them."""
    parts = [store.write_part(LATER_TABLE, pa.table({"text": [text]})) for text in ("stays", "withdrawn")]
    store.add_parts(LATER_TABLE, parts[:1])
    remove_leftovers(store)
    assert _files(store, LATER_TABLE) == {parts[0], "parts.json"}


def test_one_of_several_leftovers_that_is_gone_already_keeps_none_of_the_others(store):
    """Another process deletes it between the listing and its turn."""
    parts = [store.write_part("rejects", _rejects(number)) for number in range(3)]
    paths = [store.at(f"tables/rejects/{part}") for part in ("gone.parquet", *parts)]
    store.purge("rejects", paths)
    assert _files(store, "rejects") == {"parts.json"}


def test_damage_of_a_table_of_a_later_version_is_one_line(store):
    part = store.write_part(LATER_TABLE, pa.table({"text": ["whole"]}))
    store.add_parts(LATER_TABLE, [part])
    store.fs.pipe_file(store.at(f"tables/{LATER_TABLE}/{part}"), b"broken")
    (line,) = store.damage()
    assert LATER_TABLE in line


def test_a_record_that_is_being_written_is_no_record(store):
    store.write_bytes("runs/20240601T000000Z.json", b"{}")
    store.fs.pipe_file(store.at("runs/20240602T000000Z.json.4711.tmp"), b"half")
    assert record_paths(store) == ["runs/20240601T000000Z.json"]


def _long_rows(store: Store, count: int, letters: int) -> pl.DataFrame:
    """Rows in the store with texts of so many letters, which cannot be made much shorter."""
    drawn = random.Random(0)
    texts = [drawn.randbytes(letters // 2).hex() for _ in range(count)]
    rows = _rejects(*range(count)).with_columns(evidence=pl.Series(texts))
    store.append("rejects", rows)
    return rows


@pytest.mark.parametrize(("letters", "a_slice"), [(SLICE_BYTES // 5, 4), (SLICE_BYTES + 2, 1)])
def test_slices_of_long_rows_hold_fewer(store, letters, a_slice):
    """No more is in memory, however long the rows of a part are, which is larger than what a bucket gives at once."""
    count = (2 * AT_ONCE_BYTES // letters // 4 + 1) * 4
    rows = _long_rows(store, count, letters)
    slices = list(store.read_slices("rejects"))
    assert pl.concat(slices).equals(rows)
    assert [each.height for each in slices] == [a_slice] * (count // a_slice)


def test_slices_of_short_columns_hold_many_rows_however_long_the_others_are(store):
    _long_rows(store, 20, SLICE_BYTES // 5)
    assert [each.height for each in store.read_slices("rejects", ["line"])] == [20]


@pytest.mark.parametrize("root", ["", "nosuch://x", "{file}", "{file}/below", "/proc/nothing/here", "a\0b"])
def test_a_store_that_cannot_be_written_is_refused(root, tmp_path):
    file = tmp_path / "file"
    file.write_text("not a folder")
    with pytest.raises(BadInput) as refused:
        Store.open(root.format(file=file))
    assert "\n" not in str(refused.value)
    assert "give a folder" in str(refused.value)


def test_a_store_out_of_reach_is_one_clear_line(monkeypatch):
    for name, value in {"ENDPOINT_URL": "http://127.0.0.1:9", "ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "x"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    s3fs.S3FileSystem.clear_instance_cache()
    with pytest.raises(
        BadInput, match=r"'s3://arena/store' cannot be read \(nothing answers at its address\); check the address and"
    ):
        Store.existing("s3://arena/store")


def test_opening_a_store_leaves_nothing_in_it(tmp_path):
    Store.open(str(tmp_path / "new" / "store"))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_store_that_was_opened_once_exists(tmp_path):
    Store.open(str(tmp_path))
    assert Store.existing(str(tmp_path)).read("rejects").height == 0


def test_a_table_that_was_never_written_has_its_columns_without_a_row(tmp_path):
    store = Store.open(str(tmp_path))
    for name, table in TABLES.items():
        read = store.read(name)
        assert (read.height, read.schema) == (0, frame_schema(table.row)), name
