"""A backup of a store: a folder of files named by their content, and the list of what they were.

The list is written last, in one step, so that a folder that held a backup holds a whole one at any time. It is no
store: nothing is released from it before it is restored, and with that taken down what was taken down since.

A run may write meanwhile. All small files of the store, with the lists of parts among them, are read twice; where both
are equal, they are of one moment. Parts and released files never change. Where one is gone before it was copied, the
next moment is taken.
"""

import hashlib
import json
import re
import secrets
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import polars as pl
from fsspec.implementations.local import LocalFileSystem
from pydantic import ValidationError

from schemas.errors import BadInput, StoreBusy, StoreUnwell, why_unreadable
from schemas.items.review import Review
from schemas.publication import ExportKind
from schemas.tables import TABLES
from schemas.upkeep import BackedUpFile, Backup
from tasks.export.destination import record_export
from tasks.runtime.progress import progress
from tasks.storage.keyed_ids import KEYS_FOLDER, UNFINISHED, write_secret
from tasks.storage.layout import tables_in
from tasks.storage.reviews import add_reviews
from tasks.storage.tables import Store

BACKUP_LIST = "backup.json"
_ID = "backup/id"
"""File of a store with its own id, which says whose backup a folder holds."""
_SMALL = (
    "audit", "backup", "batches", "boards", "exported", "ingest", "policies", "published", "reviews", "runs", "secret",
    "takedown",
)  # fmt: skip
"""Folders of a store with small files, which may change."""
_MADE_AGAIN = {"canaries", "exports", ".prefect", "writing.lock", "writing.since", "writing.probe"}
_HALF = (".tmp", ".half")
_GROWING = ("audit/", "batches/", "exported/", "published/", "reviews/", "takedown/2")
"""Small files that are only ever added, or that say what is outside of the store."""
_PART = re.compile(r"tables/(.+)/([0-9a-f]{12})[0-9a-f]{8}(?:-\d+-\d+)?\.parquet")
_OURS = re.compile(rf"{BACKUP_LIST}|(?:files/[0-9a-f]{{2}}/|{KEYS_FOLDER})[0-9a-f]{{64}}(?:\.\d+\.tmp)?")
"""Paths in a folder of a backup; no other file is deleted."""
_TRIES, _PAUSE_SECONDS = 100, 0.2


class _Moved(Exception):
    """A part or released file of the moment is gone."""


def back_up(store: Store, folder: Store, now: datetime) -> Backup:
    """Copy a store to `folder`, where an earlier backup of it may be: what is there already is not read again.

    Raises BadInput for a folder with anything else, StoreBusy when a run does not stand still for a moment, and
    StoreUnwell for a damaged part. The earlier backup stays as it was until the new one is whole.
    """
    before, own_id = _earlier(folder), _id_of(store)
    if before is not None and before.store_id != own_id:
        raise BadInput(f"{folder.root!r} holds a backup of another store; give each store a folder of its own")
    paths_there = _paths_in(folder)
    if foreign_paths := sorted(path for path in paths_there if not _OURS.fullmatch(path)):
        raise BadInput(f"{folder.root!r} holds {foreign_paths[0]!r}, which no backup wrote; give a folder of its own")
    record_export(store, folder.root, ExportKind.BACKUP, "", False, now)
    if isinstance(folder.fs, LocalFileSystem):
        Path(folder.path).mkdir(mode=0o700, parents=True, exist_ok=True)
    earlier_files = before.files if before else {}
    kept_files, lost_path = {name: file for name, file in earlier_files.items() if file.place in paths_there}, ""
    while True:
        try:
            files = dict(_files(store, folder, kept_files))
            break
        except _Moved as moved:
            if lost_path == str(moved):
                raise StoreUnwell(
                    f"store {store.root!r} is damaged: {lost_path!r} is lost; an earlier backup stays as it was. "
                    "`curate doctor --store` says what to do"
                ) from None
            lost_path = str(moved)
    backup = Backup(store_id=own_id, made_at=now, files=files)
    folder.write_bytes(BACKUP_LIST, backup.model_dump_json(indent=1).encode())
    # Also what was taken down since, before or while it was copied.
    for path in _paths_in(folder) - {BACKUP_LIST} - {file.place for file in files.values()}:
        if _OURS.fullmatch(path):
            folder.fs.rm_file(folder.at(path))
    return backup


def _paths_in(folder: Store) -> set[str]:
    """Paths of all files in a folder, relative to it; none where it does not exist."""
    folder.fs.invalidate_cache()
    return {path.removeprefix(f"{folder.path}/") for path in folder.fs.find(folder.path)}


