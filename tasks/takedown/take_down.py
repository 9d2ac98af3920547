"""Runs takedowns, also those that visitors of an arena asked for in its log folder. Tombstones are written first.

From then on nothing that was taken down can be released.
"""

import getpass
import json
import secrets
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from schemas.errors import BadInput, why_unreadable
from schemas.items.reject import REQUESTS_FILE, NearCopy, Removed, TakenDownKind, Tombstone
from schemas.publication import ExportKind
from schemas.row import Held
from schemas.upkeep import Audited
from tasks.export.destination import is_moved, record_name
from tasks.ingest.log_files import server_folders, source_name
from tasks.ingest.log_line import is_conv_id
from tasks.runtime.progress import tell
from tasks.runtime.untrusted import one_line
from tasks.storage.keyed_ids import UNFINISHED, Tombstones, store_key
from tasks.storage.queries.released import is_decided, mark_decided
from tasks.storage.records import add_audit_entry
from tasks.storage.reviews import take_in_journal
from tasks.storage.tables import Store, frame_of
from tasks.takedown.going import Going, going
from tasks.takedown.releases import (
    forget_versions,
    perhaps_published,
    releases_with,
    still_exported,
    still_published,
    withdraw_releases,
)
from tasks.takedown.scope import TakedownScope, find_scope, frame_of_ids, near_copies
from tasks.takedown.sweep import require_sweepable, sweep

_LINES = """
    -- a row is one log line of a conversation that is asked for
    SELECT DISTINCT source, line
    FROM sightings SEMI JOIN asked ON conv_id = asked.id
    ANTI JOIN (SELECT 'generated/' || bench AS source FROM generated_benches) AS made USING (source)
"""
_IMAGE_NAMES = """
    -- a row is one image that is asked for, or that a conversation which is asked for names
    SELECT id FROM images_asked
    UNION
    SELECT unnest(images) AS id FROM sightings SEMI JOIN conversations_asked ON conv_id = conversations_asked.id
"""
_IMAGE_FILES = """
    -- a row is one file of an image that is asked for, or of a name that no other conversation has
    SELECT DISTINCT name
    FROM image_files
    ANTI JOIN (SELECT name || '.embedded' AS name FROM generated_images) AS made USING (name)
    WHERE image_id IN (FROM images_asked) OR regexp_replace(name, '\\.[a-z]+$', '') IN (
        SELECT id FROM named ANTI JOIN (
            SELECT unnest(images) AS id
            FROM sightings ANTI JOIN conversations_asked ON conv_id = conversations_asked.id
        ) AS others USING (id)
    )
"""


def take_down(
    store: Store,
    request: Iterable[str],
    addresses: Iterable[str],
    now: datetime,
    dry_run: bool,
    hear: Callable[[Sequence[str], Sequence[str], Sequence[NearCopy]], None] = lambda *_: None,
    reason: str = "",
    conv_ids: Iterable[str] = (),
) -> Removed:
    """Remove what is asked for and keep it out for ever; with `dry_run` only report what would be removed.

    `conv_ids` are conversations that are kept out even if the store has not had them yet.

    Before anything is removed, `hear` is called with the raw log lines and image files that still contain it, and with
    near copies: stored images that stay and look like a removed one. Raises BadInput for an id that the store never
    had, and for a store of another version in which something could be missed.
    """
    require_sweepable(store)
    key = store_key(store)
    tombstones = Tombstones(store, key)
    begun = _begun(store, tombstones)  # of an interrupted takedown; `tombstones` hold for them, too, from here on
    scope = find_scope(store, request, addresses, key, tombstones, conv_ids)
    new = pl.concat([begun, tombstones.add_for_now(scope, now)])
    ids = going(store, tombstones)
    lines, files, near = _lines(store, scope), _image_files(store, scope), near_copies(store, ids.gone[Held.CONTENT])
    hear(lines, files, near)
    if not dry_run:
        _begin(store, new, {kind: len(ids) for kind, ids in scope.items()}, reason)
    rows, releases = _remove(store, tombstones, ids, now, dry_run)
    removed = Removed(
        rows=rows,
        releases=releases,
        published=still_published(store, releases),
        perhaps_published=perhaps_published(store),
        exports=still_exported(store, releases),
        lines=lines,
        image_files=files,
        near_images=near,
        earlier_versions="" if dry_run else forget_versions(store),
    )
    if not dry_run:
        _end(store, removed.model_dump(include={"rows", "releases", "published", "perhaps_published"}), now)
    return removed


