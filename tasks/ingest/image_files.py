"""Finds the files of images: of every name that the sightings hold, in folders or dataset rows, and of the presets."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import PIL.Image
import polars as pl

from schemas.errors import BadInput, why_unreadable
from schemas.items.reject import LineRejected, Reject, RejectReason
from tasks.images.served import as_served, served_name
from tasks.ingest.formats import ARENA_LOGS, adapter
from tasks.ingest.formats.adapter import UNEXPECTED, FormatAdapter, names_of_file, names_of_image, unpacked_rows
from tasks.ingest.formats.pictures import file_below, path_of, picture_bytes
from tasks.ingest.log_files import IMAGE_FOLDERS, LogFile, columns_of, is_table, line_rows, server_folders, table_rows
from tasks.ingest.log_line import Place
from tasks.ingest.quarantine import EMBEDDED_SUFFIX
from tasks.runtime.spelled_paths import as_on_disk, by_folded, folded
from tasks.storage.parts import rows_without
from tasks.storage.tables import Store, frame_schema

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".avif", ".heic", ".heif", ".tif", ".tiff", ".svg")
"""In order of preference: the server's PNG holds the exact upload, its older JPEG does not. Formats after .bmp cannot
be read; they are listed so that such a file is rejected for its format instead of as missing."""
_WILDVISION = re.compile(r"(input_image_(?P<conv_id>[0-9A-Za-z-]{8,64})_(?P<tstamp>\d+(?:\.\d+)?))\.(?:png|jpe?g)")

LinkedImages = Mapping[str, Sequence[tuple[float, str]]]
"""conv_id -> (seconds, image name) in time order, for images that are linked by their file names alone."""


class ImageSource(NamedTuple):
    """An image file and its name in the store."""

    name: str
    file: Path | None
    """The image's file, or the data file with a row that holds it; null for an image that was never in a file."""
    content: bytes | None = None
    """The encoded image or PDF, unless it has a file of its own."""
    page: int | None = None
    """Number of the page, from 0, if the content or the file is a PDF."""

    def read(self) -> bytes:
        """The encoded image."""
        if self.content is not None:
            return self.content
        return b"" if self.file is None else self.file.read_bytes()

    def stamp(self) -> tuple[int, int]:
        """(size in bytes, modification time in ns) of its file, without reading it; of its bytes where it has none."""
        return (len(self.content or b""), 0) if self.file is None else file_stamp(self.file)


def image_folders(logs: Path) -> list[Path]:
    """The servers' image folders: in the log folder, and in every folder below it; beside a log that is one file."""
    servers = [logs.parent] if logs.is_file() else server_folders(logs)
    beside = ((server, name) for server in servers for name in IMAGE_FOLDERS)
    return [folder for server, name in beside if (folder := server / name).is_dir()]


def linked_images(logs: Path) -> LinkedImages:
    """WildVision-Arena's images: `input_images/input_image_<conv_id>_<tstamp>.png`, which no log line names.

    The folders are listed again only when one of them has changed.
    """
    folders = [folder for folder in image_folders(logs) if folder.name == "input_images"]
    return _linked(tuple((folder, folder.stat().st_mtime_ns) for folder in folders))


@lru_cache(maxsize=1)
def _linked(folders: Sequence[tuple[Path, int]]) -> LinkedImages:
    images_by_conv_id: dict[str, list[tuple[float, str]]] = {}
    for folder, _ in folders:
        for entry in os.scandir(folder):
            if match := _WILDVISION.fullmatch(entry.name):
                images_by_conv_id.setdefault(match["conv_id"], []).append((float(match["tstamp"]), match[1]))
    return {conv_id: sorted(images) for conv_id, images in images_by_conv_id.items()}


def image_at(images: Sequence[tuple[float, str]], seconds: float) -> str:
    """The image a log line of that time refers to: the last one saved before it, else the first."""
    return next((name for saved, name in reversed(images) if saved <= seconds + 1), images[0][1])


def find_files(folders: Sequence[Path], names: Iterable[str]) -> tuple[list[ImageSource], pl.DataFrame]:
    """The file of every image name, in order, and rows of `rejects` for the names without a usable file.

    The first folder that has the file is used: names are hashes, so files of two servers with one name are equal. Only
    where there is none, the only file that differs in case or Unicode form is used.
    Nothing is opened, and what is no readable file of the folder is rejected: a pipe, a folder, a link to itself, and
    one out of the folder, because users can influence the names in a log.
    """
    entries_by_name: dict[str, os.DirEntry[str]] = {}
    for folder in folders:
        for entry in os.scandir(folder) if folder.is_dir() else ():
            entries_by_name.setdefault(entry.name, entry)
    alike = by_folded(entries_by_name)
    files, rejects = [], []
    for name in names:
        spellings = [name + suffix for suffix in IMAGE_SUFFIXES]
        exact = ((file, entries_by_name[file]) for file in spellings if file in entries_by_name)
        respelled = ((file, entries_by_name[alike[folded(file)]]) for file in spellings if folded(file) in alike)
        file_and_entry = next(exact, None) or next(respelled, None)
        if file_and_entry is None:
            rejects.append((name, RejectReason.IMAGE_MISSING, "no such file"))
            continue
        file, entry = file_and_entry
        if problem := _problem(entry):
            rejects.append((file, *problem))
        else:
            files.append(ImageSource(file, Path(entry.path)))
    return files, _rejects(rejects)


