"""A release takes memory for row groups, slices and a few images, not for all images nor for whole parts."""

import base64
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from benchmarks.release_rows import image_store
from tasks.storage.tables import Store

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
