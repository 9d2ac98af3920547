"""Storage errors: a full disk, or an object store that does not answer, as one clear line."""

import errno
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from fsspec.implementations.local import LocalFileSystem

from schemas.errors import CurateError, StoreUnwell, why_unreadable
from tasks.storage.tables import Store

_CLIENTS = {"aiobotocore", "aiohttp", "botocore", "gcsfs"}
_JOINS = {"duckdb", "_duckdb"}
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


def from_object_store(error: BaseException | None) -> bool:
    """Whether an error, or one that caused it, is from an object store's client; a missing file does not count."""
    while error is not None and not isinstance(error, FileNotFoundError):
        if _package(error) in _CLIENTS:
            return True
        error = error.__cause__
    return False


def _package(error: BaseException) -> str:
    return type(error).__module__.partition(".")[0]


def _full(error: BaseException | None) -> str | None:
    scratch = tempfile.gettempdir()
    while error is not None:
        disk_full = isinstance(error, OSError) and error.errno in _FULL
        beside = disk_full and getattr(error, "filename", None) == scratch
        if beside or (_package(error) in _JOINS and "No space left" in str(error)):
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
