"""Brings a store of an earlier layout on to today's: tables and columns get the names and types that they have now.

A table is changed as a whole: new parts are written first and listed then. So a migration that was killed leaves each
table as it was or as it will be, and the next one goes on from there. The store says its new layout last.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import polars as pl
from fsspec.implementations.local import LocalFileSystem

from schemas.errors import BadInput, StoreUnwell, why_unreadable
from schemas.layout import LAYOUT
from schemas.tables import TABLES
from tasks.storage.layout import (
    SIGNALS_PREFIX,
    differences,
    say_layout,
    stated_layout,
    tables_in,
    why_not_read,
    with_nulls,
)
from tasks.storage.lock import remove_leftovers, storage_errors
from tasks.storage.parquet import frame_types
from tasks.storage.parts import changed_parts
from tasks.storage.tables import Store, frame_schema

MigrationStep = Callable[[str, pl.DataFrame], tuple[str, pl.DataFrame]]
"""(name of a table, some of its rows) -> both as they are in the next layout. Given its own result, it changes nothing.

A column that merely came needs no step: it is null in older rows.
"""


STEPS: tuple[MigrationStep, ...] = ()
"""The step from each layout to the next, first that from layout 1, of 0.2."""
_NOT_COPIED = (".prefect", "writing.*", "*.tmp")


class Change(NamedTuple):
    """Work of a migration on one table."""

    store: Store
    """The store, or one inside it, such as that of the probes."""
    inside: str
    """The folder of that one, with a slash; empty for the store itself."""
    table: str
    into: str
    """The name it has from now on."""
    parts: frozenset[str]
    """Parts that are written anew."""
    came: tuple[str, ...]
    """Columns that are null there; nested ones are named with dots."""
    anew: bool
    """Whether the table is emptied instead, because the next run makes it again."""

    def __str__(self) -> str:
        name = f"{self.inside}{self.table}"
        if self.anew:
            return f"{name}: emptied; the next run makes it again"
        name += "" if self.table == self.into else f": now {self.into}"
        count = f"{len(self.parts):,} part{'' if len(self.parts) == 1 else 's'} written anew"
        return f"{name}: {count}" + (f"; null: {', '.join(self.came)}" if self.came else "")


def migration(store: Store) -> list[Change]:
    """Work to be done on the tables of a store, and of the stores inside it. Reads only footers.

    Raises BadInput for a store of a later layout, and for one with something that this version has no place for.
    """
    stores = _with_inner(store).items()
    changes = [
        _change(inner_store, inside, table) for inside, inner_store in stores for table in tables_in(inner_store)
    ]
    return [change for change in changes if change is not None]


def _with_inner(store: Store) -> dict[str, Store]:
    """Folder, with a slash -> the store in it; last the store itself."""
    inner = [f"{path.split('/')[-2]}/" for path in store.fs.glob(f"{store.path}/*/tables")]
    return {name: Store(f"{store.root.rstrip('/')}/{name}") for name in inner} | {"": store}


def _steps(store: Store) -> tuple[MigrationStep, ...]:
    stated = stated_layout(store)
    if stated is not None and stated.layout > LAYOUT:
        raise BadInput(why_not_read(store))
    return STEPS[max(stated.layout - 1, 0) if stated else 0 :]


def _stepped(steps: tuple[MigrationStep, ...], table: str, rows: pl.DataFrame) -> tuple[str, pl.DataFrame]:
    for step in steps:
        table, rows = step(table, rows)
    return table, rows


def _change(store: Store, inside: str, table: str) -> Change | None:
    """Work to be done on a table; None for none."""
    steps, parts, came = _steps(store), set[str](), dict[str, None]()
    into = _stepped(steps, table, pl.DataFrame())[0]
    if into not in TABLES:
        if into.startswith(SIGNALS_PREFIX):  # of a package that is not installed here
            return None
        raise _no_place(store, f"a table {table!r}")
    declared = TABLES[into]
    for part in store.parts(table):
        written_types = frame_types(store.part_schema(table, part))
        _, rows = _stepped(steps, table, written_types.to_frame())
        differ = differences(rows.schema, frame_schema(declared.row))
        if any(differ) and declared.derived and not declared.grown:
            return Change(store, inside, table, into, frozenset(), (), anew=True)
        if differ.changed or differ.unknown:
            raise _no_place(store, f"a table {table!r} that {differ}")
        if into != table or rows.schema != written_types or (differ.lacking and not differ.are_read(into)):
            parts.add(part)
            came |= dict.fromkeys(differ.lacking)
    if not parts and into == table:
        return None
    return Change(store, inside, table, into, frozenset(parts), tuple(came), anew=False)


def _no_place(store: Store, what: str) -> BadInput:
    return BadInput(
        f"store {store.root!r} has {what}, for which this version has no place; nothing was changed. Use the version "
        "that wrote it"
    )


def migrate(store: Store) -> None:
    """Make all changes of `migration`, then have the store say today's layout. Call it only while holding the lock."""
    changes, stores = migration(store), _with_inner(store).values()
    for inner_store in stores:
        remove_leftovers(inner_store)
    for change in changes:
        _make(change)
    for inner_store in stores:
        say_layout(inner_store)


def _make(change: Change) -> None:
    store, table, into, steps = change.store, change.table, change.into, _steps(change.store)
    names = list(TABLES[into].row.model_fields)

    def as_today(rows: pl.DataFrame) -> pl.DataFrame:
        return with_nulls(into, _stepped(steps, table, rows)[1], names)

    store.any_layout = True  # so that listing a part does not say the layout yet
    parts = [] if change.anew else changed_parts(store, table, store.parts(table), change.parts, as_today, into)
    if into == table:
        store.list_parts(table, parts)
        return
    store.add_parts(into, parts)
    store.list_parts(table, [])
    store.fs.rm(store.at(f"tables/{table}"), recursive=True)


def migrated_copy(store: Store, out: Path) -> None:
    """Write a migrated copy, which appears under its name when it is whole. Call it only while holding the lock.

    Raises StoreUnwell when it cannot be written.
    """
    half = out.with_name(f"{out.name}.half")
    shutil.rmtree(half, ignore_errors=True)  # of a killed migration
    try:
        shutil.copytree(store.path, half, ignore=shutil.ignore_patterns(*_NOT_COPIED), copy_function=_copied)
        with storage_errors(copy := Store(str(half))):
            migrate(copy)
        half.rename(out)
    finally:
        shutil.rmtree(half, ignore_errors=True)


def _copied(source: str, target: str) -> str:
    try:
        return str(shutil.copy2(source, target))
    except OSError as error:  # of which `copytree` would make a list
        raise StoreUnwell(f"{target!r} cannot be written ({why_unreadable(error)}); the store is as it was") from None


def require_place(store: Store, out: Path) -> None:
    """Raises BadInput where no copy can be written."""
    if not isinstance(store.fs, LocalFileSystem):
        raise BadInput(f"store {store.root!r} is no folder; copy it with a tool of its own, and migrate the copy")
    if out.exists():
        raise BadInput(f"{str(out)!r} exists; give a new folder for the copy")
    if out.absolute().is_relative_to(Path(store.path)):
        raise BadInput(f"{str(out)!r} is in store {store.root!r}; give a folder beside it")
