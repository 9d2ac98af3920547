"""The write lock of a store: one command or flow writes at a time."""

import re
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout
from fsspec.implementations.local import LocalFileSystem

from schemas.errors import BadInput
from schemas.tables import TABLES
from tasks.storage.lease import leased
from tasks.storage.storage_errors import storage_errors
from tasks.storage.tables import Store

_FILE, _SINCE = "writing.lock", "writing.since"
_HALF = re.compile(r"\.\d+\.tmp$")
"""Suffix of a file in a local folder until it is completely written."""
_HOLDERS: dict[str, int] = {}
"""Stores locked by this process -> number of nested `writing` blocks: a flow, and the stages it calls."""
_HOLDS: dict[str, ExitStack] = {}
_GUARD = threading.Lock()


@contextmanager
def writing(root: str) -> Iterator[Store]:
    """Lock a store for writing and yield it. Raises BadInput at once when another process writes to it.

    On a local folder the lock ends with the process, even if it is killed. On an object store it is a lease, which
    expires 10 minutes after a killed writer.
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


def sweep(store: Store) -> None:
    """Remove incomplete files and unlisted parts that killed writers left. Call it only while holding the lock."""
    found = store.fs.find(store.path)
    for path in found:
        if _HALF.search(path):
            store.fs.rm_file(path)
    tables = {path.removeprefix(f"{store.path}/tables/").rsplit("/", 1)[0] for path in found}
    for table in sorted(tables & TABLES.keys()):
        store.purge(table)


def _hold(store: Store) -> AbstractContextManager[None]:
    return _local(store) if isinstance(store.fs, LocalFileSystem) else leased(store)


@contextmanager
def _local(store: Store) -> Iterator[None]:
    since = Path(store.at(_SINCE))
    try:
        with storage_errors(store), FileLock(store.at(_FILE), timeout=0, thread_local=False):
            since.write_text(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC")
            try:
                yield
            finally:
                since.unlink()
                Path(store.at(_FILE)).unlink()  # still locked: filelock handles a lock file that was removed
    except Timeout:
        began = since.read_text() if since.exists() else "just now"
        raise BadInput(
            f"another run has been writing to store {store.root!r} since {began or 'just now'}; wait for it to end"
        ) from None
