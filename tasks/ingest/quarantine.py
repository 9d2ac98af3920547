"""Removes log lines that share a conversation or image with one that is flagged, on a hash list, or taken down.

In: conversation ids and image names. Out: the `quarantine` table, parts of `sightings` without the lines, and their
rejects.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

import polars as pl

from schemas.items.reject import QuarantineCause, Quarantined, Reject, RejectReason, TakenDownKind
from tasks.storage.keyed_ids import Tombstones, note_unfinished
from tasks.storage.parts import rows_without
from tasks.storage.tables import Store, frame_of

PRESET = "preset:"
"""Prefix of the name of a preset image."""
EMBEDDED = ".embedded"
"""Suffix of the name of an image that a row of a dataset holds."""
_KEYS = ["source", "line", "conv_id", "images"]
EVIDENCE = "taken down on request"
_REASONS: dict[QuarantineCause, tuple[RejectReason, str]] = {
    QuarantineCause.FLAGGED: (RejectReason.CSAM_FLAGGED, "shares a conversation or image with a flagged one"),
    QuarantineCause.KNOWN_HASH: (RejectReason.KNOWN_HASH, "shares a conversation or image with a known one"),
}


def quarantine_key(name: str) -> str:
    """The key of an image in `quarantine`: its logged name without extension, or its preset path as it is."""
    if name.startswith(PRESET):
        return name
    return name.removesuffix(EMBEDDED) if name.endswith(EMBEDDED) else name.rpartition(".")[0] or name


def hold(
    store: Store,
    earlier: list[str],
    new: list[str],
    known: pl.DataFrame,
    cause: QuarantineCause,
    conversations: Iterable[str] = (),
    images: Iterable[str] = (),
) -> tuple[list[str], list[str], pl.DataFrame, pl.DataFrame]:
    """Remove quarantined lines from parts of `sightings`; from `earlier` parts only when something new is quarantined.

    `known` is the `quarantine` table so far; `conversations` and `images` are the conv_ids and image names to add.

    Returns:
        (earlier parts, new parts, rows of `quarantine` for the cause, rejects of removed lines)
    """
    known = known.filter(cause=cause.value)
    keys = {kind: set(known.filter(kind=kind)["key"]) for kind in ("conversation", "image")}
    added = (keys["conversation"].union(conversations), keys["image"].union(images))
    held = quarantined(store, new, *added, cause)
    rejects = [frame_of(Reject, [])]
    if held.height != known.height:  # otherwise earlier runs have removed their lines
        held = quarantined(store, earlier + new, *added, cause)
        earlier, withdrawn = withdraw(store, earlier, held, *_REASONS[cause])
        rejects.append(withdrawn)
    new, withdrawn = withdraw(store, new, held, *_REASONS[cause])
    return earlier, new, held, pl.concat([*rejects, withdrawn])


def quarantined(
    store: Store,
    parts: Sequence[str],
    conversations: Iterable[str],
    images: Iterable[str],
    cause: QuarantineCause = QuarantineCause.FLAGGED,
) -> pl.DataFrame:
    """Rows of the `quarantine` table for these conv_ids and image names, and every conversation that shares a line.

    If one side of a vote is quarantined, so is the other, and then every line of the other, and so on.
    """
    held, named = set(conversations), set(images)
    grown = bool(held or named)
    while grown:
        found: set[str] = set()
        for part in parts:
            rows = store.read_part("sightings", part, _KEYS)
            lines = rows.filter(touches(held, named)).select("source", "line").unique()
            found.update(rows.join(lines, on=["source", "line"], how="semi")["conv_id"])
        grown = not found <= held
        held |= found
    keys = [("conversation", key) for key in sorted(held)] + [("image", key) for key in sorted(named)]
    return frame_of(Quarantined, [Quarantined(kind=kind, key=key, cause=cause) for kind, key in keys])


def touches(conversations: Iterable[str], images: Iterable[str]) -> pl.Expr:
    """Whether a sighting belongs to one of the conversations or shows one of the images."""
    named = pl.lit(pl.Series(sorted(images), dtype=pl.String).implode())
    shown = pl.col("images").list.set_intersection(named).list.len() > 0
    return pl.col("conv_id").is_in(sorted(conversations)) | shown


def withdraw(
    store: Store, parts: Sequence[str], held: pl.DataFrame, reason: RejectReason, evidence: str
) -> tuple[list[str], pl.DataFrame]:
    """(parts without the lines that share a conversation or image with `held`, rejects of those lines)."""
    if held.is_empty():
        return list(parts), frame_of(Reject, [])  # unread
    keys = {kind: set(held.filter(kind=kind)["key"]) for kind in ("conversation", "image")}
    unwanted = touches(keys["conversation"], keys["image"])
    withdrawn: set[tuple[str, int]] = set()
    for part in parts:
        withdrawn.update(
            store.read_part("sightings", part, _KEYS).filter(unwanted).select("source", "line").iter_rows()
        )
    rejects = [Reject(source=source, line=line, reason=reason, evidence=evidence) for source, line in sorted(withdrawn)]
    kept = rows_without(store, "sightings", parts, unwanted) if withdrawn else list(parts)
    return kept, frame_of(Reject, rejects)


def withdraw_taken_down(
    store: Store, parts: list[str], new: Iterable[str], tombstones: Tombstones, now: datetime
) -> tuple[list[str], pl.DataFrame]:
    """(parts of `sightings` without lines that were taken down, rejects of those lines). Only `new` parts are searched.

    A conversation that shares a new line with one that was taken down is taken down too.
    """
    touched = taken_down_in(store, list(new), tombstones) if tombstones else set()
    if not touched:
        return parts, frame_of(Reject, [])
    held = quarantined(store, parts, touched, ())
    if set(held["key"]) != touched:
        note_unfinished(store)  # signals and images of the other one are removed when ingest ends
    tombstones.add({TakenDownKind.CONVERSATION: held["key"]}, now)
    return withdraw(store, parts, held, RejectReason.TAKEN_DOWN, EVIDENCE)


def keep_names_out(store: Store, names: Iterable[str], tombstones: Tombstones, now: datetime) -> None:
    """Take down new names of images that were taken down, and the lines that show them, when ingest ends."""
    keys = {quarantine_key(name) for name in names}
    if keys - tombstones.holds(TakenDownKind.IMAGE, keys):
        note_unfinished(store)
        shown = quarantined(store, store.parts("sightings"), (), keys).filter(kind="conversation")["key"]
        tombstones.add({TakenDownKind.IMAGE: keys, TakenDownKind.CONVERSATION: shown}, now)


def taken_down_in(store: Store, parts: Sequence[str], tombstones: Tombstones) -> set[str]:
    """conv_ids in some parts of `sightings` whose conversation, image or user was taken down."""
    found: set[str] = set()
    for part in parts:
        rows = store.read_part("sightings", part, ["conv_id", "images", "user_id"])
        conversations = tombstones.holds(TakenDownKind.CONVERSATION, rows["conv_id"].unique())
        images = tombstones.holds(TakenDownKind.IMAGE, rows["images"].explode().unique())
        users = tombstones.holds(TakenDownKind.USER, rows["user_id"].unique())
        theirs = pl.col("user_id").is_in(sorted(users)).fill_null(False)
        found |= set(rows.filter(touches(conversations, images) | theirs)["conv_id"])
    return found
