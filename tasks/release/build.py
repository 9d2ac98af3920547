"""Files of a release: names, checksums, manifest with seal, staging folder, and the move into place.

A release is sealed before the pages of an explorer are made that may be published beside it, in `explorer/`, so the
manifest does not list them. They have a list of their own, which names the manifest that they were made from.
"""

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

from fsspec.implementations.local import LocalFileSystem
from pydantic import ValidationError

from schemas.errors import BadInput, ReleaseConflict
from schemas.release import CONFIGS, Manifest, ReleasedFile, SiteFiles
from tasks.release.registered import RUNNERS, StatedFile, table_paths
from tasks.runtime.parallel import map_ordered
from tasks.storage.queries.released import attempt_of_day
from tasks.storage.records import record_paths
from tasks.storage.tables import Store

MANIFEST = "manifest.json"
WITHDRAWN = "withdrawn.json"
"""Marks a release whose data a takedown or retention removed; it is beside the manifest."""
CARD = "README.md"
CROISSANT, CITATION, DATA = "croissant.json", "CITATION.cff", "DATA.md"
MANIFEST_DIGITS = 12
"""Hex digits of the manifest's checksum that are shown to people."""
_FILE = re.compile(
    "|".join(
        [
            *table_paths(),
            *map(re.escape, [*RUNNERS, CARD, CROISSANT, CITATION, DATA, MANIFEST]),
            r"leaderboard/certificate\.(?:json|html)",
            r"report/index\.html|report/(?:figures/[\w-]+\.svg|tables/[\w-]+\.csv)",
        ]
    )
)
_AT_ONCE = 8
"""Files that are fetched from an object store, or placed there, at a time."""
SITE = "explorer"
FILE_LIST = f"{SITE}/files.json"
_SITE_FILE = re.compile(rf"{SITE}/(?:(?:data|images|items|static|thumbs)/)?[\w-][\w.-]*")
_ADDED_BY_THE_HUB = re.compile(r"\.gitattributes|\.cache(?:/huggingface(?:/.+)?)?")
"""Files that the Hub and `hf download --local-dir` add. They are ignored and never published."""
_DEVICE = re.compile(r"con|prn|aux|nul|(?:com|lpt)\d", re.IGNORECASE)
"""Names of devices, which no folder of Windows may have."""
_VERSION_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_")


def checked_version(version: str) -> str:
    """The version, if it is valid as a folder name on every system. Raises BadInput otherwise."""
    is_spelt = set(version) <= _VERSION_LETTERS and not version.startswith((".", "-")) and not version.endswith(".")
    if not is_spelt or not 0 < len(version) <= 40 or _DEVICE.fullmatch(version.partition(".")[0]):
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


def sealed_manifest(manifest: Manifest, folder: Path, stated: Iterable[StatedFile]) -> Manifest:
    """Write the `stated` files and the manifest with the checksums of all files. Returns the manifest."""
    stated = list(stated)
    names = {file.path for file in stated}
    files = {name: file for name, file in released_files(folder).items() if name not in names}
    values = manifest.model_copy(update={"files": files}).model_dump(mode="json")
    described = Manifest.model_validate_json(
        json.dumps(values, sort_keys=True)
    )  # keys in the order in which it is read
    for file in stated:
        (folder / file.path).write_text(file.text(described), encoding="utf-8")
    files |= {name: _described(folder / name) for name in names}
    complete = manifest.model_copy(update={"files": dict(sorted(files.items()))})
    write_manifest(complete, folder)
    return complete


def write_manifest(manifest: Manifest, folder: Path) -> None:
    """Write the manifest with its seal, indented and with sorted keys."""
    values = manifest.model_dump(mode="json")
    content = json.dumps(values | {"seal": seal(values)}, indent=2, sort_keys=True, ensure_ascii=False)
    (folder / MANIFEST).write_text(content + "\n", encoding="utf-8")


