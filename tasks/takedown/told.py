"""Lines that tell an operator what a takedown removed, and what it does not reach."""

import shlex
from collections.abc import Iterator, Sequence

from schemas.items.reject import NearCopy, Removed
from schemas.publication import ExportKind
from tasks.export.destination import is_moved, record_name
from tasks.runtime.untrusted import one_line


def left_lines(store: str, lines: Sequence[str], files: Sequence[str], near: Sequence[NearCopy]) -> Iterator[str]:
    """Lines on what is still in the raw logs, and on near copies that stay in the store; later none can be found."""
    if lines or files:
        yield f"still in the raw logs, to be deleted there: {len(lines):,} lines, {len(files):,} image files"
        yield from (f"  {one_line(each, 1000)}" for each in (*lines, *files))
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
    for each, certain in removed.exports:
        about = f"an export of release {each.version} ({each.kind})"
        where = one_line(f"{each.place} on {each.machine}" if each.machine else each.place, 1000)
        if each.kind is ExportKind.BACKUP:
            yield f"still in the backup until it is made again (curate backup); a restore takes it down again: {where}"
            continue
        if is_moved(each):
            record = f"{store}/{record_name(each.place, each.machine)}"
            yield f"{about} was recorded at {where}, not found there: delete it where it is now, then {record}"
            continue
        yield f"still in {about}, to be deleted: {where}" if certain else f"perhaps in {about}, look there: {where}"


def _yank(repo: str, revision: str, store: str) -> str:
    return one_line(shlex.join(["curate", "yank", revision, "--repo", repo, "--store", store]), 1000)
