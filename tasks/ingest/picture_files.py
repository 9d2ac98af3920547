"""Picture names -> files of the server's picture folder, and the files not yet taken in."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import polars as pl

from schemas.reject import Reject, RejectReason

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".gif")
"""In the order of preference: the server's PNG holds the exact upload, its older JPEG does not."""


class PictureSource(NamedTuple):
    """A picture file and the name it goes by in the store."""

    name: str
    file: Path


def find_files(folder: Path, names: Iterable[str]) -> tuple[list[PictureSource], list[Reject]]:
    """The file of every picture name, sorted by name, and a reject for each name without a usable file.

    A link that leads out of the folder is refused: names come from logs that users write into.
    """
    inside = Path(os.path.realpath(folder))
    present = {entry.name: entry for entry in os.scandir(folder)} if folder.is_dir() else {}
    files, rejects = [], []
    for name in sorted(set(names)):
        file = next((name + suffix for suffix in SUFFIXES if name + suffix in present), None)
        if file is None:
            row = Reject(source=name, line=None, reason=RejectReason.IMAGE_MISSING, evidence="no such file")
            rejects.append(row)
        elif present[file].is_symlink() and inside not in Path(os.path.realpath(present[file].path)).parents:
            evidence = "a link out of the picture folder"
            rejects.append(Reject(source=file, line=None, reason=RejectReason.IMAGE_PATH_ESCAPE, evidence=evidence))
        else:
            files.append(PictureSource(file, folder / file))
    return files, rejects


def not_taken_in(files: Iterable[PictureSource], taken_in: pl.DataFrame) -> list[PictureSource]:
    """Files that are new or have changed since they were taken in (table `picture_files`)."""
    known = {row["name"]: (row["size_bytes"], row["modified_ns"]) for row in taken_in.iter_rows(named=True)}
    return [source for source in files if known.get(source.name) != file_stamp(source.file)]


def file_stamp(file: Path) -> tuple[int, int]:
    """(size in bytes, modification time in ns): costs a stat, not a read."""
    status = file.stat()
    return status.st_size, status.st_mtime_ns
