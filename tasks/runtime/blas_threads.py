"""Linear algebra on one thread: the same numbers on any number of cores, and for small matrices the faster way."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import scipy.linalg  # noqa: F401 - loads scipy's own OpenBLAS, so that it is limited with numpy's
from threadpoolctl import threadpool_limits


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Within it BLAS has one thread, in every thread of this process; a decorator as well.

    BLAS keeps one thread until the process ends. Were the limit taken back, whoever leaves first would take it from
    those who are still computing, and a sum that is split over two threads is rounded otherwise than on one. Work is
    spread over cores by `map_ordered` and the libraries' own pools.
    """
    _limit()
    yield


@cache
def _limit() -> None:
    threadpool_limits(1, "blas")