def left_out(store: Store) -> list[str]:
    """Names in the store's folder that are no part of a store, such as logs; no backup has them."""
    names = {path.rstrip("/").rpartition("/")[2] for path in store.fs.ls(store.path, detail=False)}
    return sorted(names - {*_SMALL, "tables", "releases"} - _MADE_AGAIN)


class BackedUp(Store):
    """A backup's files under their names in the store; to read as bytes."""

    def __init__(self, folder: Store) -> None:
        """Raises BadInput when the folder holds no backup."""
        if (backup := _earlier(folder)) is None:
            raise BadInput(f"{folder.root!r} holds no backup; `curate backup DIR` makes one")
        super().__init__(folder.root)
        self.backup = backup

    def read_bytes(self, relative: str) -> bytes | None:
        """Content of a file. Raises StoreUnwell when it is not as it was written."""
        if (file := self.backup.files.get(relative)) is None:
            return None
        content = super().read_bytes(file.place)
        if content is None or hashlib.sha256(content).hexdigest() != file.sha256:
            raise StoreUnwell(
                f"the backup {self.root!r} is damaged: {file.place!r}, which was {relative!r} of the store, is not as "
                "it was written; what was restored so far is no whole store. Take another backup"
            )
        return content


def restore(stored: BackedUp, store: Store, since: Store | None) -> None:
    """Write the files of a backup to `store`: tombstones first, the lists of other parts last.

    `since` is the store as it last was, whose later tombstones, verdicts of people and records go to the new one, too.
    What they take down is left to be finished, and until then nothing is released.
    """
    unfinished_takedown = stored.read_bytes(UNFINISHED)
    begun_takedown = json.loads(unfinished_takedown or b"{}")
    later_tombstones = json.loads(since.read("takedowns").write_json()) if since else []
    rows = {row["key"]: row for row in [*json.loads(begun_takedown.get("tombstones", "[]")), *later_tombstones]}
    store.write_bytes(UNFINISHED, json.dumps(begun_takedown | {"tombstones": json.dumps([*rows.values()])}).encode())
    ordered_names = sorted(
        stored.backup.files.keys() - {UNFINISHED}, key=lambda name: (name.endswith("parts.json"), name)
    )
    names = sorted(ordered_names, key=lambda name: not name.startswith("tables/takedowns/"))
    with progress("files restored", len(names)) as advance:
        for name in names:
            (write_secret if name.startswith(KEYS_FOLDER) else Store.write_bytes)(
                store, name, stored.read_bytes(name) or b""
            )
            advance()
    for name, content in _small_files(since) if since else ():
        if name.startswith(_GROWING):
            store.write_bytes(name, content)
    if since is not None:
        _take_along_what_people_said(since, store)
    if unfinished_takedown is None and (since is None or since.parts("takedowns") == store.parts("takedowns")):
        store.fs.rm_file(store.at(UNFINISHED))


def _take_along_what_people_said(since: Store, store: Store) -> None:
    """Verdicts, and the references that people write beside them, on conversations that the restored store has."""
    known_conversations = store.read("conversations", ["conversation_id"])

    def later_rows(table: str) -> pl.DataFrame:
        return since.read(table).join(known_conversations, "conversation_id", how="semi")

    if since.parts("reviews") != store.parts("reviews"):
        add_reviews(store, [Review.model_validate(row) for row in later_rows("reviews").iter_rows(named=True)])
    if since.parts("case_references") != store.parts("case_references"):
        store.replace("case_references", later_rows("case_references"))


def require_empty(store: Store) -> None:
    """Raises BadInput when a folder for a restored store holds something."""
    if store.fs.exists(store.path) and (store.fs.isfile(store.path) or store.fs.ls(store.path)):
        raise BadInput(f"{store.root!r} is not empty; give a new folder for the restored store")


def _earlier(folder: Store) -> Backup | None:
    """The list in a folder; None for an empty folder. Raises BadInput for a folder with anything else."""
    try:
        content = folder.read_bytes(BACKUP_LIST)
        paths = folder.fs.ls(folder.path, detail=False) if folder.fs.exists(folder.path) else []
        if content is None and {path.rpartition("/")[2] for path in paths} - {"files", "secret"}:  # of a killed backup
            raise BadInput(f"{folder.root!r} is not empty and holds no backup; give a new folder, or one with a backup")
        return None if content is None else Backup.model_validate_json(content)
    except OSError as error:
        raise BadInput(f"{folder.root!r} cannot be read ({why_unreadable(error)}); give another folder") from None
    except ValidationError:
        raise BadInput(
            f"{folder.at(BACKUP_LIST)!r} is no list of a backup that this version knows; give another folder"
        ) from None


