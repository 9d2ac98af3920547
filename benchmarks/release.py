"""Building the shards of a release, as `curate release` does, beside pyarrow's defaults and a raw write."""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.release_rows import chat_rows, picture_id, picture_store
from benchmarks.timing import compare
from tasks.release.shards import write_shards
from tasks.release.spool import SpooledImages

ROWS, MEMORY_ROWS = 10_000, (5_000, 20_000)
BENCH = "release: shards with 60 KB pictures"


def run() -> list[dict[str, Any]]:
    """Seconds to write the same rows from memory that is warm, on the disk of `TMPDIR`; then memory at two sizes."""
    return [*_speed(), *(_memory(rows) for rows in MEMORY_ROWS)]


def _speed() -> list[dict[str, Any]]:
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


def _memory(rows: int) -> dict[str, Any]:
    """Peak memory of a process that spools pictures and writes shards, and of one that reads the pictures only."""
    with tempfile.TemporaryDirectory() as name:
        picture_store(Path(name) / "store", range(rows))
        peaks = [_peak(Path(name), count) for count in (0, rows)]
    row = {"bench": "release: peak memory of a build", "n": rows, "peak_mb": peaks[1], "reading_only_mb": peaks[0]}
    print(json.dumps(row), flush=True)
    return row


def _peak(folder: Path, rows: int) -> int:
    code = f"from benchmarks.release import build; build({str(folder)!r}, {rows})"
    return int(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)


def build(folder: str, rows: int) -> None:
    """Spool and write the first rows of a store; print the peak memory of this process in MB."""
    from tasks.tables import Store

    numbers = range(rows)
    with SpooledImages(Store(f"{folder}/store"), set(map(picture_id, numbers)) if rows else set()) as images:
        if rows:
            write_shards("chat", chat_rows(numbers), images, Path(folder) / "shards")
    status = Path("/proc/self/status").read_text()  # getrusage would count the process that started this one
    print(int(status.split("VmHWM:")[1].split()[0]) // 1024)
