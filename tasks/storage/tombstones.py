"""Tombstones: keyed hashes of what was taken down, so that reading the same logs again does not bring it back."""

import hmac
from collections.abc import Iterable, Mapping
from datetime import datetime

import polars as pl

from schemas.takedown import TakenDownKind, Tombstone
from tasks.storage.tables import Store, frame_of

UNFINISHED = "takedown/unfinished"
"""File of a store that exists while something taken down may still stand in some table."""
_SUFFIX = 9
"""A conversation that is not the first of its conv_id has a dash and eight hex digits appended."""


def _conv_ids(conversation_id: str) -> list[str]:
    """What may be the conv_id of a conversation."""
    return [conversation_id, conversation_id[:-_SUFFIX]] if conversation_id[-_SUFFIX:][:1] == "-" else [conversation_id]


class Tombstones:
    """What was taken down from a store. `key` is the store's own, so another store's hashes differ."""

    def __init__(self, store: Store, key: bytes) -> None:
        self._store, self._key = store, key
        self._known = set(store.read("takedowns", ["key"])["key"])

    def __bool__(self) -> bool:
        return bool(self._known)

    def holds(self, kind: TakenDownKind, ids: Iterable[str | None]) -> set[str]:
        """Those of `ids` that were taken down."""
        return {each for each in ids if each is not None and self._hash(kind, each) in self._known}

    def conversations(self, ids: Iterable[str]) -> set[str]:
        """Those of some conversation_ids whose conv_id was taken down."""
        kind = TakenDownKind.CONVERSATION
        return {each for each in ids if not self._known.isdisjoint(self._hash(kind, name) for name in _conv_ids(each))}

    def add(self, ids: Mapping[TakenDownKind, Iterable[str]], now: datetime) -> None:
        """Take more down for ever."""
        self._store.append("takedowns", self.add_for_now(ids, now))

    def add_for_now(self, ids: Mapping[TakenDownKind, Iterable[str]], now: datetime) -> pl.DataFrame:
        """Take more down for as long as this object lives. Returns the rows of `takedowns` that are new."""
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
