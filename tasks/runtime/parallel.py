"""`map` on threads, processes or the workers of a task runner, with a bounded number of results in flight."""

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar

from schemas.settings import THREADS, Settings

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_ordered(function: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """`map(function, items)` on `workers` threads; at most `2 * workers` results are in flight."""
    return _in_order(ThreadPoolExecutor(workers), function, items, workers)


def map_in_processes(function: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """`map(function, items)` in `workers` processes; at most `2 * workers` results are in flight."""
    spawn = multiprocessing.get_context("spawn")  # a fork would copy the locks of Prefect's and polars' threads
    return _in_order(ProcessPoolExecutor(workers, mp_context=spawn), function, items, workers)


def _in_order(
    pool: Executor, function: Callable[[Item], Result], items: Iterable[Item], workers: int
) -> Iterator[Result]:
    running: deque[Future[Result]] = deque()
    with pool:
        try:
            for item in items:
                running.append(pool.submit(function, item))
                if len(running) >= 2 * workers:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def map_as_done(function: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """`map(function, items)` on `workers` threads, in the order of completion."""
    running: set[Future[Result]] = set()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for item in items:
                running.add(pool.submit(function, item))
                if len(running) >= 2 * workers:
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    yield from (each.result() for each in done)
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                yield from (each.result() for each in done)
        finally:
            pool.shutdown(cancel_futures=True)


class ShardRunner(Protocol):
    """Runs shards in other processes."""

    def map_ordered(self, work: Callable[[Item], Result], shards: Iterable[Item]) -> Iterator[Result]:
        """`map(work, shards)`, concurrently. `work` and shards are pickled; workers must reach store and files."""
        ...


_chosen: ContextVar[ShardRunner | None] = ContextVar("shard_runner", default=None)


@contextmanager
def shards_on(runner: ShardRunner) -> Iterator[None]:
    """Inside it, steps run their shards on `runner`."""
    token = _chosen.set(runner)
    try:
        yield
    finally:
        _chosen.reset(token)


def shard_runner(settings: Settings) -> ShardRunner | None:
    """The runner of these settings; None for threads of this process."""
    return None if settings.task_runner == THREADS else _chosen.get()
