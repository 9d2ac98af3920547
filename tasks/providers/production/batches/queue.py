"""Questions asked through a vendor's batch API: slower and cheaper than single calls.

Each question is named by a hash of its request. The store records which batch holds which questions before the batch is
created, so a killed run or one that stopped waiting is continued by the next run, and nothing is paid twice.
"""

import hashlib
import itertools
import secrets
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from schemas.run import PAUSED
from tasks.providers.capabilities import WAITING, Reply
from tasks.providers.production.batches.api import BatchApi, BatchOutcome, Ended, Request, question_name
from tasks.providers.production.calls import CallFailed, Service
from tasks.runtime.budget import Bill, ledger
from tasks.runtime.progress import progress
from tasks.storage.tables import Store

KEPT_FOR = timedelta(days=30)
"""Vendors delete answers within this time."""
FOLDER = "batches"


class BatchRecord(BaseModel):
    """One batch. Holds hashes of questions and none of their text."""

    model_config = ConfigDict(extra="forbid")

    token: str
    """Our name of the batch; the vendor stores it with the batch."""
    service: str
    """Vendor and model."""
    account: str = ""
    """`account_of` server and key; empty in records of earlier versions, which count for every account."""
    names: frozenset[str]
    """Names of its questions."""
    created_at: datetime
    """When the record was created."""
    batch_id: str = ""
    """The vendor's id of the batch; empty until it is known."""
    counted_usd: float = 0.0
    """US dollars that the run which sent it counts, at its highest price, because it did not wait for the end."""
    counted_month: str = ""
    """Month in which that run began, as 2026-11; empty where no run has counted the batch."""
    is_billed: bool = False
    """Whether a run has counted its answers, which wait for others."""


def account_of(server: str, key: str | None) -> str:
    """16 hex digits: a hash of the server's address and the key, which tells accounts apart and no key."""
    return hashlib.blake2b(f"{server}\n{key or ''}".encode(), digest_size=8).hexdigest()


class BatchRecords:
    """The batch records of one service and account, each stored before its batch and deleted after its answers."""

    def __init__(self, store: Store, service: str, account: str) -> None:
        self._store, self._service, self._account = store, service, account
        records = [record for name in store.json_files(FOLDER) if (record := self._read(f"{FOLDER}/{name}"))]
        mine = [record for record in records if record.service == service and record.account in ("", account)]
        self.open = {record.token: record for record in mine}
        """By token."""

    def _read(self, path: str) -> BatchRecord | None:
        """A record. An unreadable or expired one is deleted and None."""
        try:
            record = BatchRecord.model_validate_json(self._store.read_bytes(path) or b"")
            if datetime.now(UTC) - record.created_at <= KEPT_FOR:
                return record
        except ValidationError:
            pass
        self._store.fs.rm_file(self._store.at(path))
        return None

    def begin(self, names: Sequence[str]) -> BatchRecord:
        """Store a record for a batch of these questions, before the batch is created."""
        token = secrets.token_hex(16)  # random: the same questions may be asked again after a batch expired
        now = datetime.now(UTC)
        whose = {"service": self._service, "account": self._account}
        record = BatchRecord(token=token, names=frozenset(names), created_at=now, **whose)
        self.made(record, "")
        return record

    def made(self, record: BatchRecord, batch_id: str) -> None:
        """Store the vendor's id of the batch."""
        record.batch_id = batch_id
        self._store.write_bytes(f"{FOLDER}/{record.token}.json", record.model_dump_json().encode())
        self.open[record.token] = record

    def counted(self, record: BatchRecord, usd: float) -> None:
        """Note what this run counts for a batch that it leaves to a later one."""
        record.counted_usd, record.counted_month = usd, f"{ledger().began_at:%Y-%m}"
        self.made(record, record.batch_id)

    def billed(self, record: BatchRecord) -> None:
        """Note that this run has counted the answers of a batch that a later one collects again."""
        record.is_billed = True
        self.made(record, record.batch_id)

    def forget(self, record: BatchRecord) -> None:
        """Delete the record: the batch does not exist, or its answers are stored."""
        self._store.fs.rm_file(self._store.at(f"{FOLDER}/{record.token}.json"))
        del self.open[record.token]


FIRST_POLL = 10
"""The first poll comes after this many first retry waits."""


