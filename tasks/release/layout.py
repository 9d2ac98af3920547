"""Which files a release has, and whether a folder holds these, as they were sealed, and no others."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from schemas.release import CONFIGS, Manifest
from tasks.release.build import MANIFEST, released_files

CARD = "README.md"
MANIFEST_DIGITS = 12
"""Hex digits of the manifest's checksum by which people name a release they mean."""
_FILE = re.compile(
    rf"(?:{'|'.join(CONFIGS)})/data/train-\d{{5}}-of-\d{{5}}\.parquet|leaderboard/[a-z_]+\.(?:parquet|csv)"
    rf"|report/index\.html|report/(?:figures/[\w-]+\.svg|tables/[\w-]+\.csv)|{re.escape(CARD)}|{re.escape(MANIFEST)}"
)
_ADDED_BY_THE_HUB = re.compile(r"\.gitattributes|\.cache(?:/huggingface(?:/.+)?)?")
"""What every repository has, and what `hf download --local-dir` leaves in a folder. Neither is ever published."""


def manifest_sha256(folder: Path) -> str:
    """Checksum of the manifest, which holds that of every other file; of no bytes where there is none."""
    path = folder / MANIFEST
    return hashlib.sha256(path.read_bytes() if path.is_file() else b"").hexdigest()


def is_release_file(path: str) -> bool:
    """Whether releases have a file of this name; nothing else of a folder is ever published."""
    return bool(_FILE.fullmatch(path))


def wrong_files(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Files that are missing, changed, not those of the manifest, or none that a release has."""
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
    """Shards that are not numbered from 0 to the count in their names: one was renamed, or some are not there."""
    names = [name for name in present if name.startswith(f"{config}/data/train-")]
    count = max(1, len(names))
    expected = {f"{config}/data/train-{number:05d}-of-{count:05d}.parquet" for number in range(count)}
    if set(names) != expected:
        wrong = ", ".join(sorted(set(names) - expected)) or "none"
        yield f"{config}/data: {len(names)} shards, which are not numbered as such: {wrong}"
