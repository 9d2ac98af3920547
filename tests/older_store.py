"""Makes a store as an earlier version left it: parts without columns and fields that came since, and other tables."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from schemas.layout import LAYOUT, StoreLayout
from tasks.storage.tables import Store

LAYOUT_FILE = "tables/layout.json"
EARLIER = StoreLayout(layout=LAYOUT - 1, written_by=["0.1.9"])


def make_older(store: Store, tables: Mapping[str, Sequence[Mapping[str, Any]]] | None = None) -> Store:
    """The store as of an earlier layout: turns have no images, votes no reasons. `tables`: others, with rows."""
    for table in ("conversations", "redacted_conversations"):
        _rewrite(store, table, _without_images_of_turns)
    _rewrite(store, "battles", lambda rows: rows.drop_columns(["vote_reason", "vote_reason_id"]))
    for table, rows in (tables or {}).items():
        add_table(store, table, rows)
    store.write_bytes(LAYOUT_FILE, EARLIER.model_dump_json().encode())
    return store


def add_table(store: Store, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Add a table with these rows, which today's version need not know."""
    store.list_parts(table, [store.write_part(table, pa.Table.from_pylist([dict(row) for row in rows]))])


def rename_column(store: Store, table: str, old: str, new: str) -> None:
    """Rename a column in every part of a table."""
    _rewrite(store, table, lambda rows: rows.rename_columns({old: new}))


def without_column(store: Store, table: str, column: str) -> None:
    """Remove a column from every part of a table."""
    _rewrite(store, table, lambda rows: rows.drop_columns([column]))


def written(store: Store, table: str) -> pa.Table:
    """The parts of a table as they are on the disk."""
    return pa.concat_tables(pq.read_table(Path(store.at(f"tables/{table}/{part}"))) for part in store.parts(table))


def _rewrite(store: Store, table: str, change: Any) -> None:
    parts = [pq.read_table(Path(store.at(f"tables/{table}/{part}"))) for part in store.parts(table)]
    store.list_parts(table, [store.write_part(table, change(part)) for part in parts])


def _without_images_of_turns(rows: pa.Table) -> pa.Table:
    place, fields = rows.schema.get_field_index("turns"), list(rows.schema.field("turns").type.value_type)
    kind = pa.list_(pa.struct([field for field in fields if field.name != "images"]))
    turns = [[{f.name: turn[f.name] for f in kind.value_type} for turn in turns] for turns in rows["turns"].to_pylist()]
    return rows.set_column(place, "turns", pa.array(turns, kind))
