"""Building the shards of a release, as `curate release` does, beside pyarrow's defaults and a raw write."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.release_rows import chat_rows, picture_id, picture_store
from benchmarks.timing import compare
from tasks.release.shards import write_shards
from tasks.release.spool import SpooledImages

ROWS = 10_000
BENCH = "release: shards with 60 KB pictures"


def run() -> list[dict[str, Any]]:
    """Seconds to write the same rows from memory that is warm, on the disk of `TMPDIR`."""
    with tempfile.TemporaryDirectory() as name:
        folder, rows = Path(name), chat_rows(range(ROWS))
        store = picture_store(folder / "store", range(ROWS))
        with SpooledImages(store, set(map(picture_id, range(ROWS)))) as images:
            shutil.rmtree(folder / "store")
            shards = write_shards("chat", rows, images, folder / "ours")
            tables = [pq.read_table(path) for path in shards]
            content = [path.read_bytes() for path in shards]

            def ours() -> None:
                shutil.rmtree(folder / "ours")
                write_shards("chat", rows, images, folder / "ours")

            return [
                compare(BENCH, ROWS, ours, "pyarrow defaults", lambda: _parquet(folder, tables)),
                compare(
                    BENCH,
                    ROWS,
                    ours,
                    "pyarrow, content-defined chunking",
                    lambda: _parquet(folder, tables, chunked=True),
                ),
                compare(BENCH, ROWS, ours, "raw write of the same bytes", lambda: _raw(folder, content)),
            ]


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
