"""A takedown from beginning to end. Tombstones come first: from then on nothing of it can be released."""

import getpass
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

import polars as pl

from schemas.takedown import Removed
from tasks.ingest.people import store_key
from tasks.tables import Store
from tasks.takedown.live import live
from tasks.takedown.releases import perhaps_published, releases_with, still_published, withdraw_releases
from tasks.takedown.scope import Scope, find_scope
from tasks.takedown.sweep import sweep
from tasks.tombstones import UNFINISHED, Tombstones


def take_down(
    store: Store,
    asked: Iterable[str],
    addresses: Iterable[str],
    now: datetime,
    dry_run: bool,
    tell: Callable[[Sequence[str], Sequence[str]], None] = lambda _lines, _files: None,
    reason: str = "",
) -> Removed:
    """Remove what is asked for and keep it out for ever; with `dry_run` only say what would go.

    `tell` hears of the raw log lines and picture files that hold it before anything goes. Raises BadInput for an id
    that the store never had, before anything is removed.
    """
    key = store_key(store)
    tombstones = Tombstones(store, key)
    scope = find_scope(store, asked, addresses, key, tombstones)
    lines, files, near = _lines(store, scope), _picture_files(store, scope), _near(store, scope)
    tell(lines, files)
    if not dry_run:
        store.write_bytes(UNFINISHED, b"")
    tombstones.add(scope.by_kind(), now, keep=not dry_run)
    rows, releases = _remove(store, tombstones, now, dry_run)
    removed = Removed(
        rows=rows,
        releases=releases,
        published=still_published(store, releases),
        perhaps_published=perhaps_published(store),
        lines=lines,
        picture_files=files,
        near_pictures=near,
    )
    if not dry_run:
        _keep_record(store, removed, {kind: len(ids) for kind, ids in scope.by_kind().items()}, now, reason)
    return removed


def _keep_record(store: Store, removed: Removed, scope: Mapping[str, int], now: datetime, reason: str) -> None:
    """Who took down how much, when and why; nothing of what it was."""
    counts = removed.model_dump(include={"rows", "releases", "published", "perhaps_published"})
    record = {
        "finished_at": now.isoformat(timespec="seconds"),
        "by": _user(),
        "reason": reason,
        "scope": scope,
    } | counts
    store.write_bytes(f"takedown/{now:%Y%m%dT%H%M%S}Z.json", json.dumps(record, indent=2).encode())


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may have no name for its user
        return ""


def finish(store: Store, now: datetime) -> dict[str, int]:
    """Finish takedowns that were killed, or that new lines made larger. Table -> rows that went."""
    if store.read_bytes(UNFINISHED) is None:
        return {}
    return _remove(store, Tombstones(store, store_key(store)), now, dry_run=False)[0]


def _remove(store: Store, tombstones: Tombstones, now: datetime, dry_run: bool) -> tuple[dict[str, int], list[str]]:
    releases = releases_with(store, tombstones)
    if not dry_run:
        withdraw_releases(store, releases)  # first: others read them, and parts are written anew in the room they had
    rows = sweep(store, live(store, tombstones), tombstones, now, dry_run)
    if not dry_run:
        store.fs.rm_file(store.at(UNFINISHED))
    return rows, releases


def _lines(store: Store, scope: Scope) -> list[str]:
    found: set[tuple[str, int]] = set()
    for rows in store.read_parts("sightings", ["source", "line", "conv_id"]):
        theirs = rows.filter(pl.col("conv_id").is_in(sorted(scope.conversations)))
        found |= set(theirs.select("source", "line").iter_rows())
    return [f"{source}:{line}" for source, line in sorted(found)]


def _picture_files(store: Store, scope: Scope) -> list[str]:
    """Files of the scope's pictures, and of pictures that only its conversations name."""
    theirs: set[str] = set(scope.pictures)
    others: set[str] = set()
    for rows in store.read_parts("sightings", ["conv_id", "pictures"]):
        ours = pl.col("conv_id").is_in(sorted(scope.conversations))
        theirs |= set(rows.filter(ours)["pictures"].explode().drop_nulls())
        others |= set(rows.filter(~ours)["pictures"].explode().drop_nulls())
    stem = pl.col("name").str.replace(r"\.[a-z]+$", "")
    wanted = stem.is_in(sorted(theirs - others)) | pl.col("image_id").is_in(sorted(scope.pictures))
    return store.read("picture_files", ["name", "image_id"]).filter(wanted)["name"].unique().sort().to_list()


def _near(store: Store, scope: Scope) -> list[str]:
    pairs = store.read("near_pictures", ["image_a", "image_b"]).iter_rows()
    return sorted({b if a in scope.pictures else a for a, b in pairs if (a in scope.pictures) != (b in scope.pictures)})
