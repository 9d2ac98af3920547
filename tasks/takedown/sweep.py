"""Removes from all tables what was taken down, and what no remaining conversation, image or vote needs.

What goes depends only on the tables and the tombstones (`going.py`), so the next sweep finishes one that was killed.

Tables of another version, which this one does not know, are searched by their ids. Where that cannot be done, nothing
is removed, because a takedown that misses something looks like one that does not.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

import polars as pl

from schemas.errors import BadInput
from schemas.items.topic import TO_BE_NAMED
from schemas.layout import LAYOUT
from schemas.row import Held
from schemas.tables import TABLES
from tasks.ingest.quarantine import withdraw_taken_down
from tasks.storage.keyed_ids import Tombstones
from tasks.storage.layout import SIGNALS_PREFIX, differences, stated_layout, tables_in, unknown_tables, why_not_read
from tasks.storage.parquet import frame_types
from tasks.storage.parts import changed_parts, names_any, parts_with
from tasks.storage.tables import Store
from tasks.takedown.going import Going, keys_of_part, unwanted_rows

_TOPICS = """
    -- a row is one topic from which a document goes
    SELECT DISTINCT topic FROM topics SEMI JOIN gone_documents ON document_id = gone_documents.id WHERE topic >= 0
"""


def sweep(store: Store, ids: Going, tombstones: Tombstones, now: datetime, dry_run: bool) -> dict[str, int]:
    """Table -> number of rows that were removed, or with `dry_run` would be."""
    tables = [*TABLES, *unknown_tables(store)]
    unwanted = {table: rows for table in tables if (rows := unwanted_rows(store, table, ids)) is not None}
    looked = {t: dict.fromkeys(store.parts(t), 0) for t in unwanted}
    looked = {t: parts | parts_with(store, t, [*parts], unwanted[t]) for t, parts in looked.items()}
    if not dry_run:
        # removed lines become rejects, so that every line keeps an outcome
        parts = store.parts("sightings")
        kept, rejects = withdraw_taken_down(store, parts, parts, tombstones, now)
        if rejects.height:
            part = store.write_part("rejects", rejects)
            store.list_parts("rejects", list(dict.fromkeys([*store.parts("rejects"), part])))
            store.list_parts("sightings", kept)
        _reset_names(store, ids.gone[Held.CONTENT])  # before the rows are removed, which say what topics they were in
        for table, rows in unwanted.items():
            _remove_rows(store, table, rows, looked[table])
        # the next `curate decide` sets `duplicate_of` anew
        stale = names_any("decisions", "duplicate_of", ids.gone[Held.CONVERSATION])
        cleared = pl.when(~stale).then("duplicate_of").alias("duplicate_of")
        _rewrite(store, "decisions", stale, lambda rows: rows.with_columns(cleared))
    removed = {table: sum(parts.values()) for table, parts in looked.items()}
    return {table: rows for table, rows in removed.items() if rows}


def _reset_names(store: Store, gone_documents: pl.Series) -> None:
    """Rename topics with removed documents to `TO_BE_NAMED`: names may quote them. `curate sample` names them anew."""
    topics = store.ask(_TOPICS, gone_documents=gone_documents.to_frame("id"))["topic"]
    theirs = pl.col("topic").is_in(topics.implode())
    named = pl.when(theirs).then(pl.format(TO_BE_NAMED, "topic")).otherwise("name").alias("name")
    _rewrite(store, "topics", theirs, lambda rows: rows.with_columns(named))


def _remove_rows(store: Store, table: str, unwanted: pl.Expr, looked: Mapping[str, int]) -> None:
    _rewrite(store, table, unwanted, lambda rows: rows.filter(~unwanted.fill_null(False)), looked)
    store.purge(table)


def _rewrite(
    store: Store,
    table: str,
    touched: pl.Expr,
    change: Callable[[pl.DataFrame], pl.DataFrame],
    looked: Mapping[str, int] | None = None,
) -> None:
    """Apply `change` to the parts with a touched row. `looked`: part -> such rows, for the parts looked at before."""
    parts, row_counts = store.parts(table), looked or {}
    fresh = parts_with(store, table, [part for part in parts if part not in row_counts], touched)
    new = changed_parts(store, table, parts, {part for part, rows in {**row_counts, **fresh}.items() if rows}, change)
    if new != parts:
        store.list_parts(table, new)


def require_sweepable(store: Store) -> None:
    """Raises BadInput when a takedown could miss something in a store because another version wrote to it."""
    written_layout = stated_layout(store)
    if written_layout is not None and written_layout.layout > LAYOUT:
        raise BadInput(why_not_read(store))
    for table in tables_in(store):
        if why := next((_renamed if table in TABLES else _unsearchable)(store, table), None):
            raise BadInput(
                f"store {store.root!r}: {why}, so a takedown could miss something; nothing was removed. "
                "`curate migrate` the store first, or use the version that wrote it"
            )


def _unsearchable(store: Store, table: str) -> Iterator[str]:
    """Why a table that this version does not know cannot be searched."""
    keys = {tuple(keys_of_part(store, table, part)) for part in store.parts(table)}
    if len(keys) > 1 or () in keys:
        yield f"it has a table {table!r} that this version does not know, without any id that it knows"


def _renamed(store: Store, table: str) -> Iterator[str]:
    """Why a table of an earlier version cannot be searched. A column that merely came later is null in older parts."""
    for part in store.parts(table):
        differ = differences(frame_types(store.part_schema(table, part)), store.empty(table).schema)
        moved = differ.lacking and differ.unknown and not table.startswith(SIGNALS_PREFIX)
        if differ.changed or moved:
            yield f"table {table!r} {differ}"
