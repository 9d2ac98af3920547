"""Only parts that change are read in full, and a large one is written anew some rows at a time."""

import random

import polars as pl
import pyarrow.parquet as pq
import pytest

from schemas.items.image import Image
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


def test_ids_of_images_on_an_object_store_are_in_the_footer(tmp_path, monkeypatch):
    """Each group of 32 images would be a request, for every step."""
    store, drawn, read = Store(f"memory://{tmp_path.name}/store"), random.Random(0), list[list[str]]()
    images = [
        Image(image_id=f"{number:032x}", bytes=drawn.randbytes(20_000), format="png", width=number + 1, height=2)
        for number in range(100)
    ]
    store.append("images", frame_of(Image, images))
    (part,), plainly = store.parts("images"), pq.ParquetFile.read

    def spied(file: pq.ParquetFile, columns: list[str]):
        read.append(columns)
        return plainly(file, columns)

    monkeypatch.setattr(pq.ParquetFile, "read", spied)
    for names in (["image_id"], ["width", "image_id"], ["format"]):
        assert store.read_part("images", part, names).rows() == [
            tuple(getattr(image, name) for name in names) for image in images
        ]
    assert read == [] and store.read("images", ["image_id"]).height == len(images)
    assert store.read_part("images", part)["bytes"].to_list() == [image.bytes for image in images]
