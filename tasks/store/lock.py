"""One writer at a time: a store is held while a command or a flow writes to it."""

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from fsspec.implementations.local import LocalFileSystem

from schemas.errors import BadInput
from tasks.store.lease import leased
from tasks.tables import Store

_FILE = "writing.lock"
_HOLDERS: dict[str, int] = {}
"""Stores that this process holds, with the number of nested holders: a flow, and the stages it calls."""
_HOLDS: dict[str, ExitStack] = {}
_GUARD = threading.Lock()


@contextmanager
def writing(root: str) -> Iterator[Store]:
    """Hold a store for writing, and give it. Raises BadInput at once when another process writes to it.

    On a local folder the hold ends with the process, however that ends; on an object store it is a lease, which ends
    some minutes after a killed writer.
    """
    store = Store.open(root)
    key = f"{type(store.fs).__name__}:{store.path}"
    with _GUARD:
        if key not in _HOLDERS:
            stack = ExitStack()
            stack.enter_context(_hold(store))
            _HOLDS[key] = stack
        _HOLDERS[key] = _HOLDERS.get(key, 0) + 1
    try:
        yield store
    finally:
        with _GUARD:
            _HOLDERS[key] -= 1
            if not _HOLDERS[key]:
                del _HOLDERS[key]
                _HOLDS.pop(key).close()


def _hold(store: Store) -> AbstractContextManager[None]:
    return _local(store) if isinstance(store.fs, LocalFileSystem) else leased(store)


@contextmanager
def _local(store: Store) -> Iterator[None]:
    path = Path(store.at(_FILE))
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = path.exists() and os.path.samestat(path.stat(), os.fstat(file.fileno()))
        except BlockingIOError:
            held = False
        if not held:  # or its holder removed it after we opened it
            file.seek(0)
            raise _taken(store, file.read())
        file.truncate(0)
        file.write(_since())
        file.flush()
        try:
            yield
        finally:
            path.unlink()


def _since() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _taken(store: Store, since: str) -> BadInput:
    began = since or "just now"
    return BadInput(f"another run has been writing to store {store.root!r} since {began}; wait for it to end")
