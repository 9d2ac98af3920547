"""Many questions asked together through a vendor's batch interface: slower, cheaper, and never paid twice.

A question is named by the hash of its whole request. Which batch holds which names is written to the store before
the batch is made, so that the next run goes on where a run was killed or did not wait.
"""

import itertools
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from schemas.run import Use
from tasks.providers.production.batches import (
    BatchApi,
    BatchRecord,
    BatchRecords,
    Ended,
    Outcome,
    Request,
    question_name,
)
from tasks.providers.production.calls import CallFailed, Service
from tasks.runtime.budget import Bill, ledger
from tasks.runtime.progress import progress
from tasks.storage.tables import Store

WAITING = "waiting_for_batch"
POLLS_PER_RETRY_WAIT = 10
"""The first look at a batch comes after so many of the first waits after a failure."""


class Overnight:
    """The questions of one model: collected, asked together, and answered from what came back."""

    def __init__(self, api: BatchApi, service: Service, store: Store, hours: float) -> None:
        self._api, self._service = api, service
        self._records = BatchRecords(store, service.name)
        self._bills: dict[str, Bill] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._asked: set[str] = set()
        self._collecting, self._lock = True, threading.Lock()
        self._folder = tempfile.TemporaryDirectory(prefix="curate-batch-")
        self._file = Path(self._folder.name) / "questions.jsonl"
        self._in_file: list[str] = []
        self._ended: list[tuple[BatchRecord, Sequence[str]]] = []
        self._until = time.monotonic() + hours * 3600
        self._find_again()

    def answer(self, request: Request, most_usd: float | None) -> str:
        """What the model said to one question. Raises CallFailed: while collecting, because the answer is awaited."""
        name = question_name(request)
        with self._lock:
            if self._collecting and name not in self._outcomes:
                self._collect(name, request, most_usd)
            outcome = self._outcomes.get(name, Outcome(failure=WAITING))
        if outcome.failure:
            raise CallFailed(outcome.failure)
        return outcome.text

    def _collect(self, name: str, request: Request, most_usd: float | None) -> None:
        """Put a question in the file, unless it is there, or in a batch of an earlier run, or has no room."""
        new = name not in self._asked
        self._asked.add(name)
        if not new or self._records.holding(name):
            return
        bill = ledger().reserve(self._service.name, most_usd, wait=False)
        if bill is None:
            self._outcomes[name] = Outcome(failure="budget_reached")
            return
        self._bills[name] = bill
        line = self._api.line(name, request)
        size = self._file.stat().st_size if self._in_file else 0
        if len(self._in_file) >= self._api.requests_max or size + len(line) > self._api.bytes_max:
            self._send()
        with self._file.open("ab") as file:
            file.write(line)
        self._in_file.append(name)

    def send(self) -> None:
        """Send what is left. From now on no question is new."""
        with self._lock:
            if self._in_file:
                self._send()
            self._collecting = False

    def _send(self) -> None:
        """Upload the file and make a batch of it. Its record is in the store first."""
        names, self._in_file = self._in_file, []
        record = self._records.begin(names)
        try:
            self._records.made(record, self._service.again(self._make(record)))
        except CallFailed as failure:
            if failure.unbilled:
                self._records.forget(record)
            self._close(names, failure.reason, billed=not failure.unbilled)
        finally:
            self._file.unlink()

    def _make(self, record: BatchRecord) -> Callable[[], str]:
        """Gives the id of a new batch. A lost answer may hide a batch that was made: later tries look for it first."""
        tries = itertools.count()

        def make() -> str:
            found = self._api.find(record.token, record.created_at) if next(tries) else None
            return found or self._api.make(self._file, record.token)

        return make

    def _find_again(self) -> None:
        """Batches of earlier runs. One without the vendor's id was cut off while it was made, or before."""
        for record in [record for record in self._records.open.values() if not record.batch_id]:
            try:
                found = self._service.again(partial(self._api.find, record.token, record.created_at))
            except CallFailed as failure:  # they may be under way: not to be asked again until we know
                self._close(record.names, failure.reason, billed=True)
                continue
            if found:
                self._records.made(record, found)
            else:
                self._records.forget(record)

    def wait(self) -> None:
        """Look at the batches now and then until all have ended or the hours are over."""
        mine = [
            each for each in self._records.open.values() if each.batch_id and not self._asked.isdisjoint(each.names)
        ]
        pause = POLLS_PER_RETRY_WAIT * self._service.first_seconds
        with progress("answers of batches", sum(len(record.names) for record in mine)) as advance:
            while mine := [record for record in mine if not self._has_ended(record)]:
                advance(0)
                left = self._until - time.monotonic()
                if left <= 0:
                    break
                time.sleep(min(left, pause))
                pause = min(self._service.longest_seconds, pause * 1.5)
        for record in mine:
            self._close(record.names, "batch_unfinished", billed=True)

    def _has_ended(self, record: BatchRecord) -> bool:
        """Whether a batch has ended; if so, its outcomes are here. A vendor that cannot be reached is asked later."""
        try:
            ended = self._service.again(lambda: self._api.ended(record.batch_id))
        except CallFailed as failure:
            if failure.may_pass or failure.reason in ("http_401", "http_403"):
                return False
            ended = Ended(reason="batch_lost")
        if ended is None:
            return False
        self._take(record.names, ended.outcomes)
        self._close(record.names, ended.reason, billed=ended.billed)
        self._ended.append((record, ended.files))
        return True

    def _take(self, names: frozenset[str], found: Sequence[tuple[str, Outcome]]) -> None:
        """The outcomes of questions that were asked; two outcomes of one question are no answer."""
        seen = set[str]()
        for name, outcome in found:
            if name in seen:
                self._outcomes[name] = Outcome(failure="contradictory_answer")
            elif name in names:
                self._outcomes[name] = outcome
                self._pay(name, outcome)
                seen.add(name)

    def _pay(self, name: str, outcome: Outcome) -> None:
        price = ledger().prices.tokens(self._service.name)
        with self._bills.pop(name, None) or ledger().late_bill(self._service.name) as bill:
            if outcome.unbilled:
                bill.nothing()
            elif outcome.input_tokens is not None and outcome.output_tokens is not None:
                usd = price.batch_usd(outcome.input_tokens, outcome.output_tokens) if price else 0.0
                used = {"input_tokens": outcome.input_tokens, "output_tokens": outcome.output_tokens}
                bill.settle(Use(calls=1, usd=usd, **used))

    def _close(self, names: Iterable[str], reason: str, *, billed: bool) -> None:
        """A failure for every question that has no outcome yet."""
        for name in names:
            if name in self._outcomes:
                continue
            self._outcomes[name] = Outcome(failure=reason)
            if bill := self._bills.pop(name, None):
                with bill:
                    if not billed:
                        bill.nothing()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Batches whose answers are stored are forgotten, here and, as far as possible, at the vendor."""
        for bill in self._bills.values():
            with bill:
                bill.nothing()
        if error is None:
            for record, files in self._ended:
                self._records.forget(record)
                self._api.remove(files)
        self._folder.cleanup()