def _begin(store: Store, new: pl.DataFrame, scope: Mapping[str, int], reason: str) -> None:
    """Write down, in one file, all that is needed to go on from here: tombstones, and who asked for how much and why.

    What an interrupted takedown wrote stays in it.
    """
    by = ""
    with suppress(KeyError, OSError):  # in a container the user may have no name
        by = getpass.getuser()
    requests = json.loads(store.read_bytes(UNFINISHED) or b"{}").get("asked", [])
    is_resumed_alone = requests and not any(scope.values())
    if not is_resumed_alone:
        requests.append({"by": by, "reason": reason, "scope": scope})
    store.write_bytes(UNFINISHED, json.dumps({"asked": requests, "tombstones": new.write_json()}).encode())
    if new.height:
        store.append("takedowns", new)


def _begun(store: Store, tombstones: Tombstones) -> pl.DataFrame:
    """Tombstones of an interrupted takedown that are not in the table yet; from now on they count."""
    tombstones_json = json.loads(store.read_bytes(UNFINISHED) or b"{}").get("tombstones", "[]")
    rows = frame_of(Tombstone, [Tombstone.model_validate(row) for row in json.loads(tombstones_json)])
    return tombstones.known_from(rows)


def _end(store: Store, removed: dict[str, Any], now: datetime) -> None:
    """Write who took down how much, when and why, but not what; then nothing is left to do."""
    counts = {"rows": sum(removed["rows"].values()), "releases": len(removed["releases"])}
    requests = json.loads(store.read_bytes(UNFINISHED) or b"{}").get("asked")
    if requests or any(counts.values()):
        add_audit_entry(store, Audited.TOOK_DOWN, counts)
    if requests:  # there is none where ingest took down more of what was asked for before
        about = {"finished_at": now.isoformat(timespec="seconds"), **requests[-1]}
        about |= {"earlier": requests[:-1]} if requests[1:] else {}  # interrupted ones that this one finished
        name = f"takedown/{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}.json"
        store.write_bytes(name, json.dumps(about | removed, indent=2).encode())
    store.fs.rm_file(store.at(UNFINISHED))


def finish(store: Store, now: datetime) -> dict[str, int]:
    """Finish takedowns that were killed, or that new lines extended. Returns removed rows by table."""
    if store.read_bytes(UNFINISHED) is None:
        return {}
    require_sweepable(store)
    tombstones = Tombstones(store, store_key(store))
    if (waiting_tombstones := _begun(store, tombstones)).height:
        store.append("takedowns", waiting_tombstones)
    rows, releases = _remove(store, tombstones, going(store, tombstones), now, dry_run=False)
    _end(store, {"rows": rows, "releases": releases}, now)
    if hindered := forget_versions(store):
        tell(f"the bucket may keep earlier versions of what was taken down ({hindered}); remove them yourself")
    return rows


def _remove(
    store: Store, tombstones: Tombstones, ids: Going, now: datetime, dry_run: bool
) -> tuple[dict[str, int], list[str]]:
    releases = releases_with(store, tombstones, ids.gone[Held.CONVERSATION])
    if not dry_run:
        withdraw_releases(store, releases)  # first: others may read them, and it frees the room to rewrite parts
    decided = is_decided(store)
    rows = sweep(store, ids, tombstones, now, dry_run)
    if not dry_run:
        if decided:  # what is left is as it was
            mark_decided(store)
        take_in_journal(store)  # drops the waiting verdicts of people on what went
    return rows, releases


def _lines(store: Store, scope: TakedownScope) -> list[str]:
    """Log lines of the scope's conversations. Items that were made here are in no log."""
    lines = store.ask(_LINES, asked=frame_of_ids(scope[TakenDownKind.CONVERSATION])).sort("source", "line")
    return [f"{source}:{line}" for source, line in lines.iter_rows()]


def _image_files(store: Store, scope: TakedownScope) -> list[str]:
    """Files of the scope's images, and of images that only its conversations name. Images made here are in no file."""
    conversations, images = frame_of_ids(scope[TakenDownKind.CONVERSATION]), frame_of_ids(scope[TakenDownKind.IMAGE])
    named = store.ask(_IMAGE_NAMES, conversations_asked=conversations, images_asked=images)
    values = {"conversations_asked": conversations, "images_asked": images, "named": named}
    return store.ask(_IMAGE_FILES, **values)["name"].sort().to_list()


