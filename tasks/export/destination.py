"""The place of an export: a folder or an address such as s3://bucket/exports/sft, and the store's record of it.

The record lets a takedown name the export: one file each, `exported/….json`, written before the export, so that none is
missed. One file for each lets several export at the same time, also while a run writes to the store. A later export to
the same place replaces the record.
"""

import hashlib
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem
from pydantic import ValidationError

from schemas.errors import BadInput, StoreUnwell, why_unreadable
from schemas.publication import Exported, ExportKind
from schemas.upkeep import Audited
from tasks.release.fetched import is_remote
from tasks.storage.records import add_audit_entry
from tasks.storage.tables import Store

_LAST = ("README.md", "train.jsonl", "train.json", "train.parquet", "test.jsonl", "test.parquet")
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
            target = f"{place}/{path.relative_to(folder).as_posix()}"
            if isinstance(fs, LocalFileSystem):  # elsewhere it would create a bucket when the name is misspelt
                fs.makedirs(target.rpartition("/")[0], exist_ok=True)
            fs.put_file(str(path), target)


def write_option_file(option: str, file: Path, text: str) -> None:
    """Write the text file that an option such as --out names; an earlier one is replaced.

    Raises BadInput when it cannot be written.
    """
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{option} {str(file)!r} cannot be written ({error.strerror}); give another file") from None


def _opened(out: str) -> tuple[Any, str]:
    try:
        fs, place = fsspec.core.url_to_fs(out.rstrip("/"))
        is_taken = fs.exists(place)
    except Exception as error:  # every object store has its own errors
        raise _unwritable(out, error) from None
    if is_taken:
        raise BadInput(f"{out!r} exists already; give a folder that does not")
    return fs, str(place)


def _unwritable(out: str, error: Exception) -> BadInput:
    return BadInput(f"--out {out!r} cannot be written ({why_unreadable(error)}); check the address and the credentials")


_FOLDER = "exported"


def record_export(store: Store | None, out: str, kind: ExportKind, version: str, part: bool, now: datetime) -> None:
    """Record that an export will be at `out`; a release outside of a store (None) has no record.

    Raises StoreUnwell when the record cannot be written.
    """
    is_backup, remote, local = kind is ExportKind.BACKUP, is_remote(out), Path(out)
    is_taken = not remote and (local.is_file() or (local.is_dir() and any(local.iterdir())))
    if store is None or (is_taken and not is_backup):  # every export refuses a folder that holds something
        return
    place, machine = (out.rstrip("/"), "") if remote else (str(Path(out).resolve()), socket.gethostname())
    row = Exported(place=place, machine=machine, kind=kind, version=version, part=part, exported_at=now)
    add_audit_entry(store, Audited.BACKED_UP if is_backup else Audited.EXPORTED, {kind.value: 1}, version)
    try:
        store.write_bytes(record_name(place, machine), row.model_dump_json(indent=2).encode())
    except Exception as error:  # every object store has its own errors
        raise StoreUnwell(
            f"store {store.root!r} cannot be written to ({why_unreadable(error)}), and it keeps the record of exports, "
            "which a takedown needs; mend that, or export a copy of the release that is outside of a store"
        ) from None


def exports(store: Store) -> Iterator[Exported]:
    """All exports on record, by place.

    Raises StoreUnwell for a record that cannot be read.
    """
    store.fs.invalidate_cache()
    records = []
    for path in store.fs.find(store.at(_FOLDER)):
        relative = path.removeprefix(f"{store.path}/")
        content = store.read_bytes(relative) if path.endswith(".json") else None
        if content is None:  # the temporary file of a killed writer
            continue
        try:
            records.append(Exported.model_validate_json(content))
        except ValidationError:
            raise StoreUnwell(
                f"store {store.root!r} is damaged: {relative!r} cannot be read, which says where an export is; put a "
                "copy of it in its place, or remove the file if that export is deleted"
            ) from None
    yield from sorted(records, key=lambda row: (row.machine, row.place))


def record_name(place: str, machine: str) -> str:
    """The record of an export, as a path in the store."""
    return f"{_FOLDER}/{hashlib.sha256(f'{machine} {place}'.encode()).hexdigest()[:16]}.json"


def is_moved(row: Exported) -> bool:
    """Whether the folder of an export was on this machine and is not there any more."""
    return row.machine == socket.gethostname() and not Path(row.place).exists()
