"""Stores that this version reads: those that say its layout number, in `tables/layout.json`.

Anything else is refused in one line before it is read or written: another number, tables without a number, and a place
that is no store at all, such as a release, a part of a store, or a folder above stores.
"""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, NamedTuple

import polars as pl
import pyarrow as pa

from schemas.errors import StoreUnwell
from schemas.layout import LAYOUT, StoreLayout
from schemas.row import arrow_schema
from schemas.tables import TABLES
from tasks.storage.parquet import frame_types, top_columns

if TYPE_CHECKING:
    from tasks.storage.tables import Store

_FILE, _OF_TABLE = "tables/layout.json", ("/parts.json", ".parquet")
_LEVELS = 4
"""Folders above a place that are looked at, as many as a shard of a release has in its store."""
_RELEASE, _TABLES = "manifest.json", "tables/*/parts.json"
_BEGINNING = "takedowns"
"""A new store begins with this table where another store of the same logs was, whose takedowns hold on."""
SIGNALS_PREFIX = "signals/"
"""Tables below it that this version does not know are of packages that are not installed here."""


class Differences(NamedTuple):
    """How the columns of a part differ from those that are declared; nested ones are named with dots."""

    lacking: list[str]
    unknown: list[str]
    changed: list[str]
    """Columns of another type."""

    def are_read(self, table: str) -> bool:
        """Whether a part of the table that differs so is read: it lacks columns that came later."""
        came_later = not self.unknown and {*self.lacking} <= {*TABLES[table].later}
        return not self.changed and (TABLES[table].grown or came_later)

    def __str__(self) -> str:
        named = zip(("lacks", "also has", "has another type of"), self, strict=True)
        return ", ".join(f"{what} {columns[0]!r}" for what, columns in named if columns)


def differences(columns: Mapping[str, pl.DataType], declared: Mapping[str, pl.DataType]) -> Differences:
    """How columns differ from declared ones, in names and types of structs and their lists."""
    both = Differences([], [], [])
    both.lacking.extend(name for name in declared if name not in columns)
    both.unknown.extend(name for name in columns if name not in declared)
    for name in columns.keys() & declared.keys():
        part_fields, declared_fields = _fields(columns[name]), _fields(declared[name])
        if part_fields is None or declared_fields is None:
            both.changed.extend([name] if columns[name] != declared[name] else [])
            continue
        for names, inner in zip(both, differences(part_fields, declared_fields), strict=True):
            names.extend(f"{name}.{field}" for field in inner)
    return both


def part_differences(table: str, schema: pa.Schema, names: Sequence[str]) -> Differences:
    """How a part differs from its table in the columns `names`. A table that this version does not know has none.

    Nested columns, such as `turns.list.element.role`, are not looked into.
    """
    if table not in TABLES or schema.equals(declared := arrow_schema(TABLES[table].row)):
        return Differences([], [], [])
    there, declared_types = frame_types(schema), frame_types(declared)
    whole = [top for name, top in zip(names, top_columns(names), strict=True) if name == top or top not in there]
    return differences(
        {name: there[name] for name in whole if name in there}, {name: declared_types[name] for name in whole}
    )


