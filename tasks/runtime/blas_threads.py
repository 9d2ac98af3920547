"""Runs BLAS on one thread: results do not depend on the number of cores, and small matrices are faster."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import scipy.linalg  # noqa: F401 - loads scipy's OpenBLAS, so that it is limited as well as numpy's
from threadpoolctl import threadpool_limits


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Context manager and decorator: limits BLAS to one thread, in all threads of this process and until it ends.

    The limit is not lifted at the end, because other threads may still be computing, and a sum over two threads rounds
    differently. `map_ordered` and the libraries' own pools spread work over cores.
    """
    _limit()
    yield


@cache
def _limit() -> None:
    threadpool_limits(1, "blas")
