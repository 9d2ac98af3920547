"""Records of a store about batches that a vendor may hold: hashes of questions, and none of their text."""

import hashlib
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from pydantic import BaseModel, ConfigDict, ValidationError

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


def account_of(server: str, key: str | None) -> str:
    """16 hex digits: a hash of the server's address and the key, which tells accounts apart and no key."""
    return hashlib.blake2b(f"{server}\n{key or ''}".encode(), digest_size=8).hexdigest()


class BatchRecords:
    """The batch records of one service and account, each stored before its batch and deleted after its answers."""

    def __init__(self, store: Store, service: str, account: str) -> None:
        self._store, self._service, self._account = store, service, account
        folder = store.at(FOLDER)
        paths = store.fs.ls(folder, detail=False, refresh=True) if store.fs.isdir(folder) else []
        names = sorted(path.rsplit("/", 1)[-1] for path in paths if path.endswith(".json"))
        records = [record for name in names if (record := self._read(f"{FOLDER}/{name}"))]
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

    def forget(self, record: BatchRecord) -> None:
        """Delete the record: the batch does not exist, or its answers are stored."""
        self._store.fs.rm_file(self._store.at(f"{FOLDER}/{record.token}.json"))
        del self.open[record.token]