def with_nulls(table: str, rows: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Rows of a part with the columns `names` as its table has them: what they lack is null, also in structs."""
    declared_types = frame_types(arrow_schema(TABLES[table].row))
    tops = {top: top in names or top not in rows.columns for top in top_columns(names)}
    types = {top: declared_types[top] if whole else rows.schema[top] for top, whole in tops.items()}
    return rows.match_to_schema(
        types, missing_columns="insert", missing_struct_fields="insert", extra_struct_fields="ignore"
    )


def _fields(kind: pl.DataType) -> Mapping[str, pl.DataType] | None:
    """Fields of a struct or of a list of structs; None for other types."""
    inner = kind.inner if isinstance(kind, pl.List) else kind
    return dict(inner) if isinstance(inner, pl.Struct) else None  # type: ignore[arg-type]


def tables_in(store: "Store") -> list[str]:
    """Names of the tables that a store has, also of those that this version does not know, or whose list is lost."""
    start = store.at("tables/")
    paths = store.fs.find(store.at("tables"))
    return sorted({path.removeprefix(start).rpartition("/")[0] for path in paths if path.endswith(_OF_TABLE)})


def unknown_tables(store: "Store") -> list[str]:
    """Names of the tables that a store has and this version does not know."""
    return [table for table in tables_in(store) if table not in TABLES]


def stated_layout(store: "Store") -> StoreLayout | None:
    """The layout that the store states; None when it states none."""
    content = store.read_bytes(_FILE)
    if content is None:
        return None
    try:
        stated = dict(json.loads(content))
        return StoreLayout.model_validate(
            {name: stated.get(name) for name in StoreLayout.model_fields}
        )  # later ones: more
    except (ValueError, TypeError):
        raise StoreUnwell(
            f"store {store.root!r} is damaged: {_FILE} cannot be read; put that of a backup in its place, or see "
            "docs/upgrading.md"
        ) from None


def state_layout(store: "Store") -> None:
    """Have a new store, or one that this version reads, say so, before it lists its first part."""
    stated = stated_layout(store)
    if stated.layout == LAYOUT if stated else not _is_begun(store):
        say_layout(store)


def say_layout(store: "Store") -> None:
    """Have a store say that it has today's layout, and that this version wrote to it."""
    stated, own_version = stated_layout(store), version("arena-curation")
    written_by = stated.written_by if stated else []
    new_layout = StoreLayout(
        layout=LAYOUT, written_by=written_by if own_version in written_by[-1:] else [*written_by, own_version]
    )
    if new_layout != stated:
        store.write_bytes(_FILE, new_layout.model_dump_json().encode())


def why_not_read(store: "Store") -> str:
    """The line that says what made a store and what to do; empty when this version reads it."""
    stated = stated_layout(store)
    if stated is None:
        return _without_number(store) if _is_begun(store) else ""
    if stated.layout == LAYOUT:
        return ""
    layouts_in_words = f"has {layout_in_words(stated)}, and {version('arena-curation')} has layout {LAYOUT}"
    brings_on = (
        f"`curate migrate {shlex.quote(store.root)}` brings it on; until then it can be explained, checked and taken "
        "down from"
    )
    return f"store {store.root!r} {layouts_in_words}: " + (
        "use the later version" if stated.layout > LAYOUT else brings_on
    )


def _is_begun(store: "Store") -> bool:
    return any(table != _BEGINNING for table in tables_in(store))


def _without_number(store: "Store") -> str:
    return (
        f"store {store.root!r} has no {_FILE}, as before version 0.2, so it is not read, and stays as it is. Make a "
        "new store of its logs (docs/upgrading.md says what to take along), use the version that wrote it, or, if "
        "the file was lost, put that of a backup in its place"
    )


def layout_in_words(layout: StoreLayout) -> str:
    """The layout of a store and the versions that wrote to it."""
    return f"layout {layout.layout}, of {', '.join(layout.written_by)}"


def is_release(store: "Store") -> bool:
    """Whether the place has the manifest of a release."""
    return bool(store.fs.exists(store.at(_RELEASE)))


def not_a_store(store: "Store") -> str:
    """One line that says what the place of a store is instead, and what to give."""
    place = repr(store.root)
    if not store.fs.exists(store.path):
        return (
            f"{place} is not a store: there is no such folder. `curate run --logs DIR --store {store.root}` makes one"
        )
    what = "a release" if is_release(store) else "a folder" if store.fs.isdir(store.path) else "a file"
    if (above := next(_above(store), None)) is not None:
        return f"{place} is {what} of store {above!r}, not a store; give {above!r}"
    if what == "a release":
        return f"{place} is a release, not a store; give the store that it was made in"
    if below := _below(store):
        named = ", ".join(map(repr, below[:3])) + (" …" if len(below) > 3 else "")
        return f"{place} is not a store, but holds {len(below)} ({named}); give {below[0]!r}"
    if what == "a file":
        return f"{place} is a file, not a store; give the folder of one"
    return f"{place} is not a store: it has no tables. `curate run --logs DIR --store {store.root}` makes one of it"


def is_unmade(store: "Store") -> bool:
    """Whether a first run would make a store here: there is nothing yet, or a folder for its audit log alone."""
    is_other_place = is_release(store) or store.fs.isfile(store.path) or store.fs.isdir(store.at("tables"))
    return not is_other_place and next(_above(store), None) is None and not _below(store)


def _above(store: "Store") -> Iterator[str]:
    """The stores that the place is in, nearest first, spelled as the place was."""
    path, spelling = store.path, store.root.rstrip("/")
    for _ in range(_LEVELS):
        path, spelling = path.rpartition("/")[0], spelling.rpartition("/")[0]
        if not path:
            return
        if store.fs.isdir(f"{path}/tables"):
            yield spelling if spelling and not spelling.endswith("/") else path


def _below(store: "Store") -> list[str]:
    """Stores in folders of the place, and in folders of these."""
    relative_paths = {
        path.rsplit("/", 3)[0].removeprefix(f"{store.path}/")
        for levels in ("*", "*/*")
        for path in store.fs.glob(f"{store.path}/{levels}/{_TABLES}")
    }
    return [f"{store.root.rstrip('/')}/{relative_path}" for relative_path in sorted(relative_paths)]
