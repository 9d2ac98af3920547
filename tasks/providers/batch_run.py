"""Questions asked through a vendor's batch API: collected, sent and read; then those that follow from the answers."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from tasks.providers.capabilities import WAITING, BatchQueue, Failed
from tasks.runtime.parallel import map_as_done

Item = TypeVar("Item")
Result = TypeVar("Result")
WORKERS = 4
"""Threads that make requests, which includes encoding their images."""


class BatchRun(Generic[Item, Result]):
    """Runs the calls of some items through a vendor's batch API; follow-up questions go into further batches."""

    def __init__(self, queue: BatchQueue, work: Callable[[Item], Result | Failed], items: Sequence[Item]) -> None:
        """Collects the items' questions and sends them."""
        self._queue, self._work, self._items = queue, work, items
        for _ in self._results(items):
            pass  # every reply is still awaited
        queue.send()

    def results(self) -> Iterator[Result | Failed]:
        """Waits for the answers; questions that follow from them are sent as further batches."""
        waiting, more = self._items, True
        while more:
            self._queue.wait()
            left = []
            for item, result in self._results(waiting):
                if result == Failed(WAITING):
                    left.append(item)
                else:
                    yield result
            waiting, more = left, self._queue.send()
        yield from (Failed(WAITING) for _ in waiting)

    def _results(self, items: Iterable[Item]) -> Iterator[tuple[Item, Result | Failed]]:
        return map_as_done(lambda item: (item, self._work(item)), items, WORKERS)
