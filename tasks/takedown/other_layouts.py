"""Takedowns from stores that another version wrote: tables that this one does not know are searched by their ids.

Where that cannot be done, nothing is removed, because a takedown that misses something looks like one that does not.
"""

from collections.abc import Iterator

import polars as pl
import pyarrow as pa

from schemas.errors import BadInput
from schemas.items.reject import TakenDownKind
from schemas.layout import LAYOUT
from schemas.row import BY_NAME, Held
from schemas.tables import TABLES
from tasks.storage.content_id import Distinct
from tasks.storage.keyed_ids import Tombstones
from tasks.storage.layout import SIGNALS, differences, stated_layout, tables_in, why_not_read
from tasks.storage.parquet import frame_types
from tasks.storage.tables import Store

_KEYS = {**BY_NAME, "judge": Held.USER}
"""Name of a column -> what it names; voters were judges."""


def require_sweepable(store: Store) -> None:
    """Raises BadInput when a takedown could miss something in a store because another version wrote to it."""
    known = stated_layout(store)
    if known is not None and known.layout > LAYOUT:
        raise BadInput(why_not_read(store))
    for table in tables_in(store):
        if why := next((_renamed if table in TABLES else _unsearchable)(store, table), None):
            raise BadInput(
                f"store {store.root!r}: {why}, so a takedown could miss something; nothing was removed. "
                "`curate migrate` the store first, or use the version that wrote it"
            )


def _unsearchable(store: Store, table: str) -> Iterator[str]:
    """Why a table that this version does not know cannot be searched."""
    keys = {tuple(_keys(store, table, part)) for part in store.parts(table)}
    if len(keys) > 1 or () in keys:
        yield f"it has a table {table!r} that this version does not know, without any id that it knows"


def _keys(store: Store, table: str, part: str) -> list[str]:
    schema = store.part_schema(table, part)
    return [name for name in _KEYS if name in schema.names and pa.types.is_string(schema.field(name).type)]


def _renamed(store: Store, table: str) -> Iterator[str]:
    """Why a table of an earlier version cannot be searched. A column that merely came later is null in older parts."""
    for part in store.parts(table):
        differ = differences(frame_types(store.part_schema(table, part)), store.empty(table).schema)
        moved = differ.lacking and differ.unknown and not table.startswith(SIGNALS)
        if differ.changed or moved:
            yield f"table {table!r} {differ}"


def unwanted_elsewhere(
    store: Store, table: str, images: Distinct, contents: Distinct, tombstones: Tombstones
) -> pl.Expr:
    """Condition on rows to remove in a table that this version does not know; `images` and `contents` stay.

    Rows of conversations and users that were taken down, and of images that do not stay. Of texts that do not stay only
    where no conversation is named: a person's verdict may be about a text that nothing else has.
    """
    keys = [name for part in store.parts(table)[:1] for name in _keys(store, table, part)]
    people = (Held.CONVERSATION, Held.LINE, Held.USER)
    taken = {name: sorted(_taken(store, table, name, tombstones)) for name in keys if _KEYS[name] in people}
    stay = {name: images for name in keys if _KEYS[name] is Held.IMAGE}
    if Held.CONVERSATION not in {_KEYS[name] for name in keys}:
        stay |= {name: contents for name in keys if _KEYS[name] is Held.CONTENT}
    tests = [pl.col(name).is_in(ids) for name, ids in taken.items()]
    tests += [pl.col(name).is_not_null() & ~ids.hold(pl.col(name)) for name, ids in stay.items()]
    return pl.any_horizontal([pl.lit(False), *tests])


def _taken(store: Store, table: str, name: str, tombstones: Tombstones) -> set[str]:
    """The ids in a column that were taken down."""
    ids = pl.concat(store.read_parts(table, [name]))[name].drop_nulls().unique()
    return tombstones.holds(TakenDownKind.USER, ids) if _KEYS[name] is Held.USER else tombstones.conversations(ids)
