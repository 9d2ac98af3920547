"""Withdraws every line of a conversation, picture or user that was taken down."""

from collections.abc import Iterable, Sequence
from datetime import datetime

import polars as pl

from schemas.reject import RejectReason
from schemas.takedown import TakenDownKind
from tasks.ingest.known_pictures import key_of
from tasks.ingest.quarantine import quarantined, touches, withdraw
from tasks.store.tombstones import UNFINISHED, Tombstones
from tasks.tables import Store

EVIDENCE = "taken down on request"


def withdraw_taken_down(
    store: Store, parts: list[str], new: Iterable[str], tombstones: Tombstones, now: datetime
) -> tuple[list[str], pl.DataFrame | None]:
    """(parts of `sightings` without what was taken down, the rejects of its lines); only `new` parts may hold any.

    A new line that shows a conversation taken down together with another takes that one down too.
    """
    touched = taken_down_in(store, list(new), tombstones) if tombstones else set()
    if not touched:
        return parts, None
    held = quarantined(store, parts, touched, ())
    if set(held["key"]) != touched:
        store.write_bytes(UNFINISHED, b"")  # facts and pictures of the other one go when ingest ends
    tombstones.add({TakenDownKind.CONVERSATION: held["key"]}, now)
    return withdraw(store, parts, held, RejectReason.TAKEN_DOWN, EVIDENCE)


def keep_names_out(store: Store, names: Iterable[str], tombstones: Tombstones, now: datetime) -> None:
    """Pictures that were taken down came under other names: these, and whoever shows them, go when ingest ends."""
    keys = {key_of(name) for name in names}
    if keys - tombstones.holds(TakenDownKind.PICTURE, keys):
        store.write_bytes(UNFINISHED, b"")
        shown = quarantined(store, store.parts("sightings"), (), keys).filter(kind="conversation")["key"]
        tombstones.add({TakenDownKind.PICTURE: keys, TakenDownKind.CONVERSATION: shown}, now)


def taken_down_in(store: Store, parts: Sequence[str], tombstones: Tombstones) -> set[str]:
    """conv_ids in some parts of `sightings` that were taken down, or show such a picture, or are of such a user."""
    found: set[str] = set()
    for part in parts:
        rows = store.read_part("sightings", part, ["conv_id", "pictures", "user_id"])
        conversations = tombstones.holds(TakenDownKind.CONVERSATION, rows["conv_id"].unique())
        pictures = tombstones.holds(TakenDownKind.PICTURE, rows["pictures"].explode().unique())
        users = tombstones.holds(TakenDownKind.USER, rows["user_id"].unique())
        theirs = pl.col("user_id").is_in(sorted(users)).fill_null(False)
        found |= set(rows.filter(touches(conversations, pictures) | theirs)["conv_id"])
    return found
