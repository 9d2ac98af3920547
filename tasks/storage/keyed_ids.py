"""Keyed hashes, not reversible without the key: user ids of addresses, and tombstones of what was taken down."""

import hashlib
import hmac
import os
import re
import secrets
import stat
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from pathlib import Path

import polars as pl
from fsspec.implementations.local import LocalFileSystem

from schemas.errors import BadInput
from schemas.items.reject import TakenDownKind, Tombstone
from tasks.storage.tables import Store, frame_of

KEY_VARIABLE = "CURATE_USER_KEY"
KEYS_FOLDER = "secret/"
"""Folder of a store with keys."""
_KEY_FILE = f"{KEYS_FOLDER}user_key"
_PEOPLE_KEY_FILE = f"{KEYS_FOLDER}people_key"
_FINGERPRINT_FILE = f"{KEYS_FOLDER}user_key_fingerprint"
_KEY_BYTES_MIN = 16
_USER_ID = re.compile(r"[0-9a-f]{24}").fullmatch
_KEYED = "keyed"
"""First word of what logs of our own arena have instead of an address."""
UNFINISHED = "takedown/unfinished"
"""File of a store that exists while tables may still contain something that was taken down."""
_SUFFIX = 9
"""Conversations after the first of a conv_id have a dash and eight hex digits appended."""


def note_unfinished(store: Store) -> None:
    """Note that tables may contain something that was taken down; what an interrupted takedown noted stays."""
    if store.read_bytes(UNFINISHED) is None:
        store.write_bytes(UNFINISHED, b"")


class Pseudonyms:
    """Turns network addresses into user ids. Addresses are never stored, logged or printed.

    What `keyed_address` made with the same key has its user id in it; made with another key, it is hashed like an
    address, so that it stays one user.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._keyed = f"{_KEYED}:{_fingerprint(key)}:"
        self._cached = lru_cache(maxsize=65_536)(self._hash)

    def user_id(self, address: object) -> str | None:
        """24 hex digits of HMAC-SHA-256; None when the log has no address."""
        return self._cached(address) if isinstance(address, str) else None

    def _hash(self, address: str) -> str | None:
        address = address.strip()
        if address.startswith(self._keyed) and _USER_ID(user_id := address.removeprefix(self._keyed)):
            return user_id
        return hmac.digest(self._key, address.encode("utf-8", "replace"), "sha256").hex()[:24] if address else None


def is_user_id(text: str) -> bool:
    """Whether a text has the form of a user id."""
    return _USER_ID(text) is not None


def keyed_address(key: bytes, address: str) -> str:
    """Form in which an arena logs an address, `keyed:FINGERPRINT:USER_ID`; ingest takes the user id from it."""
    return f"{_KEYED}:{_fingerprint(key)}:{Pseudonyms(key).user_id(address)}"


def _fingerprint(key: bytes) -> str:
    """16 hex digits that tell keys apart without telling anything about them."""
    return hashlib.sha256(b"fingerprint" + key).hexdigest()[:16]


def store_key(store: Store) -> bytes:
    """The store's key: from the environment, otherwise a random key that is kept in the store.

    Raises BadInput when it is not the key that the store was started with, because users would get new ids.
    """
    key = known_key(store) or _new_key(store, _KEY_FILE)
    if store.read_bytes(_FINGERPRINT_FILE) is None:
        store.write_bytes(_FINGERPRINT_FILE, _fingerprint(key).encode())
    return key


def known_key(store: Store) -> bytes:
    """The store's key without writing anything: b"" for a store that has none yet."""
    key, fingerprint = given_key() or store.read_bytes(_KEY_FILE) or b"", store.read_bytes(_FINGERPRINT_FILE)
    if fingerprint is not None and not key:
        raise BadInput(f"the key that store {store.root!r} was started with is not in it; set {KEY_VARIABLE} as before")
    if fingerprint is not None and fingerprint != _fingerprint(key).encode():
        raise BadInput(f"the user key differs from the one this store was started with; set {KEY_VARIABLE} as before")
    return key


