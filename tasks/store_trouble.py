"""What goes wrong with the place where a store lies, told in one line."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from fsspec.implementations.local import LocalFileSystem

from schemas.errors import CurateError, StoreUnwell
from tasks.tables import Store

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def told(store: Store) -> Iterator[None]:
    """Raises StoreUnwell for what comes of a full disk or of a store that does not answer; the rest as it is."""
    try:
        yield
    except CurateError:
        raise
    except Exception as error:  # Parquet writers and object stores have errors of their own
        what = _full(error) or _out_of_reach(store)
        if what is None:
            raise
        raise StoreUnwell(
            f"store {store.root!r} {what}; what was stored stays. Mend that and run again: it goes on from there"
        ) from error


def _full(error: BaseException | None) -> str | None:
    while error is not None:
        if isinstance(error, OSError) and error.errno in _FULL:
            return f"has no room left ({error.strerror or 'disk full'})"
        error = error.__cause__ or error.__context__
    return None


def _out_of_reach(store: Store) -> str | None:
    if isinstance(store.fs, LocalFileSystem):
        return None
    try:
        store.fs.invalidate_cache()
        store.fs.exists(store.at("tables")) or store.fs.info(store.at("tables"))
    except FileNotFoundError:
        return None
    except Exception as error:  # every object store has its own errors
        return f"cannot be reached ({type(error).__name__})"
    return None
