"""A damaged store is noticed when it is read: one line that names the table, never other rows or a traceback."""

import random
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from schemas.errors import StoreUnwell
from schemas.tables import TABLES
from tasks.storage.lock import writing
from tasks.storage.tables import Store, frame_of
from tests.cut_off import room_for
from tests.schemas.strategies import rows

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


def test_a_disk_that_is_full_before_the_first_byte_is_one_line(tmp_path):
    with (
        room_for(0),
        pytest.raises(StoreUnwell, match=r"^store '.*' has no room left \(File too large\); [^\n]*$"),
        writing(str(tmp_path / "store")),
    ):
        pass
    with writing(str(tmp_path / "store")):
        pass


def test_doctor_names_every_table_with_a_flipped_bit_read_or_not(tmp_path, curate):
    store = Store.open(str(tmp_path))
    rejected = pl.DataFrame({"source": "a", "line": range(99), "reason": "not_json", "evidence": ""})
    image = pl.DataFrame({"kind": ["image"], "key": ["a" * 32], "cause": ["flagged"]})
    store.append("rejects", rejected)
    store.append("quarantine", image)
    assert "is whole" in curate("doctor", "--store", tmp_path)[1]
    for table in ("rejects", "quarantine"):
        path = Path(store.at(f"tables/{table}/{store.parts(table)[0]}"))
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    code, out, _ = curate("doctor", "--store", tmp_path)
    lines = out.splitlines()
    assert code == 1 and len(lines) == 3, "the two tables, and the audit log"
    assert all(f"table {table!r}" in "".join(lines) for table in ("rejects", "quarantine"))
