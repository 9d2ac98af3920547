"""Says what a place is that was given as a store and is none: a release, a part of a store, a folder above stores."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.storage.tables import Store

_LEVELS = 4
"""Folders above a place that are looked at, as many as a shard of a release has in its store."""
_RELEASE, _TABLES = "manifest.json", "tables/*/parts.json"


def is_release(store: "Store") -> bool:
    """Whether the place has the manifest of a release."""
    return bool(store.fs.exists(store.at(_RELEASE)))


def not_a_store(store: "Store") -> str:
    """One line that says what the place of a store is instead, and what to give."""
    given = repr(store.root)
    if not store.fs.exists(store.path):
        return (
            f"{given} is not a store: there is no such folder. `curate run --logs DIR --store {store.root}` makes one"
        )
    what = "a release" if is_release(store) else "a folder" if store.fs.isdir(store.path) else "a file"
    if (above := next(_above(store), None)) is not None:
        return f"{given} is {what} of store {above!r}, not a store; give {above!r}"
    if what == "a release":
        return f"{given} is a release, not a store; give the store that it was made in"
    if below := _below(store):
        named = ", ".join(map(repr, below[:3])) + (" …" if len(below) > 3 else "")
        return f"{given} is not a store, but holds {len(below)} ({named}); give {below[0]!r}"
    if what == "a file":
        return f"{given} is a file, not a store; give the folder of one"
    return f"{given} is not a store: it has no tables. `curate run --logs DIR --store {store.root}` makes one of it"


def _above(store: "Store") -> Iterator[str]:
    """The stores that the place is in, nearest first, spelled as the place was."""
    path, given = store.path, store.root.rstrip("/")
    for _ in range(_LEVELS):
        path, given = path.rpartition("/")[0], given.rpartition("/")[0]
        if not path:
            return
        if store.fs.isdir(f"{path}/tables"):
            yield given if given and not given.endswith("/") else path


def _below(store: "Store") -> list[str]:
    """Stores in folders of the place, and in folders of these."""
    found = {
        path.rsplit("/", 3)[0].removeprefix(f"{store.path}/")
        for levels in ("*", "*/*")
        for path in store.fs.glob(f"{store.path}/{levels}/{_TABLES}")
    }
    return [f"{store.root.rstrip('/')}/{each}" for each in sorted(found)]
