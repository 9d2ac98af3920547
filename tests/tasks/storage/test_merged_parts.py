"""Parts are listed in batches and merged when a stage ends; a bucket is asked little; a kill loses nothing."""

import errno
import os
import random
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest
import s3fs

from schemas.errors import StoreUnwell
from schemas.items.image import Image
from tasks.storage import parts
from tasks.storage.lock import remove_leftovers
from tasks.storage.parquet import WHOLE_BYTES
from tasks.storage.parts import LIST_SECONDS, SMALL_PARTS, listed_in_batches, merge_small
from tasks.storage.queries.signals import StoredImages
from tasks.storage.tables import Store, frame_of
from tests.builders import facts_frame
from tests.counted_way import counted_way
from tests.damage import damaged_columns
from tests.disk_steps import Killed, Step, heard, killed_after, steps_at
from tests.s3_server import s3_here

TABLE = "signals/tokens"
PARTS = 40


def _rows(number: int) -> pl.DataFrame:
    return facts_frame("tokens", {f"{number:032x}": {"tokens": number}})


def _written(store: Store) -> list[tuple[str, str]]:
    return [(TABLE, store.write_part(TABLE, _rows(number))) for number in reversed(range(PARTS))]


def _files(store: Store, table: str) -> set[str]:
    names = {path.rsplit("/", 1)[-1] for path in store.fs.find(store.at(f"tables/{table}"))}
    return names - {"parts.json"}


@pytest.fixture
def store(tmp_path):
    return Store.open(str(tmp_path / "store"))


@pytest.fixture
def many(store):
    """A store with a table of many small parts."""
    store.add_parts(TABLE, [part for _, part in _written(store)])
    return store


def test_an_error_that_passes_leaves_no_part_out_that_later_ones_stand_on(store, clock):
    """Files listed without their images would never be taken in again."""
    tried: list[str] = []

    def fail_once(step: Step) -> None:
        if step.kind == "write" and f"{TABLE}/parts.json" in step.path:
            tried.append(step.path)
            if len(tried) == 1:
                raise OSError(errno.EIO, "Input/output error")

    signals = store.write_part(TABLE, _rows(1))
    files = store.write_part("image_files", store.empty("image_files"))
    with heard(fail_once), suppress(OSError), listed_in_batches(store) as list_parts:
        clock.later(LIST_SECONDS)
        list_parts([("image_files", files), (TABLE, signals)])
    assert (len(tried), store.parts(TABLE)) == (2, [signals])


def test_a_part_that_is_listed_twice_at_once_is_there_once(store):
    part = store.write_part(TABLE, _rows(1))
    store.add_parts(TABLE, [part, part])
    assert store.parts(TABLE) == [part]


def test_parts_are_listed_together_even_when_the_work_fails(store):
    written = _written(store)
    with (
        steps_at("write", r"parts\.json") as lists,
        pytest.raises(KeyboardInterrupt),
        listed_in_batches(store) as list_parts,
    ):
        for each in written:
            list_parts([each])
        raise KeyboardInterrupt
    assert (len(lists), len(store.parts(TABLE))) == (1, PARTS)


def test_parts_are_listed_after_a_while_though_the_work_goes_on(store, clock):
    with listed_in_batches(store) as list_parts:
        for count, each in enumerate(_written(store), 1):
            clock.later(LIST_SECONDS)
            list_parts([each])
            assert len(store.parts(TABLE)) == count


def test_small_parts_become_one_file(many):
    merge_small(many, TABLE)
    assert {*many.parts(TABLE)} == _files(many, TABLE) and len(many.parts(TABLE)) == 1


def test_merged_parts_have_the_same_rows_in_order(many):
    before = many.read(TABLE)
    merge_small(many, TABLE)
    assert many.read(TABLE).equals(before.sort("content_id"))


def test_merged_parts_are_whole(many):
    merge_small(many, TABLE)
    assert list(many.damage()) == []


def test_few_parts_stay_as_they_are(many):
    many.list_parts(TABLE, few := many.parts(TABLE)[: SMALL_PARTS - 1])
    merge_small(many, TABLE)
    assert many.parts(TABLE) == few


def test_large_parts_stay_as_they_are(many, monkeypatch):
    monkeypatch.setattr(parts, "PART_BYTES", 1)
    merge_small(many, TABLE)
    assert len(many.parts(TABLE)) == PARTS