def _rejects(rows: Iterable[tuple[str, str, str]]) -> pl.DataFrame:
    """Rows of `rejects` for (source, reason, evidence) of images, without a line number."""
    return pl.DataFrame(
        [(source, None, *reason_and_evidence) for source, *reason_and_evidence in rows],
        frame_schema(Reject),
        orient="row",
    )


def _problem(entry: os.DirEntry[str]) -> tuple[RejectReason, str] | None:
    """(reject reason, evidence) of an entry that must not be opened; None for a readable file."""
    try:
        folder = Path(os.path.realpath(Path(entry.path).parent))
        if entry.is_symlink() and folder not in Path(os.path.realpath(entry.path)).parents:
            return RejectReason.IMAGE_PATH_ESCAPE, "a link out of the image folder"
        if not entry.is_file():
            return RejectReason.NOT_AN_IMAGE, "not a file"
    except OSError:
        return RejectReason.NOT_AN_IMAGE, "a link that leads nowhere"
    readable = os.access(entry.path, os.R_OK)
    return None if readable else (RejectReason.IMAGE_MISSING, "a file that may not be read")


def not_taken_in(files: Iterable[ImageSource], taken_in: pl.DataFrame) -> list[ImageSource]:
    """Files that are new or have changed since they were taken in (table `image_files`)."""
    stamps = {row["name"]: (row["size_bytes"], row["modified_ns"]) for row in taken_in.iter_rows(named=True)}
    return [source for source in files if stamps.get(source.name) != source.stamp()]


def file_stamp(file: Path) -> tuple[int, int]:
    """(size in bytes, modification time in ns), without reading the file."""
    status = file.stat()
    return status.st_size, status.st_mtime_ns


def embedded_images(
    files: Iterable[tuple[LogFile, str]], image_ids: Iterable[str], held_back: Set[str]
) -> Iterator[ImageSource]:
    """The wanted images that rows of `files`, which are (file, format), hold or name by a path: each once, in order.

    Files that are flagged as a whole are not opened, nor those of images that are `held_back`.
    """
    missing = set(image_ids)
    for file, format_name in files:
        shape = None if format_name == ARENA_LOGS else adapter(format_name)
        if shape is None or shape.image_column is None or file.csam or not missing:
            continue
        for number, row in _rows_with_images(file, shape.image_column):
            place = Place(file.source, number, file.folder)
            for name, image in _images_of(row, shape, place):
                source = _source(name, image, file, place, held_back) if name in missing else None
                if source is not None:
                    missing.discard(name)
                    yield source


def _rows_with_images(file: LogFile, columns: str | Sequence[str]) -> Iterator[tuple[int, Any]]:
    """(line number, row) of a data file, of a table with these columns alone."""
    if not is_table(file.path):
        return line_rows(file)
    image_columns = [columns] if isinstance(columns, str) else columns
    file_columns = columns_of(file)
    return enumerate(
        table_rows(file.path, [column for column in image_columns if column in file_columns], image_bytes=True), 1
    )


def _images_of(row: Any, shape: FormatAdapter, place: Place) -> list[tuple[str, Mapping[str, Any]]]:
    """(name, image) of the images of a row; one that had another name while its file was not there comes twice."""
    named_images: list[tuple[str, Mapping[str, Any]]] = []
    try:
        for part, part_place in unpacked_rows(row, place, shape):
            for index, image in enumerate(shape.images(part)):
                named_images += [(name, image) for name in names_of_image(part_place, index, image)]
    except (LineRejected, *UNEXPECTED):  # the row was rejected when it was read
        return []
    return named_images


def _source(
    name: str, image: Mapping[str, Any], file: LogFile, place: Place, held_images: Set[str]
) -> ImageSource | None:
    """The picture of a row: its bytes, or the file that it names; None where there is none, or it is held."""
    content, path = picture_bytes(image), path_of(image)
    if content is not None:
        return ImageSource(name + EMBEDDED_SUFFIX, file.path, content, image.get("page"))
    if path is None or not held_images.isdisjoint(names_of_file(place, image)):
        return None
    picture_file = file_below(place, path)
    return None if picture_file is None else ImageSource(name + EMBEDDED_SUFFIX, picture_file, page=image.get("page"))


