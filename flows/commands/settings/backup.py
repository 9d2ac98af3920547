"""`curate backup` and `curate migrate`: copy a store, make a store of the copy again, bring an older one on."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.options import measured_versions, settings_of, takes
from flows.commands.publish import YesOption, confirm
from flows.running.settings_file import in_force
from schemas.errors import BadInput, CurateError
from schemas.settings import Settings
from tasks.runtime.untrusted import one_line

if TYPE_CHECKING:
    from tasks.storage.tables import Store
    from tasks.upkeep.backup import BackedUp


@takes("store", others=False)
def backup(
    settings: Settings,
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Folder of the backup, or its s3://… address.")],
    restored: Annotated[
        str | None,
        typer.Argument(metavar="NEW", help="New folder: make a store of the backup there.", show_default="back up"),
    ] = None,
    yes: YesOption = False,
) -> None:
    """Copy the store to DIR, also while a run writes; only what is new since the last backup in DIR is copied.

    With NEW, make a store of the backup in DIR, and take down what was taken down since: by the takedowns of --store,
    the store as it last was. Where that is lost, it asks whether there was any since. Then it checks every byte of the
    new store and verifies its releases.
    """
    from tasks.storage.lock import storage_errors
    from tasks.storage.tables import Store
    from tasks.upkeep.backup import BackedUp, back_up, left_out

    of_backup = Store(folder)
    if restored is not None:
        with storage_errors(Store(restored)):
            _restore(BackedUp(of_backup), Store(restored), settings.store, yes)
        return
    store = Store.existing(settings.store, any_layout=True)
    with storage_errors(of_backup):
        backed_up = back_up(store, of_backup, datetime.now(UTC))
    total = sum(file.size_bytes for file in backed_up.files.values())
    print(f"{folder}: {len(backed_up.files):,} files, {total / 1e6:,.1f} MB of store {settings.store!r}")
    if others := left_out(store):
        print(f"curate: no part of the store, and not in it: {', '.join(others)}", file=sys.stderr)


def _restore(stored: "BackedUp", store: "Store", present: str, yes: bool) -> None:
    from schemas.upkeep import Audited
    from tasks.storage.keyed_ids import known_key
    from tasks.storage.lock import writing
    from tasks.storage.records import add_audit_entry
    from tasks.takedown.take_down import finish
    from tasks.upkeep.backup import require_empty, restore

    require_empty(store)
    known_key(stored)  # before anything is written
    since = _as_it_last_was(present, stored, yes)
    restore(stored, store, since)
    with writing(store.root, any_layout=True):
        gone = finish(store, datetime.now(UTC))
        add_audit_entry(store, Audited.RESTORED, {"files": len(stored.backup.files)})
    for table, rows in gone.items():
        print(f"taken down since  {rows:>8,}  {table}")
    if wrong := list(_proved(store)):
        print(*wrong, sep="\n")
        raise typer.Exit(1)
    print(
        f"store {store.root!r} is whole, as it was at {stored.backup.made_at:%Y-%m-%d %H:%M} UTC; `curate run` goes on"
    )


def _as_it_last_was(present: str, stored: "BackedUp", yes: bool) -> "Store | None":
    """The store that was backed up; None where it is lost, and somebody says that nothing was taken down since."""
    from tasks.storage.keyed_ids import UNFINISHED
    from tasks.storage.tables import Store
    from tasks.upkeep.backup import store_id

    try:
        store = Store.existing(present, any_layout=True)
    except BadInput:
        when = f"{stored.backup.made_at:%Y-%m-%d %H:%M} UTC"
        lost = f"{present!r} is not the store as it last was, so what was taken down after {when} is not known"
        if not yes and not sys.stdin.isatty():
            raise BadInput(f"{lost}; give it as --store, or say --yes if there was no takedown since") from None
        if not yes and not typer.confirm(f"{lost}. Are you sure that there was no takedown since?"):
            raise typer.Exit(1) from None
        return None
    if store_id(store) != stored.backup.store_id:
        raise BadInput(
            f"{stored.root!r} is the backup of another store than {present!r}; give the one that it was made of"
        )
    if store.read_bytes(UNFINISHED) is not None:
        raise BadInput(
            f"a takedown in {present!r} is unfinished; finish it with `curate takedown --store {present}` first"
        )
    return store


def _proved(store: "Store") -> Iterator[str]:
    """Check every byte, the audit log and each release; yields what is wrong, and prints what is whole."""
    from flows.commands.settings.doctor import store_problems
    from flows.products import problems_of
    from tasks.release.fetched import fetched

    yield from store_problems(store)
    for manifest in sorted(store.fs.glob(store.at("releases/*/manifest.json"))):
        name = f"{store.root}/releases/{manifest.rsplit('/', 2)[1]}"
        if store.fs.exists(manifest.replace("manifest.json", "withdrawn.json")):
            continue
        with fetched(name) as folder:
            problems = problems_of(folder, store)
        yield from (f"{name}: {one_line(problem, 300)}" for problem in problems[:5])
        if not problems:
            print(f"release {name} is whole")


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
    would do, and how much the next run measures anew, and asks before it acts. One that was killed goes on when it is
    run again.
    """
    from schemas.layout import LAYOUT
    from tasks.storage.lock import storage_errors, writing
    from tasks.storage.migrate import migrate as bring_on
    from tasks.storage.migrate import migrated_copy, migration, require_place
    from tasks.storage.tables import Store

    older = Store.existing(store, any_layout=True)
    with storage_errors(older):
        if out is not None:
            require_place(older, out)
        changes = migration(older)
    for change in changes:
        print(change)
    print(f"store {store!r}: {len(changes):,} tables to change for layout {LAYOUT}")
    print(_to_measure(older))
    if dry_run:
        return
    if not yes and (changes or out is not None):
        confirm("change the store?" if out is None else f"write a copy to {str(out)!r}?")
    with storage_errors(older), writing(store, any_layout=True) as locked_store:
        if out is None:
            bring_on(locked_store)
        else:
            migrated_copy(locked_store, out)
    print(f"store {str(out or store)!r} has layout {LAYOUT} now; `curate run` goes on with it")


def _to_measure(store: "Store") -> str:
    """How much the next run measures anew under the settings file, because signals have other versions now."""
    from tasks.storage.queries.signals import outdated

    try:
        counts = outdated(store, measured_versions(in_force(settings_of(store.root, None))))
    except CurateError as error:  # such as a key that this shell does not have
        return f"how much the next run measures anew is not known: {error}"
    if not counts:
        return "nothing is measured anew: every signal has the version that it had"
    of_signals = ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()))
    return (
        f"to be measured anew, because signals have other versions now: at most {sum(counts.values()):,} values "
        f"({of_signals}); `curate run` does it, or `curate measure` and then `curate decide`"
    )