def given_key() -> bytes:
    """The key of the environment, or b"" when none is set. Raises BadInput when it is too short."""
    key = os.environ.get(KEY_VARIABLE, "").encode()
    if key and len(key) < _KEY_BYTES_MIN:
        raise BadInput(f"{KEY_VARIABLE} has {len(key)} bytes; give at least {_KEY_BYTES_MIN}")
    return key


def _new_key(store: Store, file: str) -> bytes:
    key = secrets.token_hex(32).encode()
    write_secret(store, file, key)
    return key


def write_secret(store: Store, file: str, key: bytes) -> None:
    """Write a file that only its owner can read."""
    if isinstance(store.fs, LocalFileSystem):  # a private folder first: the file's own mode is set after it is written
        Path(store.at(file)).parent.mkdir(mode=stat.S_IRWXU, parents=True, exist_ok=True)
    store.write_bytes(file, key)
    if isinstance(store.fs, LocalFileSystem):
        os.chmod(store.at(file), stat.S_IRUSR | stat.S_IWUSR)


def pseudonym(store: Store, name: str) -> str:
    """12 hex digits for a person who works with the store; empty for no name.

    Their key is always the store's own: a reviewer's shell does not have the key of user ids.
    """
    return _by_own_key(store, f"works with it {name}") if name else ""


def place_id(store: Store) -> str:
    """12 hex digits for a store at its place; its copy elsewhere, and another store at the same path, have others."""
    path = os.path.realpath(store.path) if isinstance(store.fs, LocalFileSystem) else store.path
    return _by_own_key(store, f"stands at {path}")


def own_key(store: Store) -> bytes:
    """The store's own key without writing anything: b"" for a store that has none yet."""
    return store.read_bytes(_PEOPLE_KEY_FILE) or b""


def _by_own_key(store: Store, text: str) -> str:
    key = own_key(store) or _new_key(store, _PEOPLE_KEY_FILE)
    return hmac.digest(key, text.encode("utf-8", "surrogatepass"), "sha256").hex()[:12]


def possible_conv_ids(conversation_id: str) -> list[str]:
    """The conv_ids that a conversation_id may belong to: without the suffix first, if it has one."""
    return [conversation_id[:-_SUFFIX], conversation_id] if conversation_id[-_SUFFIX:][:1] == "-" else [conversation_id]


class Tombstones:
    """The tombstones of a store. They are hashed with the store's `key`, so hashes of different stores differ."""

    def __init__(self, store: Store, key: bytes) -> None:
        self._store, self._key = store, key
        self._known = set(store.read("takedowns", ["key"])["key"])

    def __bool__(self) -> bool:
        return bool(self._known)

    def holds(self, kind: TakenDownKind, ids: Iterable[str | None]) -> set[str]:
        """The subset of `ids` that was taken down."""
        return {item_id for item_id in ids if item_id is not None and self._hash(kind, item_id) in self._known}

    def conversations(self, ids: Iterable[str]) -> set[str]:
        """The subset of these conversation_ids whose conv_id was taken down."""
        kind = TakenDownKind.CONVERSATION
        return {item for item in ids if any(self._hash(kind, name) in self._known for name in possible_conv_ids(item))}

    def add(self, ids: Mapping[TakenDownKind, Iterable[str]], now: datetime) -> None:
        """Add tombstones and store them."""
        self._store.append("takedowns", self.add_for_now(ids, now))

    def add_for_now(self, ids: Mapping[TakenDownKind, Iterable[str]], now: datetime) -> pl.DataFrame:
        """Add tombstones to this object only. Returns the new rows of `takedowns`, which are not stored."""
        hashed = {self._hash(kind, item_id): kind for kind, of_kind in ids.items() for item_id in of_kind}
        new = [
            Tombstone(key=key, kind=kind, taken_down_at=now)
            for key, kind in sorted(hashed.items())
            if key not in self._known
        ]
        self._known |= {row.key for row in new}
        return frame_of(Tombstone, new)

    def known_from(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Add rows of `takedowns`, of which one's keys may not be stored. Returns those that were not known."""
        new = rows.filter(~pl.col("key").is_in(sorted(self._known)))
        self._known |= {*new["key"]}
        return new

    def _hash(self, kind: TakenDownKind, name: str) -> str:
        return hmac.digest(self._key, f"takedown {kind} {name}".encode("utf-8", "surrogatepass"), "sha256").hex()[:32]
