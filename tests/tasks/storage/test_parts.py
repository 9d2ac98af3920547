"""Only parts that change are read in full, and a large one is written anew some rows at a time."""

import polars as pl
import pytest

from schemas.items.reject import Reject
from tasks.storage.parts import rows_without
from tasks.storage.tables import Store, frame_of

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


def without_line_two(store: Store) -> list[str]:
    parts = store.parts("rejects")
    return rows_without(store, "rejects", parts, LINE_TWO)


def test_of_parts_that_do_not_change_only_the_key_is_read(store, monkeypatch):
    first, second, third = store.parts("rejects")
    read, slices, whole = [], Store.part_slices, Store.slices_as_written

    def spied(self: Store, table: str, part: str, columns: list[str], rows: int):
        read.append((part, columns))
        return slices(self, table, part, columns, rows)

    def spied_whole(self: Store, table: str, part: str, rows: int):
        read.append((part, "all"))
        return whole(self, table, part, rows)

    monkeypatch.setattr(Store, "part_slices", spied)
    monkeypatch.setattr(Store, "slices_as_written", spied_whole)
    kept = without_line_two(store)
    assert read == [(first, ["line"]), (second, ["line"]), (third, ["line"]), (second, "all")]
    assert (kept[0], kept[-1], second in kept) == (first, third, False)


def test_a_part_of_many_rows_becomes_parts_of_few_in_the_same_order(store, monkeypatch):
    monkeypatch.setattr("tasks.storage.parts.ROWS", 10)
    before = store.read("rejects")
    store.list_parts("rejects", without_line_two(store))
    assert [store.read_part("rejects", part).height for part in store.parts("rejects")] == [25, 9, 10, 5, 25]
    assert store.read("rejects").equals(before.filter(~LINE_TWO))


def test_a_part_without_any_row_left_goes(store):
    parts = store.parts("rejects")
    every = pl.col("source") == "b"
    kept = rows_without(store, "rejects", parts, every)
    assert kept == [parts[0], parts[2]]
