"""The write lock of a store: one command or flow writes at a time.

In a local folder it is a lock file, which ends with its process. On an object store it is a lease: a file that its
writer renews and that expires otherwise. The age of a lease is measured by the object store's clock, so the clocks of
machines do not matter. A run that takes over an expired lease waits a few seconds and checks that no other run did the
same. A run that finds another run's lease in place of its own stops. A full disk, or an object store that does not
answer, is one clear line.
"""

import _thread
import errno
import math
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from filelock import FileLock, Timeout
from fsspec.implementations.local import LocalFileSystem

from schemas.errors import CurateError, StoreBusy, StoreUnwell, why_unreadable
from schemas.tables import TABLES
from tasks.runtime.parallel import map_ordered
from tasks.storage.parquet import REQUESTS_AT_ONCE
from tasks.storage.tables import HOLDS, LIST_FILE, LISTS, Store, from_object_store

_FILE, _SINCE, _PROBE = "writing.lock", "writing.since", "writing.probe"
_HALF = re.compile(r"\.\d+\.tmp$")
"""Suffix of a file in a local folder until it is completely written."""
_PATIENCE_SECONDS = 0.5
"""A reviewer's verdict is stored within this time; a run need not fail for it."""
_HELD: dict[str, list[ExitStack]] = {}
"""Stores locked by this process -> one entry for each nested `writing` block (a flow, and the stages it calls).

The first entry holds the lock.
"""
_GUARD = threading.Lock()


@contextmanager
def writing(root: str, any_layout: bool = False) -> Iterator[Store]:
    """Lock a store for writing and yield it. Raises StoreBusy when another process writes to it, and as `Store.open`.

    On a local folder the lock ends with the process, even if it is killed. On an object store it is a lease, which
    expires 10 minutes after a killed writer.
    """
    store, stack = Store.open(root, any_layout), ExitStack()
    key = f"{type(store.fs).__name__}:{store.path}"
    with _GUARD:
        if key not in _HELD:
            stack.enter_context(_local(store) if isinstance(store.fs, LocalFileSystem) else leased(store))
        _HELD.setdefault(key, []).append(stack)
    try:
        yield store
    finally:
        with _GUARD:
            if len(_HELD[key]) > 1:
                _HELD[key].pop()
            else:
                _HELD.pop(key)[0].close()


def remove_leftovers(store: Store) -> None:
    """Remove incomplete files and unlisted parts that killed writers left. Call it only while holding the lock."""
    store.fs.invalidate_cache()
    files: dict[str, list[str]] = {}
    for path in store.fs.find(store.path):
        if _HALF.search(path):
            store.require_held()
            store.fs.rm_file(path)
        else:
            files.setdefault(path.removeprefix(f"{store.path}/tables/").rsplit("/", 1)[0], []).append(path)
    # Tables of a later version count, too, by their lists: a takedown removes rows from them.
    there = sorted(
        table for table, paths in files.items() if table in TABLES or store.at(f"tables/{table}/{LIST_FILE}") in paths
    )
    for table, _ in zip(there, map_ordered(store.parts, there, REQUESTS_AT_ONCE), strict=True):
        store.purge(table, files[table])
    if store.path in HOLDS:
        LISTS.update({(store.path, table): [] for table in TABLES.keys() - files.keys()})


