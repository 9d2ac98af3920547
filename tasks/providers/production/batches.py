"""Questions asked through a vendor's batch API: slower and cheaper than single calls.

Each question is named by a hash of its request. The store records which batch holds which questions before the batch is
created, so a killed run or one that stopped waiting is continued by the next run, and nothing is paid twice.
"""

import hashlib
import itertools
import json
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from schemas.run import Use
from tasks.providers.capabilities import WAITING, Reply
from tasks.providers.production.batch_records import BatchRecord, BatchRecords
from tasks.providers.production.calls import CallFailed, Service
from tasks.runtime.budget import Bill, ledger
from tasks.runtime.progress import progress
from tasks.storage.tables import Store

Request = dict[str, Any]
"""The body of one call, as the vendor's own JSON."""
CLOCK_SKEW = timedelta(hours=1)
"""How far a vendor's clock may differ from ours."""


_NO_REPLY = Reply("", "empty")


@dataclass(frozen=True)
class Outcome:
    """The answer to one question, or why there is none."""

    reply: Reply = _NO_REPLY
    """The answer."""
    failure: str = ""
    """Failure reason; empty for an answer."""
    unbilled: bool = False
    """Whether the vendor rejected the question, so that it costs nothing."""
    input_tokens: int | None = None
    """As counted by the vendor; None when not reported."""
    output_tokens: int | None = None
    """As counted by the vendor, thinking included; None when not reported."""


@dataclass(frozen=True)
class Ended:
    """The result of a finished batch."""

    outcomes: Sequence[tuple[str, Outcome]] = ()
    """Question name and outcome of every readable line, in any order."""
    reason: str = "missing_answer"
    """Failure reason of questions without an outcome."""
    billed: bool = True
    """Whether questions without an outcome may have been billed."""
    files: Sequence[str] = ()
    """Files that the batch left at the vendor."""


class BatchApi(ABC):
    """A vendor's batch API. Every method may raise CallFailed."""

    requests_max: int
    """Maximum number of questions in a batch."""
    bytes_max: int
    """Maximum size of a request file."""
    account: str
    """Whose batches these are (`account_of`)."""

    @abstractmethod
    def line(self, name: str, request: Request) -> bytes:
        """One line of the request file."""

    @abstractmethod
    def make(self, file: Path, token: str) -> str:
        """Upload a request file and create a batch that is marked with `token`; returns the batch id."""

    @abstractmethod
    def newest_first(self) -> Iterable[tuple[str | None, str | None, datetime | None]]:
        """Id, token and creation time of all batches."""

    @abstractmethod
    def ended(self, batch_id: str) -> Ended | None:
        """The result of a batch; None while it is running."""

    @abstractmethod
    def delete(self, file: str) -> None:
        """Delete a file at the vendor."""

    def find(self, token: str, since: datetime) -> str | None:
        """The id of the batch that is marked with `token`, among batches created after `since`."""
        for batch_id, mark, created_at in self.newest_first():
            if mark == token:
                return batch_id
            if created_at and created_at < since - CLOCK_SKEW:
                break
        return None


def outcome_of(said: Callable[[], Reply], tokens: tuple[int | None, int | None]) -> Outcome:
    """The outcome of a billed question; `said` may raise CallFailed. `tokens` are input and output tokens."""
    try:
        return Outcome(said(), "", False, *tokens)
    except CallFailed as failed:
        return Outcome(failure=failed.reason, input_tokens=tokens[0], output_tokens=tokens[1])


def question_name(request: Request, about: str = "") -> str:
    """32 hex digits: a hash of the request and `about`. It reveals neither the item nor where it is stored."""
    content = json.dumps(request, sort_keys=True, ensure_ascii=True) + about
    return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()


def json_line(row: dict[str, Any]) -> bytes:
    """One line of JSON Lines. ASCII only, because some readers split lines at Unicode line separators."""
    return json.dumps(row, ensure_ascii=True).encode() + b"\n"


def json_rows(content: bytes) -> list[dict[str, Any]]:
    """The JSON objects of a JSON Lines file. Other lines are skipped, so that their questions have no outcome."""
    rows = []
    for line in content.split(b"\n"):
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return [row for row in rows if isinstance(row, dict)]


FIRST_POLL = 10
"""The first poll comes after this many first retry waits."""


