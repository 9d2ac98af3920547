"""Files of a release: checksums, manifest with seal, staging folder, and the move into place."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fsspec.implementations.local import LocalFileSystem

from schemas.errors import BadInput, ReleaseConflict
from schemas.release import Manifest, ReleasedFile
from tasks.runtime.parallel import map_ordered
from tasks.storage.tables import Store

MANIFEST = "manifest.json"
WITHDRAWN = "withdrawn.json"
"""Marks a release whose data a takedown removed; it is beside the manifest."""
_VERSION_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_")


def checked_version(version: str) -> str:
    """The version, if it is valid as a folder name on every system. Raises BadInput otherwise."""
    if not version or len(version) > 40 or not set(version) <= _VERSION_LETTERS or version.startswith((".", "-")):
        raise BadInput(f"release version {version!r}: use letters, digits, dots, dashes and underscores, such as 1.2.0")
    return version


def released_files(folder: Path) -> dict[str, ReleasedFile]:
    """Relative path -> size and checksum, of every file below a folder except the manifest."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / MANIFEST)
    described = map_ordered(_described, files, min(4, os.cpu_count() or 1))
    return {path.relative_to(folder).as_posix(): file for path, file in zip(files, described, strict=True)}


def _described(path: Path) -> ReleasedFile:
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return ReleasedFile(bytes=path.stat().st_size, sha256=digest)


def write_manifest(manifest: Manifest, folder: Path) -> None:
    """Write the manifest with its seal, indented and with sorted keys."""
    values = manifest.model_dump(mode="json")
    content = json.dumps(values | {"seal": seal(values)}, indent=2, sort_keys=True, ensure_ascii=False)
    (folder / MANIFEST).write_text(content + "\n", encoding="utf-8")


def seal(manifest: Mapping[str, Any]) -> str:
    """SHA-256 of a manifest without its seal; key order and white space do not matter."""
    rest = {name: value for name, value in manifest.items() if name != "seal"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def staging_folder(store: Store) -> Path:
    """The folder in which releases of the store are built; always the same, so leftovers of a killed build are found.

    For a local store it is on the same disk, so that moving the release into place is a rename.
    """
    if isinstance(store.fs, LocalFileSystem):
        return Path(store.at("releases/.building"))
    named = hashlib.sha256(f"{os.getuid()} {store.root.rstrip('/')}".encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"release-{named}"


def place(store: Store, staging: Path, version: str, chosen_by_user: bool) -> tuple[str, bool]:
    """Move a sealed staging folder to `releases/<version>`. Returns the version it got, and whether it is new.

    If the version exists with the same content, nothing is moved. If it exists with other content, a version chosen by
    the user raises ReleaseConflict; a default version gets the next free suffix (`.1`, `.2`, …).
    """
    sealed = json.loads((staging / MANIFEST).read_text(encoding="utf-8"))
    number = 0
    while True:
        candidate = version if number == 0 else f"{version}.{number}"
        existing = store.read_bytes(f"releases/{candidate}/{MANIFEST}")
        if existing is None:
            break
        if _same_content(json.loads(existing), sealed):
            shutil.rmtree(staging)
            return candidate, False
        if chosen_by_user:
            raise ReleaseConflict(
                f"release {version!r} exists with other content; releases are never edited, choose another version"
            )
        number += 1
    if candidate != version:
        _rename(staging, sealed, candidate)
    _move(store, staging, f"releases/{candidate}")
    return candidate, True


def _same_content(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Whether two manifests have the same rows and policy; versions may differ."""

    def rows(manifest: Mapping[str, Any]) -> dict[str, str]:
        return {path: file["sha256"] for path, file in manifest["files"].items() if path.endswith(".parquet")}

    return rows(a) == rows(b) and a["policy_hash"] == b["policy_hash"]


def _rename(staging: Path, sealed: Mapping[str, Any], version: str) -> None:
    card = staging / "README.md"
    card.write_text(
        card.read_text(encoding="utf-8").replace(f"Version {sealed['version']} ", f"Version {version} ", 1),
        encoding="utf-8",
    )
    manifest = Manifest.model_validate({**sealed, "version": version})
    write_manifest(manifest.model_copy(update={"files": released_files(staging)}), staging)


def _move(store: Store, staging: Path, target: str) -> None:
    """Rename on a local disk; on an object store copy with the manifest last."""
    if store.fs.exists(store.at(target)):  # left by a killed copy: it has no manifest
        store.fs.rm(store.at(target), recursive=True)
    if isinstance(store.fs, LocalFileSystem):
        staging.rename(store.at(target))
        return
    for path in sorted(staging.rglob("*"), key=lambda path: path.name == MANIFEST):
        if path.is_file():
            store.require_held()
            store.fs.put_file(str(path), store.at(f"{target}/{path.relative_to(staging).as_posix()}"))
    shutil.rmtree(staging)
