"""`curate takedown`: remove conversations, images and users for ever."""

import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.options import takes
from flows.commands.publish import YesOption
from schemas.errors import BadInput, StoreUnwell
from schemas.settings import Settings
from tasks.runtime.untrusted import one_line

if TYPE_CHECKING:
    from schemas.items.reject import NearCopy, Removed
    from tasks.storage.tables import Store


@takes("store", others=False)
def takedown(
    settings: Settings,
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID…",
            help="Conversation, battle, image or user ids (user_id, judge), logged image names, image files; "
            "- reads them from standard input, one per line.",
        ),
    ] = None,
    user: Annotated[
        list[str] | None,
        typer.Option(
            "--user", help="A user as the raw logs name them; - reads users from standard input, one per line."
        ),
    ] = None,
    reason: Annotated[
        str,
        typer.Option("--reason", help="Kept in the store's takedown record, such as a ticket number; never a name."),
    ] = "",
    skip_unknown: Annotated[
        bool,
        typer.Option("--skip-unknown", help="Leave out and list IDs that the store never had, instead of stopping."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be removed.")] = False,
    yes: YesOption = False,
) -> None:
    """Remove conversations, images or users from all tables, caches and built releases, and keep them out for ever.

    The other side of a vote is removed too, and with an image every conversation that shows it. Images that another
    conversation shows stay. Lists what would be removed and asks before it acts. Without any ID, finishes an
    interrupted takedown.
    """
    from tasks.storage.keyed_ids import UNFINISHED
    from tasks.storage.lock import storage_errors, writing
    from tasks.storage.tables import Store
    from tasks.takedown.take_down import take_down

    store = settings.store
    if [*(ids or []), *(user or [])].count("-") > 1:
        raise BadInput("standard input can be read once: give - for ids or for --user, and run it again for the other")
    of_store, requested_ids, addresses = (
        Store.existing(store, any_layout=True),
        given_or_read(ids or []),
        given_or_read(user or []),
    )
    if not requested_ids and not addresses and of_store.read_bytes(UNFINISHED) is None:
        raise BadInput("nothing to take down: give an ID or --user; no earlier takedown is left unfinished")
    if skip_unknown and requested_ids:
        with storage_errors(of_store):
            requested_ids = _without_unknown(of_store, requested_ids)
        if not requested_ids and not addresses:
            return
    report_left: Callable[..., None] = partial(_print_left, store)
    if not (dry_run or yes) and (requested_ids or addresses):
        with storage_errors(of_store):  # an unknown ID ends the command here, before anything is asked
            _print(take_down(of_store, requested_ids, addresses, datetime.now(UTC), True, report_left), store, True)
        if not sys.stdin.isatty():
            raise BadInput("nobody is there to ask, so nothing was removed; say --yes to remove what is listed above")
        if not typer.confirm("remove all this for ever?"):
            raise typer.Exit(1)
        report_left = lambda *_: None  # noqa: E731 - all was printed before the question
    with storage_errors(of_store), nullcontext() if dry_run else writing(store, any_layout=True):
        removed = take_down(of_store, requested_ids, addresses, datetime.now(UTC), dry_run, report_left, reason)
    _print(removed, store, dry_run)
    if removed.earlier_versions:
        raise StoreUnwell(
            f"the bucket of store {store!r} may keep earlier versions of what went ({removed.earlier_versions}); allow "
            "s3:ListBucketVersions, s3:ListBucketMultipartUploads and s3:DeleteObjectVersion and run the same command "
            "again, or remove them yourself"
        )


def given_or_read(arguments: Sequence[str]) -> list[str]:
    """The arguments, with - replaced by the lines of standard input, which appear in no shell history."""
    lines = [line.strip() for line in sys.stdin] if "-" in arguments else []
    return [
        identifier for argument in arguments for identifier in (filter(None, lines) if argument == "-" else [argument])
    ]


def _without_unknown(store: "Store", requested_ids: Sequence[str]) -> list[str]:
    """The ids that the store has or had; the others are printed."""
    from tasks.takedown.scope import unknown_ids

    unknown = dict.fromkeys(unknown_ids(store, requested_ids))
    if unknown:
        print(
            f"{len(unknown):,} of {len(requested_ids):,} left out, as this store never had them; "
            "give them again after the next `curate ingest`:"
        )
    for unknown_id in unknown:
        print(f"  {one_line(unknown_id, 1000)}")
    return [requested_id for requested_id in requested_ids if requested_id not in unknown]


def _print_left(store: str, lines: Sequence[str], files: Sequence[str], near: "Sequence[NearCopy]") -> None:
    from tasks.takedown.take_down import left_lines

    for line in left_lines(store, lines, files, near):
        print(line, flush=True)


def _print(removed: "Removed", store: str, dry_run: bool) -> None:
    from tasks.takedown.take_down import export_lines, release_lines

    went = "would go" if dry_run else "gone"
    for table, rows in removed.rows.items():
        print(f"{went}  {rows:>8,}  {table}")
    for line in (*release_lines(removed, store, went), *export_lines(removed, store)):
        print(line)
    if not dry_run:
        print("the next `curate run`, or decide, sample, rate and release, makes a release without it")