@contextmanager
def _local(store: Store) -> Iterator[None]:
    since = Path(store.at(_SINCE))
    try:
        with storage_errors(store), FileLock(store.at(_FILE), timeout=_PATIENCE_SECONDS, thread_local=False):
            since.write_text(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC")
            try:
                yield
            finally:
                since.unlink(missing_ok=True)
                Path(store.at(_FILE)).unlink(missing_ok=True)  # filelock handles a lock file that was removed
    except Timeout:
        began = (store.read_bytes(_SINCE) or b"").decode("utf-8", "replace")
        raise StoreBusy(
            f"another run has been writing to store {store.root!r} since {began or 'just now'}; wait for it to end"
        ) from None


class Terms(NamedTuple):
    """Times of a lease, in seconds."""

    renewed_every: float = 60.0
    """Time between two renewals."""
    expires_after: float = 600.0
    """Time without a renewal after which another run may take over."""
    settles_in: float = 3.0
    """Time within which every run that found the same expired lease has tried to take it."""


@contextmanager
def leased(store: Store, terms: Terms | None = None) -> Iterator[None]:
    """Hold the store's lease. Raises StoreBusy when another run holds it; interrupts this run if it loses the lease."""
    terms, lease = terms or Terms(), f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC {uuid4().hex}".encode()
    _take(store, lease, terms)
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # shells make background processes ignore it
    hold = _Hold(store, lease, terms)
    renewing = threading.Thread(target=hold.renew, daemon=True)
    renewing.start()
    HOLDS[store.path] = hold.require
    try:
        yield
    finally:
        del HOLDS[store.path]
        for table in TABLES:
            LISTS.pop((store.path, table), None)
        hold.ended.set()
        renewing.join()
        with suppress(Exception):  # if the store does not answer, the lease expires
            if store.read_bytes(_FILE) == lease:
                store.fs.rm_file(store.at(_FILE))


def _take(store: Store, lease: bytes, terms: Terms) -> None:
    if _created(store, lease):
        return
    if _age_seconds(store) >= terms.expires_after:
        _removed(store, _FILE)
        if _created(store, lease):
            time.sleep(terms.settles_in)
            if store.read_bytes(_FILE) == lease:
                return
    since = (store.read_bytes(_FILE) or b"").decode("utf-8", "replace")[: len("2026-01-01 00:00:00 UTC")]
    raise StoreBusy(
        f"another run has been writing to store {store.root!r} since {since or 'just now'}; wait for it to end. "
        f"If it was killed, its hold ends by itself {terms.expires_after / 60:.0f} minutes after it"
    )


def _created(store: Store, lease: bytes) -> bool:
    try:
        store.create_bytes(_FILE, lease)
    except FileExistsError:
        return False
    return True


def _age_seconds(store: Store) -> float:
    """Seconds since the lease was renewed, by the object store's clock; 0 when there is no lease file any more."""
    store.fs.pipe_file(store.at(_PROBE), b"")
    store.fs.invalidate_cache()
    try:
        age = store.fs.modified(store.at(_PROBE)) - store.fs.modified(store.at(_FILE))
        return float(age.total_seconds())
    except FileNotFoundError:
        return 0.0
    finally:
        _removed(store, _PROBE)


def _removed(store: Store, name: str) -> None:
    with suppress(FileNotFoundError):  # another run that asks at the same time was faster
        store.fs.rm_file(store.at(name))


def _now() -> float:
    """A monotonic clock in seconds that also runs while the machine is suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class _Hold:
    """A lease that this process has taken, and renews."""

    def __init__(self, store: Store, lease: bytes, terms: Terms) -> None:
        self._store, self._lease, self._terms = store, lease, terms
        self.ended = threading.Event()
        self._renewed_at = _now()
        self._one_at_a_time = threading.Lock()

    def renew(self) -> None:
        """Renew the lease until it is ended; interrupts this process when another run holds it."""
        while not self.ended.wait(self._terms.renewed_every):
            # Every object store has its own errors; the run itself meets and reports the same one.
            with suppress(Exception), self._one_at_a_time:
                if self._is_lost() and not self.ended.is_set():
                    sys.stderr.write(f"curate: another run has taken store {self._store.root!r} over; this one stops\n")
                    _thread.interrupt_main()
                    return

    def require(self) -> None:
        """Raises StoreUnwell when another run holds the lease, and ends the renewing, which would say the same again.

        The lease file is read only when it was lost, or may have expired since the last renewal, as after a suspend: by
        the first of the threads that ask. An object store that does not answer then raises its own error.
        """
        if not self._may_have_expired():
            return
        with self._one_at_a_time:
            is_lost = self._may_have_expired() and self._is_lost()
        if is_lost:
            self.ended.set()
            raise StoreUnwell(
                f"store {self._store.root!r} was taken over by another run while this one stood still; nothing more is "
                "written. Run it again when the other has ended"
            )

    def _may_have_expired(self) -> bool:
        return _now() - self._renewed_at > self._terms.expires_after - self._terms.renewed_every

    def _is_lost(self) -> bool:
        """Renew the lease. True when another run holds it. Raises as an object store does that does not answer."""
        began = _now()
        if self._store.read_bytes(_FILE) != self._lease:
            self._renewed_at = -math.inf  # nothing more may be written
            return True
        self._store.fs.pipe_file(self._store.at(_FILE), self._lease)
        self._renewed_at = began
        return False


_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def storage_errors(store: Store) -> Iterator[None]:
    """Turn errors of a full disk or an unreachable object store into StoreUnwell; other errors pass unchanged."""
    try:
        yield
    except CurateError:
        raise
    except Exception as error:  # Parquet writers and object stores have errors of their own
        what = _full(error) or _out_of_reach(store, error)
        if what is None:
            raise
        raise StoreUnwell(
            f"store {store.root!r} {what}; what was stored stays. Mend that and run again: it goes on from there"
        ) from error


def _package(error: BaseException) -> str:
    return type(error).__module__.partition(".")[0]


def _full(error: BaseException | None) -> str | None:
    scratch = tempfile.gettempdir()
    while error is not None:
        disk_full = isinstance(error, OSError) and error.errno in _FULL
        if disk_full and getattr(error, "filename", None) == scratch:
            return f"cannot be worked on: the temporary folder {scratch!r} (TMPDIR) has no room left"
        if disk_full:
            return f"has no room left ({getattr(error, 'strerror', None) or 'disk full'})"
        error = error.__cause__ or error.__context__
    return None


def _out_of_reach(store: Store, error: Exception) -> str | None:
    """Words for an object store that does not answer: by the error, or by asking it now."""
    if not from_object_store(error):
        if isinstance(store.fs, LocalFileSystem):
            return None
        try:
            store.fs.invalidate_cache()
            store.fs.exists(store.at("tables")) or store.fs.info(store.at("tables"))
            return None
        except FileNotFoundError:
            return None
        except Exception as unreachable:  # every object store has its own errors
            error = unreachable
    return f"cannot be reached ({why_unreadable(error)})"
