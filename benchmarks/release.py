"""Building the shards of a release, as `curate release` does, beside pyarrow's defaults and a raw write."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.release_rows import chat_rows, picture_store
from benchmarks.timing import compare
from tasks.release.picture_places import PicturePlaces
from tasks.release.shards import write_shards

ROWS = 10_000
BENCH = "release: shards with 60 KB pictures"


def run() -> list[dict[str, Any]]:
    """Seconds to write rows whose pictures lie in a store's parts, and the same rows from memory by peers."""
    with tempfile.TemporaryDirectory() as name:
        store = picture_store(Path(name) / "store", range(ROWS))
        rows = chat_rows(range(ROWS))
        alone = rows.with_columns(conversation=rows["conversation"].list.head(0))
        with PicturePlaces(store) as images:
            return [*_beside(rows, images, Path(name), BENCH), *_beside(alone, images, Path(name), f"{BENCH}, no text")]


def _beside(rows: pl.DataFrame, images: PicturePlaces, folder: Path, bench: str) -> list[dict[str, Any]]:
    def ours() -> list[Path]:
        shutil.rmtree(folder / "ours", ignore_errors=True)
        return write_shards("chat", [rows], images, folder / "ours")

    shards = ours()
    tables = [pq.read_table(path) for path in shards]
    content = [path.read_bytes() for path in shards]
    peers: dict[str, Callable[[], None]] = {
        "pyarrow defaults": lambda: _parquet(folder, tables),
        "pyarrow, content-defined chunking": lambda: _parquet(folder, tables, chunked=True),
        "raw write of the same bytes": lambda: _raw(folder, content),
    }
    return [compare(bench, rows.height, ours, peer, theirs) for peer, theirs in peers.items()]


def _parquet(folder: Path, tables: list[pa.Table], chunked: bool = False) -> None:
    for number, table in enumerate(tables):
        path = folder / f"peer-{number}"
        path.unlink(missing_ok=True)
        pq.write_table(table, path, use_content_defined_chunking=chunked)


def _raw(folder: Path, content: list[bytes]) -> None:
    for number, each in enumerate(content):
        path = folder / f"peer-{number}"
        path.unlink(missing_ok=True)
        path.write_bytes(each)
