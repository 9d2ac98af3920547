"""Only parts that change are read in full, and a damaged one is noticed: one line that names the table."""

import random
from collections.abc import Iterable
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from schemas.errors import StoreUnwell
from schemas.items.image import Image
from schemas.items.reject import Reject
from schemas.tables import TABLES
from tasks.storage.lock import writing
from tasks.storage.parts import PART_ROWS_MAX, rows_without
from tasks.storage.tables import Store, frame_of
from tests.cut_off import room_for
from tests.damage import damaged_columns
from tests.schemas.strategies import rows

LINE_TWO = pl.col("line") == 2


@pytest.fixture
def store(tmp_path) -> Store:
    """Three parts of `rejects` with 25 lines of a file each."""
    store = Store.open(str(tmp_path))
    for source in ("a", "b", "c"):
        first = 0 if source == "b" else 100
        lines = [Reject(source=source, line=first + n, reason="not_json", evidence="e") for n in range(25)]
        store.append("rejects", frame_of(Reject, lines))
    return store


def damage_columns(store: Store, table: str, part: str, names: Iterable[str]) -> None:
    """Change every byte of these columns of a part."""
    path = store.at(f"tables/{table}/{part}")
    store.fs.pipe_file(path, damaged_columns(store.fs.cat_file(path), names))


def without_line_two(store: Store) -> list[str]:
    parts = store.parts("rejects")
    return rows_without(store, "rejects", parts, LINE_TWO)


def test_of_parts_that_do_not_change_only_the_key_is_read(store):
    """All else of them is damaged, so that reading it would raise."""
    first, second, third = store.parts("rejects")
    for part in (first, third):
        damage_columns(store, "rejects", part, ("source", "reason", "evidence"))
    kept = without_line_two(store)
    assert (kept[0], kept[-1], second in kept) == (first, third, False)


MANY_LINES = pl.int_range(2 * PART_ROWS_MAX + 9, eager=True)


@pytest.fixture
def large_part(tmp_path) -> Store:
    """A store whose one part had more rows than a part has, and lost one."""
    store = Store.open(str(tmp_path))
    store.append("rejects", pl.DataFrame({"source": "a", "line": MANY_LINES, "reason": "not_json", "evidence": ""}))
    store.list_parts("rejects", without_line_two(store))
    return store


def test_a_part_of_many_rows_becomes_parts_of_few(large_part):
    assert [rows for rows, _ in large_part.part_sizes("rejects")] == [PART_ROWS_MAX - 1, PART_ROWS_MAX, 9]


def test_rows_of_a_part_that_becomes_several_stay_in_order(large_part):
    assert large_part.read("rejects")["line"].equals(MANY_LINES.filter(MANY_LINES != 2))


def test_a_part_without_any_row_left_goes(store):
    parts = store.parts("rejects")
    every = pl.col("source") == "b"
    kept = rows_without(store, "rejects", parts, every)
    assert kept == [parts[0], parts[2]]


def _hundred_images() -> list[Image]:
    drawn = random.Random(0)
    return [
        Image(image_id=f"{number:032x}", bytes=drawn.randbytes(20_000), format="png", width=number + 1, height=2)
        for number in range(100)
    ]


@pytest.fixture
def in_memory(tmp_path) -> tuple[Store, str]:
    """An object store with a part of images, and the part."""
    store = Store(f"memory://{tmp_path.name}/store")
    store.append("images", frame_of(Image, _hundred_images()))
    return store, *store.parts("images")


def test_bytes_of_images_on_an_object_store_are_read(in_memory):
    store, part = in_memory
    assert store.read_part("images", part)["bytes"].to_list() == [image.bytes for image in _hundred_images()]


@pytest.mark.parametrize("names", [["image_id"], ["width", "image_id"], ["format"]], ids=str)
def test_all_but_the_bytes_of_images_on_an_object_store_is_in_the_footer(in_memory, names):
    """Each group of 32 images would be a request, for every step. All but the footer is damaged."""
    store, part = in_memory
    damage_columns(store, "images", part, Image.model_fields)
    assert store.read_part("images", part, names).rows() == [
        tuple(getattr(image, name) for name in names) for image in _hundred_images()
    ]


def test_ids_of_all_images_on_an_object_store_are_read_from_footers_alone(in_memory):
    store, part = in_memory
    damage_columns(store, "images", part, Image.model_fields)
    assert store.read("images", ["image_id"]).height == 100


