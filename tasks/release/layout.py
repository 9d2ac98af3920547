"""The files of a release, and the check that a folder has exactly these, as they were sealed."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from schemas.release import CONFIGS, Manifest
from tasks.release.build import MANIFEST, released_files

CARD = "README.md"
MANIFEST_DIGITS = 12
"""Hex digits of the manifest's checksum that are shown to people."""
_FILE = re.compile(
    rf"(?:{'|'.join(CONFIGS)})/data/train-\d{{5}}-of-\d{{5}}\.parquet|leaderboard/[a-z_]+\.(?:parquet|csv)"
    rf"|report/index\.html|report/(?:figures/[\w-]+\.svg|tables/[\w-]+\.csv)|{re.escape(CARD)}|{re.escape(MANIFEST)}"
)
_ADDED_BY_THE_HUB = re.compile(r"\.gitattributes|\.cache(?:/huggingface(?:/.+)?)?")
"""Files that the Hub and `hf download --local-dir` add. They are ignored and never published."""


def manifest_sha256(folder: Path) -> str:
    """SHA-256 of the manifest file, which has the checksums of all others; of no bytes when there is no manifest."""
    path = folder / MANIFEST
    return hashlib.sha256(path.read_bytes() if path.is_file() else b"").hexdigest()


def is_release_file(path: str) -> bool:
    """Whether a release may have a file of this name. No other file is ever published."""
    return bool(_FILE.fullmatch(path))


def wrong_files(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Problems of files: missing, changed, not in the manifest, links, or with a name that no release has."""
    present = {n: file for n, file in released_files(folder).items() if not _ADDED_BY_THE_HUB.fullmatch(n)}
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
    known = {folder / part for name in manifest.files for part in (name, *map(str, Path(name).parents))}
    others = sorted(path for path in folder.rglob("*") if not (path in known or path.is_symlink() or path.is_file()))
    names = (_below(path, folder) for path in others)
    yield from (f"{name}: no release has it" for name in names if not _ADDED_BY_THE_HUB.fullmatch(name))
    if present == manifest.files:
        yield from (problem for config in CONFIGS for problem in _wrong_numbering(config, present))


def _below(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix()


def _wrong_numbering(config: str, present: Iterable[str]) -> Iterator[str]:
    """A problem when shards are not numbered from 0 to the count in their names, because one was renamed or removed."""
    names = [name for name in present if name.startswith(f"{config}/data/train-")]
    count = max(1, len(names))
    expected = {f"{config}/data/train-{number:05d}-of-{count:05d}.parquet" for number in range(count)}
    if set(names) != expected:
        wrong = ", ".join(sorted(set(names) - expected)) or "none"
        yield f"{config}/data: {len(names)} shards, which are not numbered as such: {wrong}"
