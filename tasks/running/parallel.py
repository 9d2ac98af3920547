"""Pools that give results in order and never run far ahead of their consumer."""

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    as_completed,
    wait,
)
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_ordered(function: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """`map(function, items)` on `workers` threads; at most `2 * workers` results are in flight."""
    if isinstance(items, Sequence) and len(items) == 1:
        yield function(items[0])  # no thread for one item
        return
    flying: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for item in items:
                flying.append(pool.submit(function, item))
                if len(flying) >= 2 * workers:
                    yield flying.popleft().result()
            while flying:
                yield flying.popleft().result()
        finally:
            _cancel(flying)


def map_as_done(function: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """`map(function, items)` on `workers` threads in whatever order results come: a slow one holds up no other."""
    flying: set[Future[Result]] = set()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for item in items:
                flying.add(pool.submit(function, item))
                if len(flying) >= 2 * workers:
                    done, flying = wait(flying, return_when=FIRST_COMPLETED)
                    yield from (each.result() for each in done)
            yield from (each.result() for each in as_completed(flying))
        finally:
            _cancel(flying)


def map_in_processes(function: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """`map(function, items)` in this process and `workers - 1` others, which it works with rather than waits for.

    The others hold two items each at most, so that none idles while this process is busy with an item of its own.
    """
    spawn = multiprocessing.get_context("spawn")  # a fork would copy the locks of Prefect's and polars' threads
    flying: deque[Future[Result]] = deque()
    with ProcessPoolExecutor(workers - 1, mp_context=spawn) as pool:
        try:
            for item in items:
                free = sum(not each.done() for each in flying) < 2 * (workers - 1)
                flying.append(pool.submit(function, item) if free else _done_here(function, item))
                while flying and flying[0].done():
                    yield flying.popleft().result()
            while flying:
                yield flying.popleft().result()
        finally:
            _cancel(flying)


def _done_here(function: Callable[[Item], Result], item: Item) -> Future[Result]:
    result: Future[Result] = Future()
    result.set_result(function(item))
    return result


def _cancel(futures: Iterable[Future[Result]]) -> None:
    for future in futures:
        future.cancel()
