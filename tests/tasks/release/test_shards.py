"""Rows become shards of bounded size, in order, with the same bytes each time, in little memory."""

import base64
import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest
from datasets import Features
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.release_rows import chat_rows, image_id, image_store
from schemas.release import CONFIGS
from tasks.export.compat import PUBLISHED_FEATURES
from tasks.release import shards
from tasks.release.shards import ReleasedImages, feature_schema, features
from tasks.storage.tables import Store
from tests.builders import gathered_rows

FREE = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def rows(store):
    return gathered_rows(store).rows


@pytest.fixture(scope="module")
def images(store):
    return ReleasedImages(store)


@pytest.fixture(scope="module")
def sizes(store):
    """Image -> encoded bytes."""
    return dict(store.read("images", ["image_id", "bytes"]).with_columns(pl.col("bytes").bin.size()).iter_rows())


def _row_bytes(rows, sizes):
    """Of rows of chat: images, messages, and something for the rest."""
    shown = [sum(sizes[each] for each in ids) for ids in rows["image_ids"]]
    said = [sum(len(each["content"].encode()) for each in messages) for messages in rows["conversation"]]
    return [shards.PLAIN_ROW_BYTES + each + texts for each, texts in zip(shown, said, strict=True)]


@pytest.mark.parametrize("config", CONFIGS)
def test_the_same_rows_give_the_same_bytes(rows, images, tmp_path, config):
    one, two = (next(iter(shards.write_shards(config, [rows[config]], images, tmp_path / name))) for name in "ab")
    assert one.read_bytes() == two.read_bytes()


@FREE
@given(limit=st.integers(1, 60_000))
def test_shards_hold_all_rows_in_order_and_keep_their_size(rows, images, sizes, tmp_path_factory, limit):
    chat, folder = rows["chat"], tmp_path_factory.mktemp("shards")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "SHARD_BYTES", limit)
        paths = shards.write_shards("chat", [chat], images, folder)
    count = len(paths)
    assert [p.name for p in paths] == [f"train-{n:05d}-of-{count:05d}.parquet" for n in range(count)]
    held = [pl.read_parquet(path, columns=["conversation_id"])["conversation_id"].to_list() for path in paths]
    assert [each for shard in held for each in shard] == chat["conversation_id"].to_list()
    weight = dict(zip(chat["conversation_id"], _row_bytes(chat, sizes), strict=True))
    weights = [sum(weight[each] for each in shard) for shard in held]
    assert all(total <= limit or len(shard) == 1 for shard, total in zip(held, weights, strict=True))
    assert all(total + weight[after[0]] > limit for total, (_, after) in zip(weights, pairwise(held), strict=False))