def _id_of(store: Store) -> str:
    if (id_bytes := store.read_bytes(_ID)) is None:
        id_bytes = secrets.token_hex(16).encode()
        store.write_bytes(_ID, id_bytes)
    return id_bytes.decode()


def store_id(store: Store) -> str:
    """A store's id; empty for one that was never backed up."""
    return (store.read_bytes(_ID) or b"").decode()


def _files(store: Store, folder: Store, kept: dict[str, BackedUpFile]) -> Iterator[tuple[str, BackedUpFile]]:
    """The files of one moment, each in the folder when it is given out; large ones go to `kept`.

    Raises _Moved, and StoreUnwell for a table whose list of parts is lost.
    """
    small = _moment(store)
    for table in tables_in(store):
        if f"tables/{table}/parts.json" not in small:
            store.parts(table)
    yield from ((name, _keep(folder, name, content)) for name, content in small.items())
    large = [*_listed_parts(small), *_released(store, small)]
    with progress("files backed up", len(large)) as advance:
        for name in large:
            if name not in kept:
                kept[name] = _keep(folder, name, _unchanged(store, name))
            yield name, kept[name]
            advance()


def _moment(store: Store) -> dict[str, bytes]:
    """Content of all small files at one moment."""
    last_files = dict[str, bytes]()
    for number in range(_TRIES):
        files_now = dict(_small_files(store))
        if files_now and files_now == last_files:
            return files_now
        last_files = files_now
        time.sleep(_PAUSE_SECONDS * (number % 5 == 4))
    raise StoreBusy(f"a run changes store {store.root!r} all the time; back it up when that has ended")


def _small_files(store: Store) -> Iterator[tuple[str, bytes]]:
    store.fs.invalidate_cache()
    paths = (path for top in _SMALL for path in store.fs.find(store.at(top)))
    manifests = (
        path for kind in ("manifest", "withdrawn") for path in store.fs.glob(store.at(f"releases/*/{kind}.json"))
    )
    names = [path.removeprefix(f"{store.path}/") for path in (*paths, *manifests) if not path.endswith(_HALF)]
    tops = (store.at(top) for top in ("tables", "tables/signals"))
    folders = [
        path for top in tops for path in store.fs.find(top, maxdepth=1, withdirs=True) if "." not in path[len(top) :]
    ]
    tables = {*TABLES, *(path.removeprefix(store.at("tables/")) for path in folders)}
    for name in ["tables/layout.json", *(f"tables/{table}/parts.json" for table in sorted(tables)), *names]:
        if (content := store.read_bytes(name)) is not None:
            yield name, content


def _listed_parts(small: dict[str, bytes]) -> Iterator[str]:
    for name, content in small.items():
        if name.startswith("tables/") and name.endswith("/parts.json"):
            yield from (f"{name.removesuffix('parts.json')}{part}" for part in json.loads(content))


def _released(store: Store, small: dict[str, bytes]) -> Iterator[str]:
    """Files of releases that have a manifest, without it."""
    for name in small:
        if name.startswith("releases/") and name.endswith("/manifest.json"):
            paths = store.fs.find(store.at(name.removesuffix("/manifest.json")))
            yield from sorted({path.removeprefix(f"{store.path}/") for path in paths} - small.keys())


def _unchanged(store: Store, name: str) -> bytes:
    """Content of a part or released file. Raises _Moved when it is gone, and StoreUnwell when a part is damaged."""
    try:
        content = store.fs.cat_file(store.at(name))
    except FileNotFoundError:
        raise _Moved(name) from None
    part = _PART.fullmatch(name)
    if part and hashlib.blake2b(content, digest_size=6).hexdigest() != part[2]:
        raise StoreUnwell(
            f"store {store.root!r} is damaged: a part of table {part[1]!r} has other bytes than were written; an "
            "earlier backup stays as it was. `curate doctor --store` says what to do"
        )
    return bytes(content)


def _keep(folder: Store, name: str, content: bytes) -> BackedUpFile:
    """Write a file to the folder unless it is there; keys have a folder of their own, to be kept elsewhere."""
    digest = hashlib.sha256(content).hexdigest()
    place = f"{KEYS_FOLDER}{digest}" if name.startswith(KEYS_FOLDER) else f"files/{digest[:2]}/{digest}"
    if not folder.fs.exists(folder.at(place)):
        (write_secret if name.startswith(KEYS_FOLDER) else Store.write_bytes)(folder, place, content)
    return BackedUpFile(place=place, sha256=digest, size_bytes=len(content))
