"""The server's preset collection: the example images of its "random example" button.

A log does not say that an image came from the button. The server treats a preset like an upload (RGBA, longest edge at
most 1024, PNG of at most 3.3 MB, MD5 of the pixels), so the same steps here give the name it logs. Presets of servers
with other limits are recognized by their pixels (`tasks/dedup/repeats.py`).
"""

from pathlib import Path
from typing import NamedTuple

import orjson
import PIL.Image

from schemas.errors import BadInput, why_unreadable
from tasks.images.served import served, served_name

INDEX = "presets.json"


class PresetFile(NamedTuple):
    """One image of the preset collection."""

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
        listed = [(str(entry["path"]), str(entry["dataset"])) for entry in entries]
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError) as error:
        reason = f"{why_unreadable(error)}; expected a JSON list of objects with dataset and path"
        raise BadInput(f"preset index {str(index)!r} cannot be read: {reason}") from None
    return [PresetFile(path, dataset, _inside(folder, path)) for path, dataset in listed]


def find_presets(logs: Path) -> Path | None:
    """The preset collection beside the logs: a `presets` folder in the log folder or next to it."""
    return next((folder for folder in (logs / "presets", logs.parent / "presets") if (folder / INDEX).is_file()), None)


def logged_name(file: Path) -> str:
    """The name the server logs for an upload of this file: 32 hex digits."""
    try:
        with PIL.Image.open(file) as opened:
            return served_name(served(opened))
    except OSError as error:
        raise BadInput(f"preset image {file.name!r} cannot be read ({why_unreadable(error)})") from None


def _inside(folder: Path, path: str) -> Path:
    try:
        file = (folder / path).resolve()
    except RuntimeError:
        raise BadInput(f"preset path {path!r} is a link to itself; give an image") from None
    if folder.resolve() not in file.parents:
        raise BadInput(f"preset path {path!r} leads out of {str(folder)!r}")
    return file
