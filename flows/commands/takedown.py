"""`curate takedown`: forget conversations, pictures and people."""

import shlex
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.options import StoreOption
from schemas.errors import BadInput, StoreUnwell
from tasks.runtime.untrusted import one_line

if TYPE_CHECKING:
    from schemas.takedown import NearCopy, Removed


def takedown(
    store: StoreOption,
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID…",
            help="Conversation, battle, picture or user ids (user_id, judge), logged picture names, picture files; "
            "- reads them from standard input, one a line.",
        ),
    ] = None,
    user: Annotated[
        list[str] | None,
        typer.Option("--user", help="A user as the raw logs name them; - reads it from standard input, one a line."),
    ] = None,
    reason: Annotated[
        str, typer.Option("--reason", help="Kept in the store's record of it: a ticket's number, never a name.")
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would go.")] = False,
) -> None:
    """Forget: gone from every table, cache and built release, and kept out of every later one.

    The other side of a vote goes along, and with a picture every conversation that shows it. A picture that another
    conversation shows stays. Without any ID, finishes a takedown that was interrupted.
    """
    from tasks.storage.lock import writing
    from tasks.storage.storage_errors import storage_errors
    from tasks.storage.tables import Store
    from tasks.storage.tombstones import UNFINISHED
    from tasks.takedown.take_down import take_down

    if [*(ids or []), *(user or [])].count("-") > 1:
        raise BadInput("standard input can be read once: give - for ids or for --user, and run it again for the other")
    of_store, asked, addresses = Store.existing(store), _given(ids or []), _given(user or [])
    if not asked and not addresses and of_store.read_bytes(UNFINISHED) is None:
        raise BadInput("nothing to take down: give an ID or --user; no earlier takedown is left unfinished")
    with storage_errors(of_store), nullcontext() if dry_run else writing(store):
        removed = take_down(of_store, asked, addresses, datetime.now(UTC), dry_run, partial(_print_left, store), reason)
    _print(removed, store, dry_run)
    if removed.earlier_versions:
        raise StoreUnwell(
            f"the bucket of store {store!r} may keep earlier versions of what went ({removed.earlier_versions}); allow "
            "s3:ListBucketVersions, s3:ListBucketMultipartUploads and s3:DeleteObjectVersion and run the same command "
            "again, or remove them yourself"
        )


def _given(arguments: Sequence[str]) -> list[str]:
    """Those on standard input appear in no shell history, and may be many."""
    return [each for argument in arguments for each in (_lines() if argument == "-" else [argument])]


def _lines() -> list[str]:
    return [line.strip() for line in sys.stdin.read().splitlines() if line.strip()]


def _print_left(store: str, lines: Sequence[str], files: Sequence[str], near: "Sequence[NearCopy]") -> None:
    """All of it, and before anything goes: afterwards nobody can tell where the rest of it is."""
    if lines or files:
        print(f"still in the raw logs, to be deleted there: {len(lines):,} lines, {len(files):,} picture files")
        for each in (*lines, *files):
            print(f"  {one_line(each, 1000)}", flush=True)
    if near:
        print(f"{len(near):,} pictures look like one that goes, and stay:")
        for copy in near:
            print(f"  {one_line(copy.image_id, 100)}  {copy.pdq_distance} of 256 bits of their PDQ hashes differ")
        them = shlex.join(["curate", "takedown", "--store", store, *(copy.image_id for copy in near)])
        print(f"take those down as well that should go: {one_line(them, 100_000)}", flush=True)


def _yank(repo: str, revision: str, store: str) -> str:
    return one_line(shlex.join(["curate", "yank", revision, "--repo", repo, "--store", store]), 1000)


def _print(removed: "Removed", store: str, dry_run: bool) -> None:
    went = "would go" if dry_run else "gone"
    for table, rows in removed.rows.items():
        print(f"{went}  {rows:>8,}  {table}")
    for version in removed.releases:
        print(f"{went}  release {store}/releases/{version}; its manifest stays")
    for repo, revision in removed.published:
        print(f"still on the Hub; take it back with: {_yank(repo, revision, store)}")
    for repo, revision in removed.perhaps_published:
        print(
            f"on the Hub, and its release is not in {store}/releases any more, so look whether it holds it, or take it "
            f"back with: {_yank(repo, revision, store)}"
        )
    if not dry_run:
        print("the next `curate run`, or decide, sample, rate and release, makes a release without it")
