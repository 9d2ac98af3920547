"""Linear algebra on one thread: the same numbers whatever runs beside it, and for small matrices the faster way."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from threading import Lock

from threadpoolctl import threadpool_limits


class _Limit:
    """The limit of this process, which has users in several threads.

    Were each of them to set and restore it, the first to leave would give threads to those who stay, and a sum that is
    split over two threads is rounded otherwise than on one. threadpoolctl lets one thread alone set it, so a thread of
    its own does: packages that set limits of theirs change nothing meanwhile.
    """

    def __init__(self) -> None:
        self._begin()
        os.register_at_fork(after_in_child=self._begin)  # the thread stays behind, and who waits for it waits for ever

    def _begin(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._setter = ThreadPoolExecutor(1, "blas-limit")
        self._set = ExitStack()

    def enter(self) -> None:
        with self._lock:
            if not self._users:
                self._setter.submit(lambda: self._set.enter_context(threadpool_limits(1, "blas"))).result()
            self._users += 1

    def leave(self) -> None:
        with self._lock:
            self._users = max(0, self._users - 1)  # a forked process leaves what its parent entered
            if not self._users:
                self._setter.submit(self._set.close).result()


_limit = _Limit()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Within it BLAS has one thread, in every thread of this process; a decorator as well.

    200 models are rated six times faster so on two cores: threads would spend their time waiting for each other.
    """
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()