READERS = {
    "whole": lambda store, table: store.read(table),
    "in parts": lambda store, table: pl.concat(store.read_parts(table)),
    "in slices": lambda store, table: pl.concat(store.read_slices(table)),
}


@pytest.mark.parametrize("table", TABLES)
@settings(max_examples=1, phases=[Phase.generate], suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_no_flipped_bit_of_any_table_is_read_as_other_rows(table, data, tmp_path_factory):
    made = data.draw(st.lists(rows(TABLES[table].row), min_size=3, max_size=3))
    store, chance = Store.open(str(tmp_path_factory.mktemp("store"))), random.Random(table)
    store.append(table, frame_of(TABLES[table].row, made))
    path = Path(store.at(f"tables/{table}/{store.parts(table)[0]}"))
    content, seen, noticed = path.read_bytes(), store.read(table), 0
    for _ in range(12):
        damaged = bytearray(content)
        damaged[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        try:
            assert chance.choice(list(READERS.values()))(store, table).equals(seen)
        except StoreUnwell as error:
            assert f"table {table!r}" in str(error) and "\n" not in str(error)
            noticed += 1
    assert noticed > 6


@pytest.mark.parametrize("left", [0, 1, 8, 40, 0.5, 0.99])
def test_a_part_that_was_cut_is_damage(tmp_path, left):
    store = Store.open(str(tmp_path))
    store.append("rejects", pl.DataFrame({"source": "a", "line": range(99), "reason": "not_json", "evidence": ""}))
    path = Path(store.at(f"tables/rejects/{store.parts('rejects')[0]}"))
    content = path.read_bytes()
    path.write_bytes(content[: left if isinstance(left, int) else int(len(content) * left)])
    for read in READERS.values():
        with pytest.raises(StoreUnwell, match="is damaged: a part of table 'rejects'"):
            read(store, "rejects")


@pytest.mark.parametrize("listed", [b"", b"{}", b'["../../x.parquet"]', b"[1]", b"\xff"])
def test_a_list_of_parts_that_is_none_is_damage(tmp_path, listed):
    store = Store.open(str(tmp_path))
    store.write_bytes("tables/rejects/parts.json", listed)
    with pytest.raises(StoreUnwell, match="is damaged: a part of table 'rejects'"):
        store.read("rejects")


@pytest.mark.parametrize(
    ("table", "advice"), [("signals/nsfw", "delete '"), ("ratings", "delete '"), ("images", "copy")]
)
def test_damage_says_whether_the_table_can_be_made_again(tmp_path, table, advice):
    store = Store.open(str(tmp_path))
    store.write_bytes(f"tables/{table}/parts.json", b"[")
    with pytest.raises(StoreUnwell, match=advice):
        store.parts(table)


def _write_on_a_full_disk(root: str) -> None:
    with room_for(0), writing(root):
        pass


def test_a_disk_that_is_full_before_the_first_byte_is_one_line(tmp_path):
    with pytest.raises(StoreUnwell, match=r"^store '.*' has no room left \(File too large\); [^\n]*$"):
        _write_on_a_full_disk(str(tmp_path / "store"))


def test_a_full_disk_leaves_no_hold_on_a_store(tmp_path):
    with pytest.raises(StoreUnwell):
        _write_on_a_full_disk(str(tmp_path / "store"))
    with writing(str(tmp_path / "store")):
        pass


@pytest.fixture
def two_tables(tmp_path) -> Store:
    """A store with rejects, which are read often, and a quarantine."""
    store = Store.open(str(tmp_path))
    rejected = pl.DataFrame({"source": "a", "line": range(99), "reason": "not_json", "evidence": ""})
    image = pl.DataFrame({"kind": ["image"], "key": ["a" * 32], "cause": ["flagged"]})
    store.append("rejects", rejected)
    store.append("quarantine", image)
    return store


def test_doctor_calls_an_undamaged_store_whole(two_tables, curate):
    assert "is whole" in curate("doctor", "--store", two_tables.root)[1]


def test_doctor_names_every_table_with_a_flipped_bit_read_or_not(two_tables, curate):
    for table in ("rejects", "quarantine"):
        path = Path(two_tables.at(f"tables/{table}/{two_tables.parts(table)[0]}"))
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    code, out, _ = curate("doctor", "--store", two_tables.root)
    lines = out.splitlines()
    assert code == 1 and len(lines) == 3, "the two tables, and the audit log"
    assert all(f"table {table!r}" in "".join(lines) for table in ("rejects", "quarantine"))
