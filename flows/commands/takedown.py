"""`curate takedown`: forget conversations, pictures and people."""

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.options import StoreOption
from schemas.errors import BadInput

if TYPE_CHECKING:
    from schemas.takedown import Removed

_SHOWN = 20


def takedown(
    store: StoreOption,
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID…",
            help="Conversation, battle, picture or user ids (user_id, judge), logged picture names, picture files.",
        ),
    ] = None,
    user: Annotated[
        list[str] | None,
        typer.Option("--user", help="A user as the raw logs name them; - reads it from standard input, one a line."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would go.")] = False,
) -> None:
    """Forget: gone from every table, cache and built release, and kept out of every later one.

    The other side of a vote goes along, and with a picture every conversation that shows it. A picture that another
    conversation shows stays. Without any ID, finishes a takedown that was interrupted.
    """
    from tasks.store_lock import writing
    from tasks.tables import Store
    from tasks.takedown.take_down import take_down
    from tasks.tombstones import UNFINISHED

    of_store, asked, addresses = Store.existing(store), ids or [], _addresses(user or [])
    if not asked and not addresses and of_store.read_bytes(UNFINISHED) is None:
        raise BadInput("nothing to take down: give an ID or --user; no earlier takedown is left unfinished")
    with nullcontext() if dry_run else writing(store):
        removed = take_down(of_store, asked, addresses, datetime.now(UTC), dry_run)
    _print(removed, store, dry_run)


def _addresses(given: Sequence[str]) -> list[str]:
    """The given addresses; those on standard input appear in no shell history."""
    return [address for each in given for address in (sys.stdin.read().split() if each == "-" else [each])]


def _print(removed: "Removed", store: str, dry_run: bool) -> None:
    went = "would go" if dry_run else "gone"
    for table, rows in removed.rows.items():
        print(f"{went}  {rows:>8,}  {table}")
    for version in removed.releases:
        print(f"{went}  release {store}/releases/{version}; its manifest stays")
    for repo, revision in removed.published:
        print(f"still on the Hub; take it back with: curate yank {revision} --repo {repo} --store {store}")
    _print_list("still in the raw logs; delete there", [*removed.lines, *removed.picture_files])
    _print_list("look like a removed picture and stay; take them down as well if they should go", removed.near_pictures)
    if not dry_run:
        print("the next `curate run`, or decide, sample, rate and release, makes a release without it")


def _print_list(title: str, items: Sequence[str]) -> None:
    if items:
        shown = ", ".join(items[:_SHOWN]) + (f" and {len(items) - _SHOWN:,} more" if len(items) > _SHOWN else "")
        print(f"{title}: {shown}")