@pytest.mark.parametrize("changes", [0, 1, 2, 3, 4, 5, PARTS // 2])
def test_a_kill_while_parts_are_merged_loses_no_row_or_room(many, changes):
    """At the part, at its name, at the list, at its name, and while the old parts are deleted."""
    rows = many.read(TABLE).sort("content_id")
    with pytest.raises(Killed), killed_after(changes, many.at(f"tables/{TABLE}/")):
        merge_small(many, TABLE)
    remove_leftovers(many)
    assert many.read(TABLE).sort("content_id").equals(rows)
    assert {*many.parts(TABLE)} == _files(many, TABLE)
    merge_small(many, TABLE)
    assert many.read(TABLE).equals(rows)


@pytest.fixture
def merged_images(store) -> Store:
    """A store whose merged part of images is damaged in all groups but those of images 0, 333, 639."""
    kinds = {"format": "png", "width": 1, "height": 1}
    for first in range(0, 640, 40):
        ids = [f"{number:032x}" for number in range(first, first + 40)]
        images = pl.DataFrame([{"image_id": each, "bytes": each.encode(), **kinds} for each in ids])
        store.append("images", images.cast({"width": pl.Int32, "height": pl.Int32}))
    merge_small(store, "images")
    (part,) = store.parts("images")
    groups, path = store.group_of_rows("images", part), Path(store.at(f"tables/images/{part}"))
    others = {*groups} - {groups[number] for number in (0, 333, 639)}
    path.write_bytes(damaged_columns(path.read_bytes(), ["bytes"], others))
    return store


def test_a_merged_part_of_images_is_in_groups_of_few(merged_images):
    (part,) = merged_images.parts("images")
    assert merged_images.group_of_rows("images", part).n_unique() == 20


def test_an_image_is_read_without_the_rest_of_a_merged_part(merged_images):
    stored = StoredImages(merged_images)
    for number in (0, 333, 639):
        assert stored[f"{number:032x}"].bytes == f"{number:032x}".encode()


def test_an_image_in_a_damaged_group_of_a_merged_part_is_not_read(merged_images):
    with pytest.raises(StoreUnwell, match="is damaged"):
        StoredImages(merged_images)[f"{100:032x}"]


def test_a_part_in_a_bucket_is_one_request_and_many_are_read_at_once(tmp_path, monkeypatch):
    with s3_here("arena"):
        port = int(os.environ["AWS_ENDPOINT_URL"].rpartition(":")[2])
        there = Store.open("s3://arena/store")
        there.add_parts(TABLE, [part for _, part in _written(there)])
        with counted_way(port, seconds=0.02) as way:
            monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{way.port}")
            s3fs.S3FileSystem.clear_instance_cache()
            slow = Store("s3://arena/store")
            assert slow.read(TABLE, ["content_id"]).height == PARTS
            assert way.by_method() == {"GET": 1 + PARTS}
            assert max(int(part.split("-")[1]) for part in slow.parts(TABLE)) < WHOLE_BYTES
            assert way.most_at_once > 1
            merge_small(slow, TABLE)
            way.requests.clear()
            for _ in range(2):  # the second time only the list is read
                assert slow.read(TABLE, ["content_id"]).height == PARTS
            assert way.by_method() == {"GET": 3}


def test_columns_of_a_large_part_in_a_bucket_are_one_request_and_ids_of_images_none(monkeypatch):
    drawn = random.Random(0)
    with s3_here("arena"):
        port, there = int(os.environ["AWS_ENDPOINT_URL"].rpartition(":")[2]), Store.open("s3://arena/store")
        vectors = {f"{n:032x}": {"vector": [drawn.random() for _ in range(512)]} for n in range(1000)}
        there.append("signals/text_embedding", facts_frame("text_embedding", vectors))
        there.append("images", frame_of(Image, [
            Image(image_id=f"{n:032x}", bytes=drawn.randbytes(20_000), format="png", width=1, height=1)
            for n in range(100)
        ]))  # fmt: skip
        with counted_way(port) as way:
            monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{way.port}")
            s3fs.S3FileSystem.clear_instance_cache()
            slow = Store("s3://arena/store")
            for _ in range(2):
                rows = pl.concat(slow.read_slices("signals/text_embedding", ["content_id", "version"]))
                assert rows["content_id"].to_list() == list(vectors)
            assert way.by_method() == {"GET": 2 + 1 + 1}, "two lists, a footer, and two columns at once"
            way.requests.clear()
            stored = StoredImages(slow)
            assert way.by_method() == {"GET": 3}, "the list twice, and a footer"
            assert (len(stored.part_of), stored[f"{77:032x}"].width) == (100, 1)
            assert way.by_method() == {"GET": 4}
