"""Pictures and other files that are plain bytes in a column of a table: their rows are read without the bytes."""

import random
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.ingest.log_files import table_rows
from tests.builders import image_bytes
from tests.tasks.ingest.logs import ingested

MEGABYTE = 1024 * 1024
TALK = [{"role": "user", "content": "What is this?"}, {"role": "assistant", "content": "A cat."}]


def put(folder: Path, rows: list[dict], kind: str) -> Path:
    """A file of these rows; a group of rows of Parquet has eight."""
    folder.mkdir()
    table = pa.Table.from_pylist(rows)
    path = folder / f"rows.{kind}"
    if kind == "parquet":
        pq.write_table(table, path, row_group_size=8)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as out:
            out.write_table(table, max_chunksize=8)
    return path


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_rows_are_read_with_the_beginning_of_their_bytes_alone(tmp_path, kind):
    drawn = random.Random(7)
    rows = [{"n": n, "image": drawn.randbytes(MEGABYTE), "images": [drawn.randbytes(MEGABYTE), None, b"id"]}
            for n in range(64)]  # fmt: skip
    rows += [{"n": 64, "image": None, "images": None}, {"n": 65, "image": b"", "images": []}]
    path = put(tmp_path / "data", rows, kind)
    del rows
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    read, most_allocated = [], 0
    for row in table_rows(path, image_bytes=False):
        read.append(row)
        most_allocated = max(most_allocated, pa.total_allocated_bytes() - before)
    of_python = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [row["n"] for row in read] == list(range(66))
    assert [len(row["image"]) for row in read[:64]] == [64] * 64
    assert [[value and len(value) for value in row["images"]] for row in read[:64]] == [[64, None, 2]] * 64
    assert (read[64]["image"], read[64]["images"], read[65]["image"], read[65]["images"]) == (None, None, b"", [])
    assert of_python < 4 * MEGABYTE
    assert most_allocated < 100 * MEGABYTE


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_pictures_that_are_plain_bytes_are_taken_in_whole(tmp_path, kind):
    rows = [{"messages": TALK, "images": [image_bytes(n), image_bytes(n + 20)]} for n in range(20)]
    store = ingested(put(tmp_path / "data", rows, kind).parent, tmp_path / "store")
    assert store.read("conversations")["image_problems"].to_list() == [[]] * 20
    assert store.height("images") == 40