def requested(logs: Path) -> list[str]:
    """conv_ids in the request files of a log folder and the folders below it, each once, in order.

    Raises BadInput for a file or a line that cannot be read, because a request that is left out would be released.
    """
    files = [folder / REQUESTS_FILE for folder in server_folders(logs)]
    ids_by_file = (_conv_ids(file, source_name(file, logs)) for file in files if file.is_symlink() or file.exists())
    return list(dict.fromkeys(conv_id for ids in ids_by_file for conv_id in ids))


def _conv_ids(file: Path, source: str) -> Iterator[str]:
    if not file.is_file():
        raise BadInput(f"takedown requests {source!r} is no file; give one conversation id a line, or remove it")
    try:
        content = file.read_bytes()
    except OSError as error:
        raise BadInput(
            f"takedown requests {source!r} cannot be read ({why_unreadable(error)}); make it readable"
        ) from None
    for number, line in enumerate(content.decode("utf-8-sig", "replace").split("\n"), 1):
        conv_id = line.strip()
        if conv_id and not is_conv_id(conv_id):
            raise BadInput(
                f"takedown requests {source!r}, line {number}: no conversation id (8 to 64 letters, digits, - and _); "
                "mend the line, or remove it, and run again"
            )
        yield from [conv_id] if conv_id else []


def take_down_requested(
    store: Store,
    conv_ids: Sequence[str],
    now: datetime,
    hear: Callable[[Sequence[str], Sequence[str], Sequence[NearCopy]], None],
) -> tuple[int, Removed | None]:
    """(new requests, what they removed); nothing is written when all were taken down before. `hear` as in `take_down`.

    Conversations that the store does not have yet are kept out when their lines come.
    """
    taken_ids = Tombstones(store, store_key(store)).holds(TakenDownKind.CONVERSATION, conv_ids)
    new = [conv_id for conv_id in conv_ids if conv_id not in taken_ids]
    if not new:
        return 0, None
    return len(new), take_down(store, [], [], now, False, hear, reason=REQUESTS_FILE, conv_ids=new)


def left_lines(store: str, lines: Sequence[str], files: Sequence[str], near: Sequence[NearCopy]) -> Iterator[str]:
    """Lines on what is still in the raw logs, and on near copies that stay in the store; later none can be found."""
    if lines or files:
        yield f"still in the raw logs, to be deleted there: {len(lines):,} lines, {len(files):,} image files"
        yield from (f"  {one_line(line_or_file, 1000)}" for line_or_file in (*lines, *files))
    if near:
        yield f"{len(near):,} near copies, images that look like a removed one, stay:"
        for copy in near:
            yield f"  {one_line(copy.image_id, 100)}  {copy.pdq_distance} of 256 bits of their PDQ hashes differ"
        them = shlex.join(["curate", "takedown", "--store", store, *(copy.image_id for copy in near)])
        yield f"to take them down as well: {one_line(them, 100_000)}"


def release_lines(removed: Removed, store: str, went: str = "gone") -> Iterator[str]:
    """Releases that held it, in the store and on the Hub."""
    for version in removed.releases:
        yield f"{went}  release {store}/releases/{version}; its manifest stays"
    for repo, revision in removed.published:
        yield f"still on the Hub; take it back with: {_yank(repo, revision, store)}"
    for repo, revision in removed.perhaps_published:
        yield (
            f"on the Hub, but its release is not in {store}/releases any more; check whether it has the content, or "
            f"take it back with: {_yank(repo, revision, store)}"
        )


def export_lines(removed: Removed, store: str) -> Iterator[str]:
    """Exports outside of the store, with their places."""
    for export, certain in removed.exports:
        about = f"an export of {f'release {export.version}' if export.version else 'the store'} ({export.kind})"
        where = one_line(f"{export.place} on {export.machine}" if export.machine else export.place, 1000)
        if export.kind is ExportKind.BACKUP:
            yield f"still in the backup until it is made again (curate backup); a restore takes it down again: {where}"
            continue
        if is_moved(export):
            record = f"{store}/{record_name(export.place, export.machine)}"
            yield f"{about} was recorded at {where}, not found there: delete it where it is now, then {record}"
            continue
        yield f"still in {about}, to be deleted: {where}" if certain else f"perhaps in {about}, look there: {where}"


def _yank(repo: str, revision: str, store: str) -> str:
    return one_line(shlex.join(["curate", "yank", revision, "--repo", repo, "--store", store]), 1000)
