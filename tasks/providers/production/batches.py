"""The interface of vendors' batch APIs, and the stored records of unfinished batches."""

import hashlib
import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from tasks.providers.production.calls import CallFailed
from tasks.storage.tables import Store

Request = dict[str, Any]
"""The body of one call, as the vendor's own JSON."""
CLOCK_SKEW = timedelta(hours=1)
"""How far a vendor's clock may differ from ours."""
KEPT_FOR = timedelta(days=30)
"""Vendors delete answers within this time."""
FOLDER = "batches"


@dataclass(frozen=True)
class Outcome:
    """The answer to one question, or why there is none."""

    text: str = ""
    """The complete answer."""
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

    def remove(self, files: Sequence[str]) -> None:
        """Delete files at the vendor; errors are ignored, because files expire there."""
        for file in files:
            with suppress(CallFailed):
                self.delete(file)


def outcome_of(answer_text: Callable[[], str], tokens: tuple[int | None, int | None]) -> Outcome:
    """The outcome of a billed question; `answer_text` may raise CallFailed. `tokens` are input and output tokens."""
    try:
        return Outcome(answer_text(), "", False, *tokens)
    except CallFailed as failed:
        return Outcome("", failed.reason, False, *tokens)


def question_name(request: Request) -> str:
    """32 hex digits: a hash of the request. It reveals neither the item nor where it is stored."""
    content = json.dumps(request, sort_keys=True, ensure_ascii=True).encode()
    return hashlib.blake2b(content, digest_size=16).hexdigest()


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


class BatchRecord(BaseModel):
    """One batch. Holds hashes of questions and none of their text."""

    model_config = ConfigDict(extra="forbid")

    token: str
    """Our name of the batch; the vendor stores it with the batch."""
    service: str
    """Vendor and model."""
    names: frozenset[str]
    """Names of its questions."""
    created_at: datetime
    """When the record was created."""
    batch_id: str = ""
    """The vendor's id of the batch; empty until it is known."""


class BatchRecords:
    """The batch records of one service, each stored before its batch is created and deleted after its answers are."""

    def __init__(self, store: Store, service: str) -> None:
        self._store, self._service = store, service
        folder = store.at(FOLDER)
        paths = store.fs.ls(folder, detail=False, refresh=True) if store.fs.isdir(folder) else []
        names = sorted(path.rsplit("/", 1)[-1] for path in paths if path.endswith(".json"))
        records = [record for name in names if (record := self._read(f"{FOLDER}/{name}"))]
        self.open = {record.token: record for record in records if record.service == service}
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
        record = BatchRecord(token=token, service=self._service, names=frozenset(names), created_at=datetime.now(UTC))
        self.made(record, "")
        return record

    def made(self, record: BatchRecord, batch_id: str) -> None:
        """Store the vendor's id of the batch."""
        record.batch_id = batch_id
        self._store.write_bytes(f"{FOLDER}/{record.token}.json", record.model_dump_json().encode())
        self.open[record.token] = record

    def forget(self, record: BatchRecord) -> None:
        """Delete the record: the batch does not exist, or its answers are stored."""
        self._store.fs.rm_file(self._store.at(f"{FOLDER}/{record.token}.json"))
        del self.open[record.token]
