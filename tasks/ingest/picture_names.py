"""Picture names as logged -> names that are safe to look up, or the reason why not."""

import os
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from schemas.reject import RejectReason
from tasks.ingest.log_files import PICTURE_FOLDERS, server_folders

_HASH = re.compile(r"[0-9a-f]{32}")
_BUCKET_URL = re.compile(r"https?://[^\s\\]+/([0-9a-f]{32})(?:\.[a-z]{3,4})?")
_WILDVISION = re.compile(r"(input_image_(?P<conv_id>[0-9A-Za-z-]{8,64})_(?P<tstamp>\d+(?:\.\d+)?))\.(?:png|jpe?g)")

LinkedPictures = Mapping[str, Sequence[tuple[float, str]]]
"""conv_id -> (seconds, picture name) of the pictures that only their file names link to it, in time order."""


def picture_names(logged: Sequence[object]) -> tuple[list[str], list[str]]:
    """(names of 32 hex digits in order of first use, reject reasons of the others).

    A name is the MD5 of the decoded pixels; an early-era line may hold the bucket's address instead.
    """
    if len(logged) == 1 and type(logged[0]) is str and _HASH.fullmatch(logged[0]):
        return [logged[0]], []
    names: dict[str, None] = {}
    problems: list[str] = []
    for value in logged:
        match = isinstance(value, str) and (_HASH.fullmatch(value) or _BUCKET_URL.fullmatch(value))
        if match:
            names[match.group(match.lastindex or 0)] = None
        elif isinstance(value, str) and any(mark in value for mark in ("/", "\\", "..")):
            problems.append(RejectReason.IMAGE_PATH_ESCAPE)
        else:
            problems.append(RejectReason.IMAGE_NAME_INVALID)
    return list(names), problems


def linked_pictures(logs: Path) -> LinkedPictures:
    """WildVision-Arena's pictures: `input_images/input_image_<conv_id>_<tstamp>.png`, which no log line names.

    The folders are listed again only when one of them has changed.
    """
    folders = [folder for folder in picture_folders(logs) if folder.name == "input_images"]
    return _linked(tuple((folder, folder.stat().st_mtime_ns) for folder in folders))


@lru_cache(maxsize=1)
def _linked(folders: Sequence[tuple[Path, int]]) -> LinkedPictures:
    found: dict[str, list[tuple[float, str]]] = {}
    for folder, _ in folders:
        for entry in os.scandir(folder):
            if match := _WILDVISION.fullmatch(entry.name):
                found.setdefault(match["conv_id"], []).append((float(match["tstamp"]), match[1]))
    return {conv_id: sorted(pictures) for conv_id, pictures in found.items()}


def picture_at(pictures: Sequence[tuple[float, str]], seconds: float) -> str:
    """The picture a line of that time is about: the last one saved before, else the first."""
    return next((name for saved, name in reversed(pictures) if saved <= seconds + 1), pictures[0][1])


def picture_folders(logs: Path) -> list[Path]:
    """The servers' picture folders: in the log folder, and in every folder below it."""
    beside = ((server, name) for server in server_folders(logs) for name in PICTURE_FOLDERS)
    return [folder for server, name in beside if (folder := server / name).is_dir()]
