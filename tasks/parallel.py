"""Pools that give results in order and never run far ahead of their consumer."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_ordered(function: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """`map(function, items)` on `workers` threads; at most `2 * workers` results are in flight."""
    with ThreadPoolExecutor(workers) as pool:
        yield from map_in_pool(pool, function, items, 2 * workers)


def map_in_pool(
    pool: Executor, function: Callable[[Item], Result], items: Iterable[Item], in_flight: int
) -> Iterator[Result]:
    """`map(function, items)` in a pool of threads or processes; at most `in_flight` results wait."""
    flying: deque[Future[Result]] = deque()
    try:
        for item in items:
            flying.append(pool.submit(function, item))
            if len(flying) >= in_flight:
                yield flying.popleft().result()
        while flying:
            yield flying.popleft().result()
    finally:
        for future in flying:
            future.cancel()
