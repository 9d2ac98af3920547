"""A thread pool that gives results in order and never runs far ahead of its consumer."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_ordered(function: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """`map(function, items)` on `workers` threads; at most `2 * workers` results are in flight."""
    with ThreadPoolExecutor(workers) as pool:
        flying: deque[Future[Result]] = deque()
        try:
            for item in items:
                flying.append(pool.submit(function, item))
                if len(flying) >= 2 * workers:
                    yield flying.popleft().result()
            while flying:
                yield flying.popleft().result()
        finally:
            for future in flying:
                future.cancel()
