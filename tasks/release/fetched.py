"""Opens a release: a local folder is used in place, one on an object store is copied to a temporary folder.

Also reads its manifest. Imports little, so that what only opens a release starts fast.
"""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import fsspec
from pydantic import ValidationError

from schemas.errors import BadInput, CurateError, StoreUnwell, why_unreadable
from schemas.policy import Policy
from schemas.release import CONFIGS, Manifest
from schemas.run import Funnel
from tasks.release.build import MANIFEST, WITHDRAWN
from tasks.runtime.untrusted import one_line
from tasks.storage.lock import storage_errors
from tasks.storage.tables import Store


def is_remote(location: str) -> bool:
    """Whether the location is a URL such as s3://bucket/store/releases/1.0.0."""
    return "://" in location


def is_store(place: str) -> bool:
    """Whether a place is a store, and no release. Raises BadInput when it cannot be read."""
    store = Store(place)
    try:
        return bool(store.fs.isdir(store.at("tables"))) and not store.fs.exists(store.at("manifest.json"))
    except Exception as error:  # every object store has its own errors
        raise BadInput(
            f"{place!r} cannot be read ({why_unreadable(error)}); check the address and the credentials"
        ) from None


def store_of(release: str) -> Store | None:
    """The store that contains a release, from the release's folder or address; None for a copy elsewhere."""
    place = release.rstrip("/") if is_remote(release) else str(Path(release).resolve())
    root, folder, _ = ("", "", *place.rsplit("/", 2))[-3:]
    if folder != "releases":
        return None
    store = Store(root)
    try:
        return store if store.fs.isdir(store.at("tables")) else None
    except Exception as error:  # every object store has its own errors
        raise StoreUnwell(
            f"store {root!r} cannot be read ({why_unreadable(error)}); check the address and the credentials"
        ) from None


@contextmanager
def fetched_of_store(release: str) -> Iterator[tuple[Path, Store | None]]:
    """The release as a local folder, and the store that contains it.

    Raises BadInput when it cannot be read, StoreUnwell when the store becomes unreachable before the block ends.
    """
    with fetched(release) as folder:
        store = store_of(release)
        with storage_errors(store) if store else nullcontext():
            yield folder, store


def releases_in(folder: Path) -> str:
    """Second half of the message that a folder is not a release: what it is, and which releases are in it."""
    if not folder.is_dir():
        return "; there is no such folder"
    for parent in (folder, folder / "releases"):
        versions = sorted(path.parent.name for path in parent.glob(f"*/{MANIFEST}"))
        if versions:
            last_names = ", ".join(repr(name) for name in versions[-5:])
            return (
                f"; {str(parent)!r} holds {len(versions)} releases ({last_names}): name one, such as "
                f"{str(parent / versions[-1])!r}"
            )
    return f"; a release is the folder of a version, such as {str(folder / 'releases' / '1.0.0')!r}"


def why_withdrawn(mark: bytes) -> str:
    """Who removed the data of a release, by the mark that stays in its folder."""
    return "retention did not keep its data" if b"retention" in mark else "a takedown removed its data"


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a release. Raises BadInput when the folder is not a release that this version understands."""
    path = folder / MANIFEST
    if (gone := folder / WITHDRAWN).is_file():
        why = why_withdrawn(gone.read_bytes())
        raise BadInput(f"{str(folder)!r} was withdrawn: {why}; only the manifest stays")
    if path.exists() and not path.is_file():  # a pipe would be read for ever
        raise BadInput(f"{str(folder)!r} is not a release: its {MANIFEST} is no file")
    try:
        text = path.read_text(encoding="utf-8")
        manifest = Manifest.model_validate(json.loads(text, object_pairs_hook=_named_once))
        Policy.model_validate(manifest.policy)
        Funnel.model_validate(manifest.funnel)
        lacking = {*CONFIGS, "withheld_for_bench"} - manifest.counts.keys()
    except OSError:
        raise BadInput(f"{str(folder)!r} is not a release: it has no {MANIFEST}{releases_in(folder)}") from None
    except ValidationError as error:
        named = one_line(".".join(map(str, error.errors()[0]["loc"])), 100)
        raise BadInput(f"{_not_understood(path)} ({error.title}: {named})") from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{_not_understood(path)} ({type(error).__name__})") from None
    if lacking:
        raise BadInput(f"{_not_understood(path)} (counts lack {', '.join(sorted(lacking))})")
    return manifest


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object. Raises ValueError for a repeated name, because all but its last value would be ignored."""
    if len(named := dict(pairs)) != len(pairs):
        raise ValueError("a name twice")
    return named


def _not_understood(path: Path) -> str:
    """The message for a manifest that is broken or of another version."""
    advice = ""
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        advice = f"; it says that {maker(json.loads(path.read_bytes())['software'])} made it: use that"
    return f"{str(path)!r} is not a manifest this version understands{advice}"


def maker(software: object) -> str:
    """The version that made a release which this one does not understand; both may have the same number."""
    named = one_line(f"arena-curation {software}", 100)
    return f"another state of {named} than this one" if software == version("arena-curation") else named


@contextmanager
def fetched(location: str, config: str = "") -> Iterator[Path]:
    """The release as a local folder until the block ends. Raises BadInput, naming `location`, if it is unreadable.

    With `config`, such as battle, a remote release is copied with its manifest alone.
    """
    if not is_remote(location):
        yield Path(location)
        return
    with tempfile.TemporaryDirectory(prefix="release-") as folder:
        copy = Path(folder) / location.rstrip("/").rpartition("/")[2]
        _copy(location, copy, config)
        try:
            yield copy
        except CurateError as error:
            error.args = (str(error).replace(str(copy), location),)
            raise


def _copy(location: str, folder: Path, config: str) -> None:
    try:
        fs, path = fsspec.core.url_to_fs(location)
        there = fs.exists(f"{path.rstrip('/')}/{MANIFEST}")  # before a whole bucket is copied for nothing
        if there:
            part = f"{config}/" if config else ""
            fs.get(f"{path.rstrip('/')}/{part}", f"{folder}/{part}", recursive=True)
            fs.get(f"{path.rstrip('/')}/{MANIFEST}", f"{folder}/{MANIFEST}")
    except Exception as error:  # every object store has its own errors
        raise BadInput(
            f"{location!r} cannot be read ({why_unreadable(error)}); check the address and the credentials"
        ) from None
    if not there:
        raise BadInput(f"{location!r} is not a release: it has no {MANIFEST}")
