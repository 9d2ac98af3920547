"""Tombstones: keyed hashes of ids that were taken down. They keep the same items out when logs are read again."""

import hmac
from collections.abc import Iterable, Mapping
from datetime import datetime

import polars as pl

from schemas.takedown import TakenDownKind, Tombstone
from tasks.storage.tables import Store, frame_of

UNFINISHED = "takedown/unfinished"
"""File of a store that exists while tables may still contain something that was taken down."""
_SUFFIX = 9
"""Conversations after the first of a conv_id have a dash and eight hex digits appended."""


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
        return {each for each in ids if each is not None and self._hash(kind, each) in self._known}

    def conversations(self, ids: Iterable[str]) -> set[str]:
        """The subset of these conversation_ids whose conv_id was taken down."""
        kind = TakenDownKind.CONVERSATION
        return {each for each in ids if any(self._hash(kind, name) in self._known for name in possible_conv_ids(each))}

    def add(self, ids: Mapping[TakenDownKind, Iterable[str]], now: datetime) -> None:
        """Add tombstones and store them."""
        self._store.append("takedowns", self.add_for_now(ids, now))

    def add_for_now(self, ids: Mapping[TakenDownKind, Iterable[str]], now: datetime) -> pl.DataFrame:
        """Add tombstones to this object only. Returns the new rows of `takedowns`, which are not stored."""
        hashed = {self._hash(kind, each): kind for kind, of_kind in ids.items() for each in of_kind}
        new = [
            Tombstone(key=key, kind=kind, taken_down_at=now)
            for key, kind in sorted(hashed.items())
            if key not in self._known
        ]
        self._known |= {row.key for row in new}
        return frame_of(Tombstone, new)

    def _hash(self, kind: TakenDownKind, each: str) -> str:
        return hmac.digest(self._key, f"takedown {kind} {each}".encode("utf-8", "surrogatepass"), "sha256").hex()[:32]