class VendorBatchQueue:
    """The questions of one model: collected, sent as batches, and answered from the results.

    Questions that follow from answers may be collected and sent after `wait`.
    """

    def __init__(self, api: BatchApi, service: Service, store: Store, hours: float) -> None:
        self._api, self._service = api, service
        self._records = BatchRecords(store, service.name, api.account)
        self._bills: dict[str, Bill] = {}
        self._outcomes: dict[str, BatchOutcome] = {}
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
            outcome = self._outcomes.get(name, BatchOutcome(failure=WAITING))
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
            self._outcomes[name] = BatchOutcome(failure="budget_reached")
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
        open_questions = self._asked - self._outcomes.keys()
        return [
            record
            for record in self._records.open.values()
            if record.batch_id and not open_questions.isdisjoint(record.names)
        ]

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
            batch_id = self._api.find(record.token, record.created_at) if next(attempts) else None
            return batch_id or self._api.make(self._file, record.token)

        return make

    def _find_again(self) -> None:
        """Look up batches of earlier runs that were killed before they stored the vendor's id."""
        for record in [record for record in self._records.open.values() if not record.batch_id]:
            try:
                batch_id = self._service.again(partial(self._api.find, record.token, record.created_at))
            except CallFailed as failure:  # the batch may be running: do not ask its questions again
                self._close(record.names, failure.reason, billed=True)
                continue
            if batch_id:
                self._records.made(record, batch_id)
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
                seconds_left = self._until - time.monotonic()
                if seconds_left <= 0:
                    break
                time.sleep(min(seconds_left, pause))
                ledger().try_again()  # a poll is free, and its answer is paid for
                pause = min(self._service.longest_seconds, pause * 1.5)
        for record in running:
            if own_names := record.names & self._bills.keys():
                self._records.counted(record, sum(self._bills[name].most_usd for name in own_names))
            self._close(record.names, "batch_unfinished", billed=True)

    def _has_ended(self, record: BatchRecord) -> bool:
        """Whether a batch has ended; if so, takes its outcomes. False while the vendor cannot be reached."""
        try:
            ended = self._service.again(lambda: self._api.ended(record.batch_id))
        except CallFailed as failure:
            if failure.may_pass or failure.reason in (PAUSED, "http_401", "http_403"):
                return False
            ended = Ended(reason="batch_lost")
        if ended is None:
            return False
        seen = set[str]()
        for name, outcome in ended.outcomes:
            if name in seen:
                self._outcomes[name] = BatchOutcome(failure="contradictory_answer")
            elif name in record.names:
                self._outcomes[name] = outcome
                with self._bill_of(name, record) as bill:
                    if bill is None:
                        pass
                    elif outcome.unbilled:
                        bill.nothing()
                    else:
                        bill.settle_tokens(outcome.input_tokens, outcome.output_tokens, batch=True)
                seen.add(name)
        if record.counted_usd and not ended.billed:
            for name in record.names - seen:
                with self._bill_of(name, record) as bill:
                    if bill is not None:
                        bill.nothing()
        self._close(record.names, ended.reason, billed=ended.billed)
        self._ended.append((record, ended.files))
        return True

    def _bill_of(self, name: str, record: BatchRecord) -> Bill | nullcontext[None]:
        """The bill of a question of this run, or a late one; none when a run has counted the answers already."""
        if bill := self._bills.pop(name, None):
            return bill
        if record.is_billed:
            return nullcontext()
        # What a run of an earlier month counted stays there.
        is_counted = record.counted_month == f"{ledger().began_at:%Y-%m}"
        return ledger().late_bill(self._service.name, record.counted_usd / len(record.names) if is_counted else None)

    def _close(self, names: Iterable[str], reason: str, *, billed: bool) -> None:
        """Record a failure for every question without an outcome."""
        for name in names:
            if name in self._outcomes:
                continue
            self._outcomes[name] = BatchOutcome(failure=reason)
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
        for record, files in self._ended if stored else ():
            if not done:
                self._records.billed(record)
                continue
            self._records.forget(record)
            for file in files:
                with suppress(CallFailed):  # files expire at the vendor
                    self._api.delete(file)
        self._folder.cleanup()


class Batched(ABC):
    """A model whose questions can be collected for its vendor's batch API."""

    _service: Service
    _queue: VendorBatchQueue | None = None

    @contextmanager
    def together(self, store: Store, hours: float) -> Iterator[VendorBatchQueue]:
        """Inside it, asking collects questions; after `send` and `wait`, asking again gives the answers."""
        queue = self._queue = VendorBatchQueue(self._batches(), self._service, store, hours)
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
