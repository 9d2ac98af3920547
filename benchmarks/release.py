"""CPU time of writing the shards of a release, compared with a plain pyarrow script that reads the same store."""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.release_rows import chat_rows, image_store
from benchmarks.timing import compare
from tasks.release.shards import ReleasedImages, write_shards

ROWS = 10_000
SHARD_ROWS = 4_000
"""Rows in a shard of the script, about as many as in one of ours."""


def run(count: int = ROWS) -> list[dict[str, Any]]:
    """Seconds to write rows with images of 60 KB from a store."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store, rows = image_store(folder / "store", range(count)), chat_rows(range(count))
        parts = [store.at(f"tables/images/{part}") for part in store.parts("images")]
        return [
            compare(
                "release: shards with 60 KB images",
                count,
                lambda: write_shards("chat", [rows], ReleasedImages(store), folder / "ours"),
                "pyarrow script with default settings",
                lambda: by_script(rows, parts, folder / "theirs"),
            )
        ]


def by_script(rows: pl.DataFrame, parts: Sequence[str], folder: Path) -> None:
    """A plain script; memory holds one shard."""
    folder.mkdir(exist_ok=True)
    held = [pq.read_table(part, columns=["image_id"])["image_id"] for part in parts]
    for number, some in enumerate(rows.iter_slices(SHARD_ROWS)):
        ids = pa.array(some["image_ids"].list.first().to_list())
        wanted = [part for part, there in zip(parts, held, strict=True) if pc.any(pc.is_in(there, ids)).as_py()]
        read = pa.concat_tables(pq.read_table(part, columns=["image_id", "bytes", "format"]) for part in wanted)
        taken = read.take(pc.index_in(ids, read["image_id"])).combine_chunks()
        names = pc.binary_join_element_wise(taken["image_id"], taken["format"], ".").chunk(0)
        shown = pa.StructArray.from_arrays([taken["bytes"].chunk(0), names], ["bytes", "path"])
        images = pa.ListArray.from_arrays(pa.array(range(len(ids) + 1), pa.int32()), shown)
        table = some.drop("image_ids").to_arrow().append_column("images", images)
        pq.write_table(table, folder / f"{number}.parquet")


if __name__ == "__main__":
    run(*map(int, sys.argv[1:]))