def store_image_rejects(store: Store, missing: pl.DataFrame, present: Sequence[str], taken_in: pl.DataFrame) -> None:
    """Replace all rejects of images: `missing` ones, `present` files that cannot be decoded, and invalid names.

    Also those of the parts of messages that were not read.
    These rejects have no line number: the log line itself is kept. `taken_in` has the newest row of `image_files` for
    every file.
    """
    broken = taken_in.filter(pl.col("name").is_in(present) & pl.col("problem").is_not_null())
    rows = broken.select("name", "problem", "evidence").iter_rows()
    parts = rows_without(store, "rejects", store.parts("rejects"), pl.col("line").is_null())
    images = pl.concat([missing, _rejects(chain(rows, _bad_names(store))), *_unread(store)])
    store.list_parts("rejects", [*parts, *([store.write_part("rejects", images)] if images.height else [])])


def _unread(store: Store) -> Iterator[pl.DataFrame]:
    """Rejects of the parts of messages that were not read, by their kind and place."""
    of_message = pl.format("{} in message {} of line {}", "kind", pl.col("message") + 1, "line")
    beside = pl.format("{} beside the messages of line {}", "kind", "line")
    for part in store.read_parts("sightings", ["source", "line", "unread_parts"]):
        # A row is one part of a message, with the line that it stands on.
        unread_parts = (
            part.explode("unread_parts").drop_nulls("unread_parts").unnest("unread_parts").sort("source", "line")
        )
        evidence = pl.when(pl.col("message").is_null()).then(beside).otherwise(of_message)
        rejects = unread_parts.select(
            "source", line=None, reason=pl.lit(RejectReason.PART_NOT_READ.value), evidence=evidence
        )
        yield rejects.cast(frame_schema(Reject))


def rejects_of_others(store: Store, names: pl.Series) -> pl.DataFrame:
    """Stored rejects of images with other names; not those of invalid names, whose source is a log file."""
    rejects, logs = store.read("rejects"), store.read("log_files", ["source"])["source"]
    name = pl.col("source").str.replace(r"\.[a-z]+$", "")
    is_of_others = ~name.is_in(names.implode()) & ~pl.col("source").is_in(logs.implode())
    return rejects.filter(pl.col("line").is_null() & is_of_others)


def _bad_names(store: Store) -> Iterator[tuple[str, str, str]]:
    """Rejects of invalid image names in log lines. The name is not quoted, because a user may have chosen it."""
    for part in store.read_parts("sightings", ["source", "line", "name_problems"]):
        # A row is one kind of problem on one line, however many names of the line have it.
        name_problems = part.explode("name_problems").drop_nulls("name_problems").unique().sort(part.columns)
        for source, line, reason in name_problems.iter_rows():
            yield source, reason, f"an image name on line {line}"


INDEX = "presets.json"
STARTERS = "starters"
"""Folder beside the logs of our own arena with the pictures of starter prompts, a collection of presets."""


class PresetFile(NamedTuple):
    """One image of the server's preset collection, the examples of its "random example" button."""

    path: str
    dataset: str
    file: Path


def preset_files(folder: Path) -> list[PresetFile]:
    """Every image in the preset collection's index.

    Raises BadInput when the index cannot be read or names an image outside the folder.
    """
    index = folder / INDEX
    try:
        entries = orjson.loads(index.read_bytes())
        paths_and_datasets = [(str(entry["path"]), str(entry["dataset"])) for entry in entries]
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError) as error:
        reason = f"{why_unreadable(error)}; expected a JSON list of objects with dataset and path"
        raise BadInput(f"preset index {str(index)!r} cannot be read: {reason}") from None
    return [PresetFile(path, dataset, _inside(folder, path)) for path, dataset in paths_and_datasets]


def find_presets(logs: Path) -> Path | None:
    """The preset collection beside the logs: a `presets` folder in the log folder or next to it."""
    return next((folder for folder in (logs / "presets", logs.parent / "presets") if (folder / INDEX).is_file()), None)


def logged_name(file: Path) -> str:
    """The name the server logs for this file: 32 hex digits. A preset is treated like an upload.

    Presets of servers with other limits are recognized by their pixels (`tasks/dedup/repeats.py`).
    """
    try:
        with PIL.Image.open(file) as opened:
            return served_name(as_served(opened))
    except OSError as error:
        raise BadInput(f"preset image {file.name!r} cannot be read ({why_unreadable(error)})") from None


def _inside(folder: Path, path: str) -> Path:
    file = Path(os.path.realpath(as_on_disk(folder, path)))
    if file.is_symlink():
        raise BadInput(f"preset path {path!r} is a link to itself; give an image")
    if folder.resolve() not in file.parents:
        raise BadInput(f"preset path {path!r} leads out of {str(folder)!r}")
    return file
