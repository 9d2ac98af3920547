"""Writes an export to a folder or to an address such as s3://bucket/exports/sft."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from schemas.errors import BadInput, why_unreadable
from tasks.release.fetched import is_remote

_LAST = ("README.md", "train.jsonl", "train.json", "train.parquet")
"""Files that are copied last: an export without them is recognisably incomplete."""


@contextmanager
def destination(out: str) -> Iterator[Path]:
    """Yields a local folder to create; at the end of the block it is at `out`. Raises BadInput when `out` exists."""
    if not is_remote(out):
        yield Path(out)
        return
    fs, place = _opened(out)
    with tempfile.TemporaryDirectory(prefix="export-") as scratch:
        folder = Path(scratch) / "export"
        yield folder
        try:
            put_folder(folder, fs, place)
        except Exception as error:  # every object store has its own errors
            raise _unwritable(out, error) from None


def put_folder(folder: Path, fs: Any, place: str) -> None:
    """Copy all files of a local folder to `place` of a file system; card and training data are copied last."""
    for path in sorted(folder.rglob("*"), key=lambda path: path.name in _LAST):
        if path.is_file():
            written = f"{place}/{path.relative_to(folder).as_posix()}"
            if isinstance(fs, LocalFileSystem):  # elsewhere it would create a bucket when the name is misspelt
                fs.makedirs(written.rpartition("/")[0], exist_ok=True)
            fs.put_file(str(path), written)


def _opened(out: str) -> tuple[Any, str]:
    try:
        fs, place = fsspec.core.url_to_fs(out.rstrip("/"))
        taken = fs.exists(place)
    except Exception as error:  # every object store has its own errors
        raise _unwritable(out, error) from None
    if taken:
        raise BadInput(f"{out!r} exists already; give a folder that does not")
    return fs, str(place)


def _unwritable(out: str, error: Exception) -> BadInput:
    return BadInput(f"--out {out!r} cannot be written ({why_unreadable(error)}); check the address and the credentials")