class BatchQueue:
    """The questions of one model: collected, sent as batches, and answered from the results.

    Questions that follow from answers may be collected and sent after `wait`.
    """

    def __init__(self, api: BatchApi, service: Service, store: Store, hours: float) -> None:
        self._api, self._service = api, service
        self._records = BatchRecords(store, service.name, api.account)
        self._bills: dict[str, Bill] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._asked: set[str] = set()
        self._first: frozenset[str] | None = None
        """The questions that were asked before the first `wait`."""
        self._lock = threading.Lock()
        self._folder = tempfile.TemporaryDirectory(prefix="curate-batch-")
        self._file = Path(self._folder.name) / "questions.jsonl"
        self._in_file: list[str] = []
        self._ended: list[tuple[BatchRecord, Sequence[str]]] = []
        self._until = time.monotonic() + hours * 3600
        self._find_again()

    def answer(self, request: Request, most_usd: float | None, about: str = "") -> Reply:
        """The answer to one question. Raises CallFailed, with reason WAITING before it was sent and waited for.

        Equal requests about different things are different questions.
        """
        name = question_name(request, about)
        with self._lock:
            if name not in self._asked:
                self._collect(name, request, most_usd)
            outcome = self._outcomes.get(name, Outcome(failure=WAITING))
        if outcome.failure:
            raise CallFailed(outcome.failure)
        return outcome.reply

    def _collect(self, name: str, request: Request, most_usd: float | None) -> None:
        """Add a question to the request file, unless a batch of an earlier run has it or the budget has no room."""
        self._asked.add(name)
        if name in self._outcomes or any(name in record.names for record in self._records.open.values()):
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

    def send(self) -> bool:
        """Send the last batch. Returns whether there are answers to wait for."""
        with self._lock:
            if self._in_file:
                self._send()
            return bool(self._awaited())

    def _awaited(self) -> list[BatchRecord]:
        """The batches with a question of this run that has no outcome."""
        wanted = self._asked - self._outcomes.keys()
        return [each for each in self._records.open.values() if each.batch_id and not wanted.isdisjoint(each.names)]

    def _send(self) -> None:
        """Create a batch of the request file, after its record is stored."""
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
        """A call that creates the batch. Retries first look for it, since the response to the creation may be lost."""
        attempts = itertools.count()

        def make() -> str:
            found = self._api.find(record.token, record.created_at) if next(attempts) else None
            return found or self._api.make(self._file, record.token)

        return make

    def _find_again(self) -> None:
        """Look up batches of earlier runs that were killed before they stored the vendor's id."""
        for record in [record for record in self._records.open.values() if not record.batch_id]:
            try:
                found = self._service.again(partial(self._api.find, record.token, record.created_at))
            except CallFailed as failure:  # the batch may be running: do not ask its questions again
                self._close(record.names, failure.reason, billed=True)
                continue
            if found:
                self._records.made(record, found)
            else:
                self._records.forget(record)

    def wait(self) -> None:
        """Poll the batches until all have ended or the hours are over."""
        running = self._awaited()
        self._first = self._first or frozenset(self._asked)
        pause = FIRST_POLL * self._service.first_seconds
        with progress("answers of batches", sum(len(record.names) for record in running)) as advance:
            while running := [record for record in running if not self._has_ended(record)]:
                advance(0)
                left = self._until - time.monotonic()
                if left <= 0:
                    break
                time.sleep(min(left, pause))
                pause = min(self._service.longest_seconds, pause * 1.5)
        for record in running:
            self._close(record.names, "batch_unfinished", billed=True)

    def _has_ended(self, record: BatchRecord) -> bool:
        """Whether a batch has ended; if so, takes its outcomes. False while the vendor cannot be reached."""
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
        """Take the outcomes of the batch's questions. Two outcomes of one question are a failure."""
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
        """Record a failure for every question without an outcome."""
        for name in names:
            if name in self._outcomes:
                continue
            self._outcomes[name] = Outcome(failure=reason)
            if bill := self._bills.pop(name, None):
                with bill:
                    if not billed:
                        bill.nothing()

    def close(self, *, stored: bool) -> None:
        """Release unused reservations. When the answers are `stored`, delete the records and the vendor's files.

        While a question that follows from an answer has none itself, that answer is still needed, and all stay.
        """
        for bill in self._bills.values():
            with bill:
                bill.nothing()
        following = self._asked - (self._first or self._asked)
        done = all(name in self._outcomes and not self._outcomes[name].failure for name in following)
        for record, files in self._ended if stored and done else ():
            self._records.forget(record)
            for file in files:
                with suppress(CallFailed):  # files expire at the vendor
                    self._api.delete(file)
        self._folder.cleanup()


class Batched(ABC):
    """A model whose questions can be collected for its vendor's batch API."""

    _service: Service
    _queue: BatchQueue | None = None

    @contextmanager
    def together(self, store: Store, hours: float) -> Iterator[BatchQueue]:
        """Inside it, asking collects questions; after `send` and `wait`, asking again gives the answers."""
        queue = self._queue = BatchQueue(self._batches(), self._service, store, hours)
        stored = False
        try:
            yield queue
            stored = True
        finally:
            self._queue = None
            queue.close(stored=stored)

    @abstractmethod
    def _batches(self) -> BatchApi:
        """The vendor's batch API."""
