"""A vendor's batch interface, and the record of the batches that are under way there."""

import hashlib
import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from tasks.storage.tables import Store

Request = dict[str, Any]
"""The body of one call, as the vendor's own JSON."""
CLOCK_SKEW = timedelta(hours=1)
"""How much a vendor's clock may differ from ours."""
KEPT_FOR = timedelta(days=30)
"""Vendors drop the answers by then."""
FOLDER = "batches"


@dataclass(frozen=True)
class Outcome:
    """What became of one question."""

    text: str = ""
    """The completed answer."""
    failure: str = ""
    """Why there is none; empty when there is."""
    unbilled: bool = False
    """Whether the vendor turned the question down, so that it costs nothing."""
    input_tokens: int | None = None
    """As the vendor counted; None when it did not say."""
    output_tokens: int | None = None
    """As the vendor counted, thinking included; None when it did not say."""


@dataclass(frozen=True)
class Ended:
    """A batch from which nothing more will come."""

    outcomes: Sequence[tuple[str, Outcome]] = ()
    """Name and outcome of every line that can be read. Nothing here trusts the order of lines."""
    reason: str = "missing_answer"
    """What is wrong with a question without an outcome."""
    billed: bool = True
    """Whether a question without an outcome may have been billed."""
    files: Sequence[str] = ()
    """Everything it left at the vendor."""


class BatchApi(ABC):
    """Every method may raise CallFailed."""

    requests_max: int
    """Questions in one batch."""
    bytes_max: int
    """Size of one request file."""

    @abstractmethod
    def line(self, name: str, request: Request) -> bytes:
        """One line of the request file."""

    @abstractmethod
    def make(self, file: Path, token: str) -> str:
        """Upload a request file and make a batch of it, marked with our token; its id."""

    @abstractmethod
    def find(self, token: str, since: datetime) -> str | None:
        """The id of the batch that is marked with the token and was not made before `since`."""

    @abstractmethod
    def ended(self, batch_id: str) -> Ended | None:
        """What came of it; None while it is under way."""

    @abstractmethod
    def remove(self, files: Sequence[str]) -> None:
        """Delete files at the vendor; what cannot be deleted expires there."""


def question_name(request: Request) -> str:
    """32 hex digits: a hash of the whole request, which says nothing of who asked or where it is stored."""
    content = json.dumps(request, sort_keys=True, ensure_ascii=True).encode()
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def json_line(row: dict[str, Any]) -> bytes:
    """One line of JSON Lines, ASCII only: line separators of Unicode would split it for some readers."""
    return json.dumps(row, ensure_ascii=True).encode() + b"\n"


def json_rows(content: bytes) -> list[dict[str, Any]]:
    """The objects among the lines; a line that is not one is left out, so that its question has no outcome."""
    rows = []
    for line in content.split(b"\n"):
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows


class BatchRecord(BaseModel):
    """One batch. Holds hashes of questions, and nothing of what they say."""

    model_config = ConfigDict(extra="forbid")

    token: str
    """Our name of the batch, which the vendor keeps with it."""
    service: str
    """Vendor and model."""
    names: frozenset[str]
    """Names of its questions."""
    created_at: datetime
    """When the record was begun."""
    batch_id: str = ""
    """The vendor's name of the batch; empty until it is known."""


class BatchRecords:
    """The records of one service, in the store from before a batch is made until its answers are stored."""

    def __init__(self, store: Store, service: str) -> None:
        self._store, self._service = store, service
        self.open = {record.token: record for record in self._stored()}
        """By token."""

    def _stored(self) -> list[BatchRecord]:
        folder = self._store.at(FOLDER)
        if not self._store.fs.isdir(folder):
            return []
        paths = (
            f"{FOLDER}/{name.rsplit('/', 1)[-1]}" for name in self._store.fs.ls(folder, detail=False, refresh=True)
        )
        records = [self._read(path) for path in sorted(paths) if path.endswith(".json")]
        return [record for record in records if record is not None and record.service == self._service]

    def _read(self, path: str) -> BatchRecord | None:
        """A record; None, and removed, when it is too old or no record."""
        try:
            record = BatchRecord.model_validate_json(self._store.read_bytes(path) or b"")
        except ValidationError:
            record = None
        if record is None or datetime.now(UTC) - record.created_at > KEPT_FOR:
            self._store.fs.rm_file(self._store.at(path))
            return None
        return record

    def holding(self, name: str) -> bool:
        """Whether a question is in one of them."""
        return any(name in record.names for record in self.open.values())

    def begin(self, names: Sequence[str]) -> BatchRecord:
        """Write down that a batch of these questions is about to be made."""
        token = secrets.token_hex(16)  # new every time: the same questions may be asked again after a batch expired
        record = BatchRecord(token=token, service=self._service, names=frozenset(names), created_at=datetime.now(UTC))
        self.made(record, "")
        return record

    def made(self, record: BatchRecord, batch_id: str) -> None:
        """Write down what the vendor calls it."""
        record.batch_id = batch_id
        self._store.write_bytes(f"{FOLDER}/{record.token}.json", record.model_dump_json().encode())
        self.open[record.token] = record

    def forget(self, record: BatchRecord) -> None:
        """The batch does not exist, or its answers are stored."""
        self._store.fs.rm_file(self._store.at(f"{FOLDER}/{record.token}.json"))
        del self.open[record.token]
