"""Where shards run: in this process, or in the worker processes of a task runner that the flow has chosen.

A shard is some thousands of items that are measured independently. Its worker writes unlisted parts and returns their
names; this process lists them in the order of the shards.
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
        """`map(work, shards)`, some at once. `work` and shards are pickled; the workers reach store and files."""
        ...


_chosen: ContextVar[ShardRunner | None] = ContextVar("shard_runner", default=None)


@contextmanager
def shards_on(runner: ShardRunner) -> Iterator[None]:
    """Within it, steps that have shards give them to `runner`."""
    token = _chosen.set(runner)
    try:
        yield
    finally:
        _chosen.reset(token)


def shard_runner(settings: Settings) -> ShardRunner | None:
    """Who runs the shards of a step with these settings; None for this process's threads."""
    return None if settings.task_runner == THREADS else _chosen.get()
