"""User ids: keyed hashes of network addresses, stable over days and runs and not reversible without the key."""

import hashlib
import hmac
import os
import re
import secrets
import stat
from functools import lru_cache
from pathlib import Path

from fsspec.implementations.local import LocalFileSystem

from schemas.errors import BadInput
from tasks.storage.tables import Store

KEY_VARIABLE = "CURATE_USER_KEY"
_KEY_FILE = "secret/user_key"
_FINGERPRINT_FILE = "secret/user_key_fingerprint"
_KEY_BYTES_MIN = 16


_USER_ID = re.compile(r"[0-9a-f]{24}").fullmatch
_KEYED = "keyed"
"""What logs of our own arena have instead of an address begins with this word."""


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
        if address.startswith(self._keyed) and _USER_ID(known := address.removeprefix(self._keyed)):
            return known
        return hmac.digest(self._key, address.encode("utf-8", "replace"), "sha256").hex()[:24] if address else None


def keyed_address(key: bytes, address: str) -> str:
    """What an arena logs instead of an address, `keyed:FINGERPRINT:USER_ID`; ingest takes the user id from it."""
    return f"{_KEYED}:{_fingerprint(key)}:{Pseudonyms(key).user_id(address)}"


def _fingerprint(key: bytes) -> str:
    """16 hex digits that tell keys apart without telling anything about them."""
    return hashlib.sha256(b"fingerprint" + key).hexdigest()[:16]


def store_key(store: Store) -> bytes:
    """The store's key: from the environment, otherwise a random key that is kept in the store.

    Raises BadInput when it is not the key that the store was started with, because users would get new ids.
    """
    key = known_key(store) or _new_key(store)
    if store.read_bytes(_FINGERPRINT_FILE) is None:
        store.write_bytes(_FINGERPRINT_FILE, _fingerprint(key).encode())
    return key


def known_key(store: Store) -> bytes:
    """The same, but nothing is written: b"" for a store that has no key yet."""
    key, known = given_key() or store.read_bytes(_KEY_FILE) or b"", store.read_bytes(_FINGERPRINT_FILE)
    if known is not None and not key:
        raise BadInput(f"the key that store {store.root!r} was started with is not in it; set {KEY_VARIABLE} as before")
    if known is not None and known != _fingerprint(key).encode():
        raise BadInput(f"the user key differs from the one this store was started with; set {KEY_VARIABLE} as before")
    return key


def given_key() -> bytes:
    """The key of the environment, or b"" when none is set. Raises BadInput when it is too short."""
    given = os.environ.get(KEY_VARIABLE, "").encode()
    if given and len(given) < _KEY_BYTES_MIN:
        raise BadInput(f"{KEY_VARIABLE} has {len(given)} bytes; give at least {_KEY_BYTES_MIN}")
    return given


def _new_key(store: Store) -> bytes:
    key = secrets.token_hex(32).encode()
    if isinstance(store.fs, LocalFileSystem):  # a private folder first: the file's own mode is set after it is written
        Path(store.at(_KEY_FILE)).parent.mkdir(mode=stat.S_IRWXU, parents=True, exist_ok=True)
    store.write_bytes(_KEY_FILE, key)
    if isinstance(store.fs, LocalFileSystem):
        os.chmod(store.at(_KEY_FILE), stat.S_IRUSR | stat.S_IWUSR)
    return key
