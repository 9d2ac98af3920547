"""Picture names -> files of the server's picture folder, and the files not yet taken in."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from schemas.reject import Reject, RejectReason

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".avif", ".heic", ".heif", ".tif", ".tiff", ".svg")
"""In the order of preference: the server's PNG holds the exact upload, its older JPEG does not. After .bmp come those
that nothing here reads, so that such a file is refused for what it is and not called missing."""


class PictureSource(NamedTuple):
    """A picture and the name it goes by in the store."""

    name: str
    file: Path
    """The picture's file, or the data file that carries it."""
    content: bytes | None = None
    """The encoded picture, when it is not a file of its own."""

    def read(self) -> bytes:
        """The encoded picture."""
        return self.file.read_bytes() if self.content is None else self.content


def find_files(folders: Sequence[Path], names: Iterable[str]) -> tuple[list[PictureSource], list[Reject]]:
    """The file of every picture name, sorted by name, and a reject for each name without a usable file.

    The first folder that has a file counts: two servers name a picture alike only when it is the same.
    A link that leads out of its folder is refused: names come from logs that users write into.
    """
    present: dict[str, os.DirEntry[str]] = {}
    for folder in folders:
        for entry in os.scandir(folder) if folder.is_dir() else ():
            present.setdefault(entry.name, entry)
    files, rejects = [], []
    for name in sorted(set(names)):
        file = next((name + suffix for suffix in SUFFIXES if name + suffix in present), None)
        if file is None:
            row = Reject(source=name, line=None, reason=RejectReason.IMAGE_MISSING, evidence="no such file")
            rejects.append(row)
        elif _leads_out(present[file]):
            evidence = "a link out of the picture folder"
            rejects.append(Reject(source=file, line=None, reason=RejectReason.IMAGE_PATH_ESCAPE, evidence=evidence))
        elif not present[file].is_file():
            evidence = "not a file"
            rejects.append(Reject(source=file, line=None, reason=RejectReason.IMAGE_NOT_A_PICTURE, evidence=evidence))
        else:
            files.append(PictureSource(file, Path(present[file].path)))
    return files, rejects


def _leads_out(entry: os.DirEntry[str]) -> bool:
    folder = Path(os.path.realpath(Path(entry.path).parent))
    return entry.is_symlink() and folder not in Path(os.path.realpath(entry.path)).parents


def not_taken_in(files: Iterable[PictureSource], taken_in: pl.DataFrame) -> list[PictureSource]:
    """Files that are new or have changed since they were taken in (table `picture_files`)."""
    known = {row["name"]: (row["size_bytes"], row["modified_ns"]) for row in taken_in.iter_rows(named=True)}
    return [source for source in files if known.get(source.name) != file_stamp(source.file)]


def file_stamp(file: Path) -> tuple[int, int]:
    """(size in bytes, modification time in ns): costs a stat, not a read."""
    status = file.stat()
    return status.st_size, status.st_mtime_ns
