"""Asks a model about some items, at once or in batches, and stores results as they arrive. A failure stores nothing."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from schemas.row import Row
from schemas.run import LATER_CAUSES, PAUSED, StageReport
from tasks.providers.capabilities import WAITING, BatchQueue, Failed
from tasks.runtime.budget import ledger
from tasks.runtime.parallel import map_as_done
from tasks.runtime.progress import progress
from tasks.storage.parts import append_incrementally
from tasks.storage.tables import Store

WORKERS = 4
"""Threads that make requests, which includes encoding their images."""
Item = TypeVar("Item")
Result = TypeVar("Result")
AnyRow = TypeVar("AnyRow", bound=Row)


@dataclass
class Work:
    """The calls of a stage, those that failed, and what was made."""

    calls: Counter[str] = field(default_factory=Counter)
    """Results by capability or model."""
    failures: Counter[str] = field(default_factory=Counter)
    """`capability: reason` of calls that gave nothing."""
    counts: Counter[str] = field(default_factory=Counter)
    """Rows that were made, by kind."""

    def took(self, name: str, result: Row | Failed) -> bool:
        """Count a result of a capability or model; whether it is one."""
        self.calls[name] += 1
        if isinstance(result, Failed):
            self.failures[f"{name}: {result.reason}"] += 1
        return not isinstance(result, Failed)

    def report(self, stage: str, notes: Sequence[str] = ()) -> StageReport:
        """The counts by name; failures that follow from others come last."""
        named = sorted(
            self.failures.items(), key=lambda failure: (LATER_CAUSES.get(failure[0].rpartition(": ")[2], 0), failure[0])
        )
        counts, calls = dict(sorted(self.counts.items())), dict(sorted(self.calls.items()))
        return StageReport(stage=stage, counts=counts, model_calls=calls, failures=dict(named), notes=list(notes))


def ask_each(title: str, ask: Callable[[Item], Result], items: Sequence[Item], calls_at_once: int) -> Iterator[Result]:
    """`ask(item)` for every item in the order of completion, with progress under `title`.

    A paused service is tried once more at the end; if it answers, so are the items that it left.
    """
    postponed = list[Item]()
    with progress(title, len(items)) as advance:
        for item, result in map_as_done(lambda item: (item, ask(item)), items, calls_at_once):
            if result == Failed(PAUSED):
                postponed.append(item)
            else:
                yield result
                advance()
        if postponed:
            ledger().try_again()
        for result in map_as_done(ask, postponed, calls_at_once):
            yield result
            advance()


def ask_missing(
    title: str,
    ask: Callable[[Item], Result | Failed],
    items: Sequence[Item],
    calls_at_once: int,
    queue: BatchQueue | None = None,
) -> Iterator[Result | Failed]:
    """Results of `ask(item)` for every item: by calls at once, or through a vendor's batch API with its `queue`.

    All questions of a batch are sent before this returns, and awaited by who reads the results.
    """
    if queue is None:
        return ask_each(title, ask, items, calls_at_once)
    return BatchRun(queue, ask, items).results()  # waiting shows progress itself


def store_results(
    store: Store,
    table: str,
    results: Iterable[AnyRow | Failed],
    name: str,
    work: Work,
    kind: Callable[[AnyRow], str] | None = None,
) -> None:
    """Append every result to its table soon after it arrives; `kind` names what it is counted as, besides the call."""
    with append_incrementally(store, table) as keep:
        for result in results:
            if work.took(name, result) and not isinstance(result, Failed):
                keep([result.model_dump()])
                if kind is not None:
                    work.counts[kind(result)] += 1


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
            unanswered = []
            for item, result in self._results(waiting):
                if result == Failed(WAITING):
                    unanswered.append(item)
                else:
                    yield result
            waiting, more = unanswered, self._queue.send()
        yield from (Failed(WAITING) for _ in waiting)

    def _results(self, items: Iterable[Item]) -> Iterator[tuple[Item, Result | Failed]]:
        return map_as_done(lambda item: (item, self._work(item)), items, WORKERS)
