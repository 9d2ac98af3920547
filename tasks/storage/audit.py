"""The audit log of a store: who looked at masked content, exported, took down, published, accepted, and how much.

Each entry is a file of its own, `audit/00000001.json`, that holds the hash of the one before it. It is created and
never written again, without the store's lock: people look while a run writes. The record of each run holds the number
and the hash of the last entry, so that entries that are cut off at the end are noticed, too.
"""

import getpass
import hashlib
import os
import pwd
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from fsspec.implementations.local import LocalFileSystem
from pydantic import ValidationError

from schemas.errors import StoreUnwell, why_unreadable
from schemas.upkeep import Audited, AuditEntry
from tasks.storage.keyed_ids import pseudonym
from tasks.storage.tables import Store

AUDIT = "audit"
"""Folder of a store."""
_FIRST = "0" * 8


def add_audit_entry(store: Store, what: Audited, counts: Mapping[str, int], about: str = "", by: str = "") -> None:
    """Add an entry. `by` is a reviewer's name, else the user of this machine. Call it before anything is shown or sent.

    Raises StoreUnwell when it cannot be written: what leaves no trace does not happen.
    """
    try:
        who = pseudonym(store, by or _user())
        while True:
            number, before = last_entry(store)
            at, shown = datetime.now(UTC), {name: count for name, count in counts.items() if count}
            entry = AuditEntry(number=number + 1, at=at, who=who, what=what, counts=shown, about=about, before=before)
            with suppress(FileExistsError):  # another process was faster
                _create(store, f"{AUDIT}/{entry.number:08}.json", entry.model_dump_json().encode())
                return
    except OSError as error:
        raise StoreUnwell(
            f"store {store.root!r} cannot be written to ({why_unreadable(error)}), and its audit log says who "
            "saw, sent or removed what; mend that, and do it again"
        ) from None


def last_entry(store: Store) -> tuple[int, str]:
    """Number of entries, and the SHA-256 of the last; (0, "") for an empty log."""
    name = max(_names(store), default=_FIRST)
    content = store.read_bytes(f"{AUDIT}/{name}.json")
    return int(name), hashlib.sha256(content).hexdigest() if content is not None else ""


def audit_entries(store: Store) -> Iterator[AuditEntry]:
    """The entries, oldest first. Raises StoreUnwell at the first that was changed, or that follows a removed one."""
    before = ""
    for number, name in enumerate(_names(store), 1):
        content = store.read_bytes(f"{AUDIT}/{name}.json") or b""
        try:
            entry = AuditEntry.model_validate_json(content)
        except ValidationError:
            entry = None
        if entry is None or int(name) != number or (entry.number, entry.before) != (number, before):
            raise StoreUnwell(
                f"the audit log of store {store.root!r} was changed: entry {number} is missing or is not what the next "
                "one says; look into the last backup for it"
            )
        before = hashlib.sha256(content).hexdigest()
        yield entry


def cut_off(store: Store, entries: int, sha256: str) -> str:
    """One line when the log has not, at this place, the entry that a run or a backup saw last; otherwise empty."""
    content = store.read_bytes(f"{AUDIT}/{entries:08}.json") if entries else b""
    if not entries or (content and hashlib.sha256(content).hexdigest() == sha256):
        return ""
    return f"the audit log of store {store.root!r} was cut: a run saw {entries:,} entries, and the last is not there"


def known_people(store: Store) -> dict[str, str]:
    """Keyed hash -> name, of the users of this machine and of the reviewers in the store; names are in no entry."""
    names = {each.pw_name for each in pwd.getpwall()} | {*store.read("reviews", ["reviewer"])["reviewer"].drop_nulls()}
    return {pseudonym(store, name): name for name in sorted(names - {""})}


def _user() -> str:
    with suppress(KeyError, OSError):  # in a container the user may have no name
        return getpass.getuser()
    return ""


def _names(store: Store) -> list[str]:
    store.fs.invalidate_cache()
    try:
        found = store.fs.ls(store.at(AUDIT), detail=False)
    except FileNotFoundError:
        return []
    return sorted(path.rsplit("/", 1)[-1].removesuffix(".json") for path in found if path.endswith(".json"))


def _create(store: Store, relative: str, content: bytes) -> None:
    """Write a whole file that must not exist. Raises FileExistsError."""
    target = store.at(relative)
    if not isinstance(store.fs, LocalFileSystem):
        store.fs.pipe_file(target, content, mode="create")
        return
    half = Path(f"{target}.{os.getpid()}{threading.get_ident()}.tmp")
    half.parent.mkdir(exist_ok=True)
    try:
        half.write_bytes(content)
        os.link(half, target)
    finally:
        half.unlink(missing_ok=True)
