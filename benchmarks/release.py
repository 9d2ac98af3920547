"""Building the shards of a release, as `curate release` does, beside pyarrow and plain writes of the same bytes.

`python -m benchmarks.release [ROWS] [--fsync]`: `--fsync` counts the time until every byte is on the disk of `TMPDIR`.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq

from benchmarks.release_by_script import by_script
from benchmarks.release_rows import chat_rows, picture_store
from benchmarks.timing import compare_all
from tasks.release.picture_places import PicturePlaces
from tasks.release.shards import write_shards
from tasks.tables import Store

ROWS = 10_000
BENCH = "release: shards with 60 KB pictures"
_WRITE_BYTES = 1024 * 1024
"""Of the raw write at a time: the disk of the measurements took 3 GB in writes of 256 MB at half the speed."""
Work = Callable[[Path], object]


def run(count: int = ROWS, fsync: bool = False) -> list[dict[str, Any]]:
    """Seconds to write rows whose pictures lie in a store's parts, and of peers: from memory, and from the store."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store, rows = picture_store(folder / "store", range(count)), chat_rows(range(count))
        parts = [store.local_part("images", part) or "" for part in store.parts("images")]
        alone = rows.with_columns(conversation=rows["conversation"].list.head(0))
        return [
            row
            for bench, some in ((BENCH, rows), (f"{BENCH}, no text", alone))
            for row in _beside(bench, some, store, parts, folder / "written", fsync)
        ]


def _ours(store: Store, rows: pl.DataFrame, folder: Path) -> list[Path]:
    with PicturePlaces(store) as images:
        return write_shards("chat", [rows], images, folder)


def _beside(
    bench: str, rows: pl.DataFrame, store: Store, parts: list[str], folder: Path, fsync: bool
) -> list[dict[str, Any]]:
    """Memory holds one shard: peers write it as often as there are shards, and of it as much as the last one has."""
    shards = _ours(store, rows, folder)
    sizes, counts = zip(*((path.stat().st_size, pq.read_metadata(path).num_rows) for path in shards), strict=True)
    table, content = pq.read_table(shards[0]), memoryview(shards[0].read_bytes())

    def tables(folder: Path, **options: Any) -> None:
        for number, count in enumerate(counts):
            pq.write_table(table[:count], folder / str(number), **options)

    def raw(folder: Path) -> None:
        for number, size in enumerate(sizes):
            with (folder / str(number)).open("wb", buffering=0) as file:
                for start in range(0, size, _WRITE_BYTES):
                    at = start % (len(content) - _WRITE_BYTES)
                    file.write(content[at : at + min(_WRITE_BYTES, size - start)])

    def copied(folder: Path) -> None:
        for number, part in enumerate(parts):
            shutil.copyfile(part, folder / str(number))

    def into(work: Work) -> Callable[[], None]:
        return lambda: _written(work, folder, fsync)

    peers: dict[str, Work] = {
        "pyarrow defaults, from memory": tables,
        "pyarrow, content-defined chunking, from memory": lambda to: tables(to, use_content_defined_chunking=True),
        "raw write of the same bytes, from memory": raw,
        "pyarrow defaults, from the store": lambda to: by_script(rows, parts, to, counts[0]),
        "copy of the parts that hold the pictures": copied,
    }
    ours = into(lambda to: _ours(store, rows, to))
    named = {name: into(work) for name, work in peers.items()}
    return compare_all(bench, rows.height, ours, named, before=lambda: _emptied(folder, fsync), fsync=fsync)


def _emptied(folder: Path, fsync: bool) -> None:
    """An empty folder; with `fsync`, nothing of other work waits to be written to the disk."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    if fsync:
        os.sync()


def _written(work: Work, folder: Path, fsync: bool) -> None:
    work(folder)
    for path in folder.iterdir() if fsync else ():
        with path.open("rb") as file:
            os.fsync(file.fileno())


if __name__ == "__main__":
    run(*map(int, [each for each in sys.argv[1:] if each != "--fsync"]), fsync="--fsync" in sys.argv)
