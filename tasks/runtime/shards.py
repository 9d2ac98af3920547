"""Where shards run: in this process, or in the worker processes of the flow's task runner.

A shard is some thousands of items that are measured independently. Its worker writes parts and returns their names;
this process then lists them in their table, in shard order.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar

from schemas.settings import THREADS, Settings

Shard = TypeVar("Shard")
Done = TypeVar("Done")


class ShardRunner(Protocol):
    """Runs shards in other processes."""

    def map_ordered(self, work: Callable[[Shard], Done], shards: Iterable[Shard]) -> Iterator[Done]:
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
