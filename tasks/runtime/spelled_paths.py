"""Finds files whose names a table spells in another Unicode form, case or with backslashes."""

import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from unicodedata import normalize


def folded(name: str) -> str:
    """The name in one Unicode form and without case: names that look alike are equal."""
    return name.lower() if name.isascii() else normalize("NFC", normalize("NFC", name).casefold())


def by_folded(names: Iterable[str]) -> dict[str, str]:
    """Folded name -> the name, of those that no second name equals."""
    names_by_key, twice = dict[str, str](), set[str]()
    for name in names:
        key = folded(name)
        if names_by_key.setdefault(key, name) != name:
            twice.add(key)
    return {key: name for key, name in names_by_key.items() if key not in twice}


def as_on_disk(folder: Path, path: str) -> Path:
    """The file below `folder` that a path means, spelled as it is there; without one, or with several, as it is given.

    A file of exactly this path wins. The path may lead out of the folder: the caller looks.
    """
    exact, plain = folder / path, path.replace("\\", "/")
    if os.path.lexists(exact) or Path(path).is_absolute():
        return exact
    if ".." in plain.split("/"):
        return folder / plain
    place = folder
    for part in plain.split("/"):
        there = place / part
        place = there if os.path.lexists(there) else place / _names_in(place).get(folded(part), part)
    return place


def _names_in(folder: Path) -> Mapping[str, str]:
    """`by_folded` of the names in a folder; none where it cannot be listed."""
    try:
        return _listed(folder, folder.stat().st_mtime_ns)
    except (OSError, ValueError):
        return {}


@lru_cache(maxsize=64)
def _listed(folder: Path, modified_ns: int) -> Mapping[str, str]:
    """A folder is listed again when it has changed."""
    return by_folded(path.name for path in folder.iterdir())
