"""`curate migrate`: bring a store of an earlier version on to this one."""

from pathlib import Path
from typing import Annotated

import typer

from flows.commands.publish import YesOption, confirm


def migrate(
    store: Annotated[str, typer.Argument(metavar="STORE", help="Folder of a store, or its s3://… address.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Write a migrated copy to a new folder; the store stays as it is."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be written anew.")] = False,
    yes: YesOption = False,
) -> None:
    """Bring a store of an earlier version on to this one: its tables get the names and columns that they have now.

    Columns that came since are null; signals, reviews, takedowns, answers and releases stay as they are. Lists what it
    would do and asks before it acts. One that was killed goes on when it is run again.
    """
    from schemas.layout import LAYOUT
    from tasks.storage.lock import writing
    from tasks.storage.migrate import migrate as bring_on
    from tasks.storage.migrate import migrated_copy, migration, require_place
    from tasks.storage.storage_errors import storage_errors
    from tasks.storage.tables import Store

    older = Store.existing(store, any_layout=True)
    with storage_errors(older):
        if out is not None:
            require_place(older, out)
        changes = migration(older)
    for change in changes:
        print(change)
    print(f"store {store!r}: {len(changes):,} tables to change for layout {LAYOUT}")
    if dry_run:
        return
    if not yes and (changes or out is not None):
        confirm("change the store?" if out is None else f"write a copy to {str(out)!r}?")
    with storage_errors(older), writing(store, any_layout=True) as held:
        if out is None:
            bring_on(held)
        else:
            migrated_copy(held, out)
    print(f"store {str(out or store)!r} has layout {LAYOUT} now; `curate run` goes on with it")
