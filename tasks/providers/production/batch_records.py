"""Which batches are under way at a vendor, kept in the store from before they are made until their answers are."""

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tasks.tables import Store

KEPT_FOR = timedelta(days=30)
"""Vendors drop the answers by then."""


class BatchRecord(BaseModel):
    """One batch. Holds hashes of questions, and nothing of what they say."""

    model_config = ConfigDict(extra="forbid")

    token: str
    """Our name of the batch, which the vendor keeps with it."""
    service: str
    """Vendor and model."""
    names: list[str]
    """Names of its questions."""
    created_at: datetime
    """When the record was begun."""
    batch_id: str = ""
    """The vendor's name of the batch; empty until it is known."""
    ended: bool = Field(default=False, exclude=True)
    """Whether its outcomes were read in this run."""
    files: tuple[str, ...] = Field(default=(), exclude=True)
    """What it left at the vendor."""


class BatchRecords:
    """The records of one service."""

    def __init__(self, store: Store, service: str) -> None:
        self._store, self._service = store, service
        self._folder = "batches"
        self._records = {record.token: record for record in self._stored()}
        self._holding = {name for record in self._records.values() for name in record.names}

    def _stored(self) -> list[BatchRecord]:
        folder = self._store.at(self._folder)
        if not self._store.fs.isdir(folder):
            return []
        found = []
        for path in sorted(self._store.fs.ls(folder, detail=False, refresh=True)):
            name = path.rsplit("/", 1)[-1]
            record = self._read(name) if name.endswith(".json") else None
            if record is not None and record.service == self._service:
                found.append(record)
        return found

    def _read(self, name: str) -> BatchRecord | None:
        """A record; None, and removed, when it is too old or no record."""
        try:
            record = BatchRecord.model_validate_json(self._store.read_bytes(f"{self._folder}/{name}") or b"")
        except ValidationError:
            record = None
        if record is None or datetime.now(UTC) - record.created_at > KEPT_FOR:
            self._store.fs.rm_file(self._store.at(f"{self._folder}/{name}"))
            return None
        return record

    def all(self) -> list[BatchRecord]:
        """Every batch that exists at the vendor, as far as known."""
        return [record for record in self._records.values() if record.batch_id]

    def unmade(self) -> list[BatchRecord]:
        """Those begun by a run that ended before it knew whether the batch was made."""
        return [record for record in self._records.values() if not record.batch_id]

    def holding(self, name: str) -> bool:
        """Whether a question is in one of them."""
        return name in self._holding

    def begin(self, names: Sequence[str]) -> BatchRecord:
        """Write down that a batch of these questions is about to be made."""
        token = secrets.token_hex(16)  # new every time: the same questions may be asked again after a batch expired
        record = BatchRecord(token=token, service=self._service, names=list(names), created_at=datetime.now(UTC))
        self._keep(record)
        return record

    def made(self, record: BatchRecord, batch_id: str) -> None:
        """Write down what the vendor calls it."""
        record.batch_id = batch_id
        self._keep(record)

    def forget(self, record: BatchRecord) -> None:
        """The batch does not exist, or its answers are stored."""
        self._store.fs.rm_file(self._store.at(self._path(record)))
        del self._records[record.token]
        self._holding -= set(record.names)

    def _keep(self, record: BatchRecord) -> None:
        self._store.write_bytes(self._path(record), record.model_dump_json().encode())
        self._records[record.token] = record
        self._holding |= set(record.names)

    def _path(self, record: BatchRecord) -> str:
        return f"{self._folder}/{record.token}.json"