def seal(manifest: Mapping[str, Any]) -> str:
    """SHA-256 of a manifest without its seal; key order and white space do not matter."""
    unsealed = {name: value for name, value in manifest.items() if name != "seal"}
    return hashlib.sha256(json.dumps(unsealed, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def manifest_sha256(folder: Path) -> str:
    """SHA-256 of the manifest file, which has the checksums of all others; of no bytes when there is no manifest."""
    path = folder / MANIFEST
    return hashlib.sha256(path.read_bytes() if path.is_file() else b"").hexdigest()


def is_release_file(path: str) -> bool:
    """Whether a release may have a file of this name. No other file is ever published."""
    return bool(_FILE.fullmatch(path))


def wrong_files(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Problems of files: missing, changed, not in the manifest, links, or with a name that no release has."""
    files = {
        path_name: file
        for path_name, file in released_files(folder).items()
        if not _ADDED_BY_THE_HUB.fullmatch(path_name)
    }
    yield from wrong_site(folder, files, manifest_sha256(folder))
    present = {path_name: file for path_name, file in files.items() if not path_name.startswith(f"{SITE}/")}
    for name in sorted(present.keys() | manifest.files.keys() | {CARD}):
        if name not in present:
            yield f"{name}: missing"
        elif name not in manifest.files:
            yield f"{name}: not in the manifest"
        elif present[name] != manifest.files[name]:
            yield f"{name}: changed since the release was sealed"
        elif not is_release_file(name):
            yield f"{name}: no release has such a file"
    links = sorted(path for path in folder.rglob("*") if path.is_symlink())
    yield from (f"{_below(path, folder)}: a link, not a file" for path in links)
    known_paths = {
        folder / part for name in (*manifest.files, *files) for part in (name, *map(str, Path(name).parents))
    }
    other_paths = sorted(
        path for path in folder.rglob("*") if not (path in known_paths or path.is_symlink() or path.is_file())
    )
    names = (_below(path, folder) for path in other_paths)
    yield from (f"{name}: no release has it" for name in names if not _ADDED_BY_THE_HUB.fullmatch(name))
    if present == manifest.files:
        yield from (
            problem for config in CONFIGS for problem in _wrong_numbering(config, present, manifest.counts[config])
        )


def _below(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix()


def _wrong_numbering(config: str, present: Iterable[str], rows: int) -> Iterator[str]:
    """A problem when shards are not numbered from 0 to the count in their names, because one was renamed or removed.

    A configuration without rows may have none.
    """
    names = [name for name in present if name.startswith(f"{config}/data/train-")]
    if not names and not rows:
        return
    shards = max(1, len(names))
    expected = {f"{config}/data/train-{number:05d}-of-{shards:05d}.parquet" for number in range(shards)}
    if set(names) != expected:
        wrong = ", ".join(sorted(set(names) - expected)) or "none"
        yield f"{config}/data: {len(names)} shards, which are not numbered as such: {wrong}"


def is_site_file(path: str) -> bool:
    """Whether a published explorer may have a file of this name."""
    return bool(_SITE_FILE.fullmatch(path))


def write_list(root: Path, manifest_sha256: str) -> dict[str, ReleasedFile]:
    """List the files of `root`/explorer in `explorer/files.json`. Returns them all, the list too, by relative path."""
    paths = {path.relative_to(root).as_posix(): path for path in sorted((root / SITE).rglob("*")) if path.is_file()}
    files = {name: _described(path) for name, path in paths.items()}
    rows = SiteFiles(manifest_sha256=manifest_sha256, files=files).model_dump()
    (root / FILE_LIST).write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return files | {FILE_LIST: _described(root / FILE_LIST)}


def wrong_site(folder: Path, present: Mapping[str, ReleasedFile], manifest_sha256: str) -> Iterator[str]:
    """Problems of the explorer beside a release; none without one. `present`: the files below the release's folder."""
    site_files = {name: file for name, file in present.items() if name.startswith(f"{SITE}/")}
    if not site_files:
        return
    try:
        site_list = SiteFiles.model_validate_json((folder / FILE_LIST).read_bytes() if FILE_LIST in site_files else b"")
    except (OSError, ValidationError) as error:
        yield f"{FILE_LIST}: cannot be read ({type(error).__name__}), so nothing in {SITE}/ is known"
        return
    if site_list.manifest_sha256 != manifest_sha256:
        yield f"{FILE_LIST}: the explorer of another release"
    for name in sorted((site_files.keys() | site_list.files.keys()) - {FILE_LIST}):
        if name not in site_files:
            yield f"{name}: missing"
        elif name not in site_list.files:
            yield f"{name}: not in {FILE_LIST}"
        elif site_files[name] != site_list.files[name]:
            yield f"{name}: changed since it was made"
        elif not is_site_file(name):
            yield f"{name}: no explorer has such a file"


def staging_folder(store: Store) -> Path:
    """The folder in which releases of the store are built; always the same, so leftovers of a killed build are found.

    For a local store it is on the same disk, so that moving the release into place is a rename.
    """
    if isinstance(store.fs, LocalFileSystem):
        return Path(store.at("releases/.building"))
    store_digest = hashlib.sha256(f"{os.getuid()} {store.root.rstrip('/')}".encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"release-{store_digest}"


class EarlierRelease:
    """The last release of a store: a new one takes over the files that it has, too. Nothing in it is changed.

    A file is taken over as a hard link in a local folder, where it takes no room, and by a copy within an object store.
    """

    def __init__(self, store: Store, manifest: Manifest, made_from: str) -> None:
        self.manifest, self.folder = manifest, store.at(f"releases/{manifest.version}")
        self.made_from = made_from
        self._store = store
        self._place = staging_folder(store).with_suffix(".earlier")
        self._written_from: dict[str, list[str]] = {}
        for path, key in sorted(manifest.shards.items()):
            self._written_from.setdefault(key, []).append(path)
        self._path_of = {file: path for path, file in manifest.files.items()}
        self._taken = set[str]()
        """Shards whose bytes were compared with the manifest."""

    @cached_property
    def _files(self) -> dict[str, Path]:
        """Shard in the release -> local file to read. Those of an object store are fetched once, some at a time."""
        fs, shards = self._store.fs, self.manifest.shards
        if isinstance(fs, LocalFileSystem):
            return {path: Path(self.folder, path) for path in shards}
        self.close()  # left by a killed build
        files = {path: self._place / path for path in shards}
        self._place.mkdir(mode=0o700)
        for parent in {file.parent for file in files.values()}:
            parent.mkdir(parents=True, exist_ok=True)

        def fetch(path: str) -> None:
            with suppress(FileNotFoundError):  # then it is written anew
                fs.get_file(f"{self.folder}/{path}", str(files[path]))

        deque(map_ordered(fetch, files, _AT_ONCE), maxlen=0)
        return files

    def close(self) -> None:
        """Remove what was fetched."""
        shutil.rmtree(self._place, ignore_errors=True)

    def take(self, key: str, folder: Path, first: int) -> list[Path]:
        """Put the shard with these rows into `folder`, numbered from `first`; none when absent or damaged."""
        paths = self._written_from.get(key, [])
        new_files = [folder / f"{number:05d}.parquet" for number in range(first, first + len(paths))]
        if all(self._files[path].is_file() for path in paths):
            for path, file in zip(paths, new_files, strict=True):
                _link(self._files[path], file)
            if all(_described(file) == self.manifest.files[path] for path, file in zip(paths, new_files, strict=True)):
                self._taken.update(paths)
                return new_files
        for path, file in zip(paths, new_files, strict=True):
            file.unlink(missing_ok=True)  # the new release gets a file of its own
            self._path_of.pop(self.manifest.files[path], None)
        return []

    def shards(self, paths: Iterable[str]) -> dict[str, Path]:
        """Path in the release -> local file to read, of the shards among these that are there and whole."""
        # a path is a shard that the earlier release had; one that was lost or damaged since counts as none
        files = {path: self._files[path] for path in paths if path in self.manifest.shards}
        return {
            path: file
            for path, file in files.items()
            if file.is_file() and _described(file) == self.manifest.files[path]
        }

    def share(self, folder: Path, files: Mapping[str, ReleasedFile]) -> None:
        """Make local files of a folder hard links to those with the same bytes, where there are any."""
        for name, described in files.items():
            earlier_file = Path(self.folder, self._path_of.get(described, ""))
            if (
                earlier_file.is_file()
                and not earlier_file.samefile(folder / name)
                and _described(earlier_file) == described
            ):
                (folder / name).unlink()
                _link(earlier_file, folder / name)

    def copied(self, described: ReleasedFile, target: str) -> bool:
        """Whether the shard with these bytes could be copied to `target` within the object store.

        Only what `take` has compared is: any other file would have to be fetched for that, and is written anew.
        """
        if (path := self._path_of.get(described)) not in self._taken:
            return False
        try:
            self._store.fs.cp_file(f"{self.folder}/{path}", target)
        except FileNotFoundError:
            return False
        return True


def _link(there: Path, file: Path) -> None:
    try:
        os.link(there, file)
    except OSError:  # a file system without hard links, or a file with too many
        shutil.copyfile(there, file)


def earlier_release(store: Store, layout: int) -> EarlierRelease | None:
    """The last release that a run made and no takedown withdrew; None when it has another layout."""
    for path in reversed(record_paths(store)):
        stages = json.loads(store.read_bytes(path) or b"{}").get("stages") or [{}]
        place = stages[-1].get("result", "")
        content = store.read_bytes(f"{place}/{MANIFEST}") if place.startswith("releases/") else None
        if content is None or store.read_bytes(f"{place}/{WITHDRAWN}") is not None:
            continue
        try:
            manifest = Manifest.model_validate_json(content)
        except ValidationError:
            return None
        failed = any(stage.get("failures") for stage in stages)  # what failed is tried again
        made_from = "" if failed else stages[-1].get("made_from", "")
        return EarlierRelease(store, manifest, made_from) if manifest.layout == layout else None
    return None


def place_release(
    store: Store, staging: Path, version: str, chosen_by_user: bool, earlier: EarlierRelease | None = None,
    stated: Iterable[StatedFile] = (),
) -> tuple[str, bool]:  # fmt: skip
    """Move a sealed staging folder to `releases/<version>`. Returns the version it got, and whether it is new.

    `stated`: files that name the version, and are written again where it gets another one. Files that `earlier` has,
    too, are taken over from there.

    If the version exists with the same rows and policy, nothing is moved. If it exists with others, or its data was
    removed, a version chosen by the user raises ReleaseConflict; a default version gets the next free attempt
    (`-attempt2`, …).
    """
    sealed = json.loads((staging / MANIFEST).read_text(encoding="utf-8"))
    for attempt in count(1):
        candidate = attempt_of_day(version, attempt)
        existing = store.read_bytes(f"releases/{candidate}/{MANIFEST}")
        if existing is None:
            break
        is_removed = store.read_bytes(f"releases/{candidate}/{WITHDRAWN}") is not None
        if not is_removed and _same_content(json.loads(existing), sealed):
            shutil.rmtree(staging)
            return candidate, False
        if chosen_by_user:
            state = "was removed" if is_removed else "exists with other content"
            raise ReleaseConflict(f"release {version!r} {state}; releases are never edited, choose another version")
    if candidate != version:
        _rename(staging, sealed, candidate, stated)
    _move(store, staging, f"releases/{candidate}", earlier)
    return candidate, True


def _same_content(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Whether two manifests have the same rows and policy; versions may differ, and so may card, CSV files and report.

    Those follow from the rows and from settings that move no row; whoever wants them anew gives another version.
    """

    def rows(manifest: Mapping[str, Any]) -> dict[str, str]:
        return {path: file["sha256"] for path, file in manifest["files"].items() if path.endswith(".parquet")}

    return rows(a) == rows(b) and a["policy_hash"] == b["policy_hash"]


def _rename(staging: Path, sealed: Mapping[str, Any], version: str, stated: Iterable[StatedFile]) -> None:
    for path in (staging / CARD, staging / "report" / "index.html"):
        if path.exists():
            text = path.read_text(encoding="utf-8")
            path.write_text(text.replace(f"Version {sealed['version']} of ", f"Version {version} of ", 2), "utf-8")
    sealed_manifest(Manifest.model_validate({**sealed, "version": version}), staging, stated)


def _move(store: Store, staging: Path, target: str, earlier: EarlierRelease | None) -> None:
    """Rename on a local disk; on an object store copy with the manifest last."""
    if store.fs.exists(store.at(target)):  # left by a killed copy: it has no manifest
        store.fs.rm(store.at(target), recursive=True)
    files = Manifest.model_validate_json((staging / MANIFEST).read_bytes()).files
    if isinstance(store.fs, LocalFileSystem):
        if earlier:
            earlier.share(staging, files)
        staging.rename(store.at(target))
        return

    def place(path: str) -> None:
        store.require_held()
        address = store.at(f"{target}/{path}")
        if not (earlier and path in files and earlier.copied(files[path], address)):
            store.fs.put_file(str(staging / path), address)

    deque(map_ordered(place, files, _AT_ONCE), maxlen=0)
    place(MANIFEST)
    shutil.rmtree(staging)