@pytest.mark.parametrize("config, columns", [("battle", ["conversation_a", "conversation_b"]), ("bench", ["turns"])])
def test_long_messages_of_any_column_make_shorter_row_groups(rows, images, tmp_path, config, columns):
    """Rows wait in memory until a row group is full, so messages must count, not rows."""
    message = pl.struct(pl.element().struct.field("role"), content=pl.lit("ü" * (shards.ROW_GROUP_BYTES // 5)))
    alike = rows[config].head(1).select(pl.all().repeat_by(8).explode())
    for column in columns:
        longer = alike.with_columns(pl.col(column).list.eval(message))
        (path,) = shards.write_shards(config, [longer], images, tmp_path / column)
        assert pq.ParquetFile(path).num_row_groups >= 4


@pytest.mark.parametrize("config", CONFIGS)
def test_no_rows_are_one_file_with_all_columns(rows, images, tmp_path, config):
    (path,) = shards.write_shards(config, [rows[config][:0]], images, tmp_path)
    assert path.name == "train-00000-of-00001.parquet"
    assert pq.read_schema(path).equals(shards.shard_schema(config))
    assert pq.read_metadata(path).num_rows == 0


def test_rows_show_no_image_one_or_several_in_any_order(store, images, rows, tmp_path):
    stored = dict(store.read("images", ["image_id", "bytes"]).iter_rows())
    one, two = list(stored)[:2]
    ids = [[], [two, one], [], [one, one, two]]
    shown = rows["chat"][:4].with_columns(image_ids=pl.Series(ids, dtype=pl.List(pl.String)))
    (path,) = shards.write_shards("chat", [shown], images, tmp_path)
    written = pq.read_table(path)["images"].to_pylist()
    assert [[each["bytes"] for each in row] for row in written] == [[stored[i] for i in row] for row in ids]
    assert [[each["path"] for each in row] for row in written] == [[f"{i}.png" for i in row] for row in ids]


def test_frames_of_any_size_give_the_same_shards(rows, images, sizes, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "SHARD_BYTES", 5 * max(_row_bytes(rows["chat"], sizes)))
    monkeypatch.setattr(shards, "ROW_GROUP_BYTES", 2 * max(_row_bytes(rows["chat"], sizes)))
    whole = shards.write_shards("chat", [rows["chat"]], images, tmp_path / "whole")
    for size in (1, 2, 3, 7):
        frames = [rows["chat"][:0], *rows["chat"].iter_slices(size), rows["chat"][:0]]
        paths = shards.write_shards("chat", frames, images, tmp_path / str(size))
        assert [path.read_bytes() for path in paths] == [path.read_bytes() for path in whole]
    assert len(whole) > 1


def test_an_image_that_is_not_stored_stops_the_release(rows, images, tmp_path):
    unknown = rows["chat"].with_columns(image_ids=pl.lit(["f" * 32]))
    with pytest.raises(KeyError, match="f" * 32):
        shards.write_shards("chat", [unknown], images, tmp_path)


def test_a_store_elsewhere_gives_the_same_shards(store, rows, images, tmp_path):
    elsewhere = Store(f"memory://{tmp_path.name}/store")
    elsewhere.fs.put(f"{store.root}/tables", f"{elsewhere.path}/tables", recursive=True)
    (here,) = shards.write_shards("chat", [rows["chat"]], images, tmp_path / "here")
    (there,) = shards.write_shards("chat", [rows["chat"]], ReleasedImages(elsewhere), tmp_path / "there")
    assert here.read_bytes() == there.read_bytes()


def test_every_large_image_has_a_page_of_its_own(tmp_path):
    store = image_store(tmp_path / "store", range(12))
    contents = dict(store.read("images", ["image_id", "bytes"]).iter_rows())
    (path,) = shards.write_shards("chat", [chat_rows(range(12))], ReleasedImages(store), tmp_path / "shards")
    written = path.read_bytes()
    places = [(written.index(contents[image_id(n)]), len(contents[image_id(n)])) for n in range(12)]
    between = [start - (before + size) for (before, size), (start, _) in pairwise(places) if size >= 32 * 1024]
    assert len(between) > 6
    assert min(between) > 4  # in one page only the four bytes of a length stand between two images


BEFORE_VERSION_4 = {
    "Value", "ClassLabel", "Translation", "TranslationVariableLanguages", "LargeList", "Sequence", "Array2D",
    "Array3D", "Array4D", "Array5D", "Audio", "Image", "Video", "Pdf",
}  # fmt: skip
"""What `datasets` 3.6 says it knows when it meets another word."""


def _types(described):
    if isinstance(described, list):
        return {name for each in described for name in _types(each)}
    if not isinstance(described, dict):
        return set()
    own = {described["_type"]} if isinstance(described.get("_type"), str) else set()
    return own | {name for each in described.values() for name in _types(each)}


@pytest.mark.parametrize("config", CONFIGS)
def test_a_shard_uses_no_word_that_datasets_before_version_4_does_not_know(release, config):
    (shard,) = shards.shard_files(release, config)
    told = json.loads(pq.read_schema(shard).metadata[b"huggingface"])["info"]["features"]
    assert {"Image", "Value"} <= _types(told) <= BEFORE_VERSION_4
    assert list(told) == pq.read_schema(shard).names


@pytest.mark.parametrize("columns", [features(config) for config in CONFIGS] + list(PUBLISHED_FEATURES.values()))
def test_todays_datasets_reads_the_same_columns_from_it(columns):
    assert Features.from_arrow_schema(feature_schema(columns)) == columns


RESET = Path("/proc/self/clear_refs")


# About 155 MB, whether 1,000 images of 60 kB are written or 12,000.
ROWS, IMAGES_BYTES, GROWTH_MB_MAX = 3_000, 170_000_000, 220
BUILD = f"""
import sys
from pathlib import Path
from benchmarks.release_rows import chat_rows, image_id
from tasks.release import shards
from tasks.storage.tables import Store

def status_mb(name):
    return int(Path("/proc/self/status").read_text().split(f"{{name}}:")[1].split()[0]) // 1024

shards.ROW_GROUP_BYTES, shards.SHARD_BYTES = 4 * 2**20, 40 * 2**20
store, rows = Store(sys.argv[1]), chat_rows(range({ROWS}))
shards.features("chat")  # loads `datasets`, whose memory is no part of what is measured
Path("{RESET}").write_text("5")
before = status_mb("VmRSS")
written = shards.write_shards("chat", [rows], shards.ReleasedImages(store), Path(sys.argv[2]))
print(sum(path.stat().st_size for path in written), status_mb("VmHWM") - before)
"""


@pytest.mark.skipif(not RESET.exists(), reason="only Linux tells and resets a process's peak memory")
def test_memory_does_not_grow_with_the_images(tmp_path):
    """In a process of its own: memory that earlier tests gave back would hide what this one takes."""
    image_store(tmp_path / "store", range(ROWS))
    command = [sys.executable, "-c", BUILD, str(tmp_path / "store"), str(tmp_path / "shards")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    written, growth_mb = map(int, done.stdout.split())
    assert written > IMAGES_BYTES
    assert growth_mb < GROWTH_MB_MAX


TEXT_BYTES, SLICES_MB_MAX = 200_000_000, 300
READ = f"""
import sys
from pathlib import Path
from tasks.storage.tables import Store

def status_mb(name):
    return int(Path("/proc/self/status").read_text().split(f"{{name}}:")[1].split()[0]) // 1024

store = Store(sys.argv[1])
store.parts("rejects"), store.empty("rejects")
Path("{RESET}").write_text("5")
before = status_mb("VmRSS")
read = sum(rows["evidence"].str.len_bytes().sum() for rows in store.read_slices("rejects"))
print(read, status_mb("VmHWM") - before)
"""


@pytest.mark.skipif(not RESET.exists(), reason="only Linux tells and resets a process's peak memory")
def test_memory_does_not_grow_with_the_texts_of_a_part(tmp_path):
    """Messages of many kilobytes each: neither 16,384 rows of them are held nor their column as it lies on the disk."""
    texts = [base64.b64encode(os.urandom(TEXT_BYTES // 16_000 * 3 // 4)).decode() for _ in range(16_000)]
    rows = pl.DataFrame({"source": "a.json", "line": range(16_000), "reason": "not_json", "evidence": texts})
    Store.open(str(tmp_path)).append("rejects", rows)
    done = subprocess.run([sys.executable, "-c", READ, str(tmp_path)], capture_output=True, text=True, check=True)
    read, growth_mb = map(int, done.stdout.split())
    assert read >= TEXT_BYTES
    assert growth_mb < SLICES_MB_MAX
