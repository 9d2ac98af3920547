"""Many questions asked together through a vendor's batch interface: slower, cheaper, and never paid twice.

A question is named by the hash of its whole request. Which batch holds which names is written to the store before
the batch is made, so a run that was killed, or did not want to wait, is taken up by the next one where it was.
"""

import tempfile
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from schemas.run import Use
from tasks.providers.production.batch_api import BatchApi, Outcome, Request, question_name
from tasks.providers.production.batch_records import BatchRecord, BatchRecords
from tasks.providers.production.retries import CallFailed, Retries
from tasks.running.progress import progress
from tasks.spending.ledger import Bill, ledger
from tasks.spending.prices import TokenPrice
from tasks.tables import Store

WAITING = "waiting_for_batch"
POLLS_PER_RETRY_WAIT = 10
"""The first look at a batch comes after so many of the first waits after a failure."""


class Overnight:
    """The questions of one model: collected, asked together, and answered from what came back."""

    def __init__(self, api: BatchApi, service: str, store: Store, retries: Retries, hours: float) -> None:
        self._api, self._service, self._retries, self._hours = api, service, retries, hours
        self._records = BatchRecords(store, service)
        self._bills: dict[str, Bill] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._asked: set[str] = set()
        self._collecting, self._lock = True, threading.Lock()
        self._folder = tempfile.TemporaryDirectory(prefix="curate-batch-")
        self._spool = Path(self._folder.name) / "questions.jsonl"
        self._spooled: list[str] = []
        self._began = time.monotonic()
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
        """Put a question on the spool, unless it is there, or in a batch of an earlier run, or has no room."""
        new = name not in self._asked
        self._asked.add(name)
        if not new or self._records.holding(name):
            return
        bill = ledger().reserve(self._service, most_usd, wait=False)
        if bill is None:
            self._outcomes[name] = Outcome(failure="budget_reached")
            return
        self._bills[name] = bill
        line = self._api.line(name, request)
        size = self._spool.stat().st_size if self._spooled else 0
        if len(self._spooled) >= self._api.requests_max or size + len(line) > self._api.bytes_max:
            self._send()
        with self._spool.open("ab") as spool:
            spool.write(line)
        self._spooled.append(name)

    def _send(self) -> None:
        """Upload the spool and make a batch of it. Its record is in the store first."""
        names, self._spooled = self._spooled, []
        record = self._records.begin(names)
        try:
            file = self._retries.call(lambda: self._api.upload(self._spool))
            self._records.made(record, self._make(file, record))
        except CallFailed as failure:
            if failure.unbilled:
                self._records.forget(record)
            self._close(names, failure.reason, billed=not failure.unbilled)
        finally:
            self._spool.unlink()

    def _make(self, file: str, record: BatchRecord) -> str:
        """The id of a new batch. A lost answer may hide a batch that was made, so later attempts look first."""
        attempts = 0

        def attempt() -> str:
            nonlocal attempts
            attempts += 1
            found = self._api.find(record.token, record.created_at) if attempts > 1 else None
            return found or self._api.create(file, record.token)

        return self._retries.call(attempt)

    def _find_again(self) -> None:
        """Batches of earlier runs. One without the vendor's id was cut off while it was made, or before."""
        for record in self._records.unmade():
            look = partial(self._api.find, record.token, record.created_at)
            try:
                found = self._retries.call(look)
            except CallFailed as failure:  # they may be under way: not to be asked again until we know
                self._close(record.names, failure.reason, billed=True)
                continue
            if found:
                self._records.made(record, found)
            else:
                self._records.forget(record)

    def send(self) -> None:
        """Send what is left. From now on no question is new."""
        with self._lock:
            if self._spooled:
                self._send()
            self._collecting = False

    def wait(self) -> None:
        """Look at the batches now and then until all have ended or the hours are over."""
        open_ = [record for record in self._records.all() if not self._asked.isdisjoint(record.names)]
        until = self._began + self._hours * 3600
        pause = POLLS_PER_RETRY_WAIT * self._retries.first_seconds
        with progress("answers of batches", sum(len(record.names) for record in open_)) as advance:
            while open_ := [record for record in open_ if not self._ended(record)]:
                advance(0)
                left = until - time.monotonic()
                if left <= 0:
                    break
                time.sleep(min(left, pause * self._retries.jitter()))
                pause = min(self._retries.longest_seconds, pause * 1.5)
        for record in open_:
            self._close(record.names, "batch_unfinished", billed=True)

    def _ended(self, record: BatchRecord) -> bool:
        """Whether a batch has ended; if so, its outcomes are here. A vendor that cannot be reached is asked later."""
        try:
            state = self._retries.call(lambda: self._api.state(record.batch_id))
            if not state.ended:
                return False
            found = self._retries.call(lambda: self._api.outcomes(state))
        except CallFailed as failure:
            if failure.may_pass or failure.reason in ("http_401", "http_403"):
                return False
            self._close(record.names, "batch_lost", billed=True)
            record.ended = True
            return True
        self._take(record.names, found)
        self._close(record.names, state.reason, billed=state.billed)
        record.ended, record.files = True, state.files
        return True

    def _take(self, names: Sequence[str], found: Sequence[tuple[str, Outcome]]) -> None:
        """The outcomes of questions that were asked, once each: what came twice is no answer."""
        mine, seen = set(names), set[str]()
        for name, outcome in found:
            if name not in mine:
                continue
            twice = name in seen
            seen.add(name)
            self._outcomes[name] = Outcome(failure="contradictory_answer") if twice else outcome
            if not twice:
                self._pay(name, outcome)

    def _pay(self, name: str, outcome: Outcome) -> None:
        price: TokenPrice | None = ledger().prices.tokens(self._service)
        bill = self._bills.pop(name, None) or ledger().late_bill(self._service)
        with bill:
            if outcome.unbilled:
                bill.nothing()
            elif outcome.input_tokens is not None and outcome.output_tokens is not None:
                usd = price.batch_usd(outcome.input_tokens, outcome.output_tokens) if price else 0.0
                used = {"input_tokens": outcome.input_tokens, "output_tokens": outcome.output_tokens}
                bill.settle(Use(calls=1, usd=usd, **used))

    def _close(self, names: Sequence[str], reason: str, *, billed: bool) -> None:
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
            for record in [record for record in self._records.all() if record.ended]:
                self._records.forget(record)
                self._api.remove(record.files)
        self._folder.cleanup()
