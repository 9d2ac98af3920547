"""Removes from all tables what was taken down, and what no remaining conversation, image or vote needs.

A sweep depends only on the tables and the tombstones, so the next sweep finishes one that was killed.

Tables of another version, which this one does not know, are searched by their ids. Where that cannot be done, nothing
is removed, because a takedown that misses something looks like one that does not.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

import polars as pl
import pyarrow as pa

from schemas.errors import BadInput
from schemas.items.reject import TakenDownKind
from schemas.layout import LAYOUT
from schemas.row import BY_NAME, Held, arrow_schema
from schemas.tables import TABLES
from tasks.ingest.quarantine import PRESET, quarantine_key, taken_down_in, withdraw_taken_down
from tasks.storage.content_id import Distinct, text_id
from tasks.storage.keyed_ids import Tombstones
from tasks.storage.layout import SIGNALS, differences, stated_layout, tables_in, unknown_tables, why_not_read
from tasks.storage.parquet import frame_types
from tasks.storage.parts import changed_parts, names_any, parts_with
from tasks.storage.tables import Store

_OF_CONVERSATIONS = ["conversation_id", "turns.list.element.text_id", "prompt_id", "document_id", "image_ids", "served"]
_TEXT_ID = pl.element().struct.field("text_id")
UNNAMED = "untitled ({})"
"""Placeholder name of a topic that lost documents; unique by the topic's number."""


class Live(NamedTuple):
    """Sets of ids that stay after a takedown."""

    gone: frozenset[str]
    """conv_ids of `sightings` that do not stay."""
    conversations: Distinct
    """conversation_id."""
    names: Distinct
    """Logged image names, without extension."""
    images: Distinct
    """Content ids of images, including redacted ones."""
    contents: Distinct
    """Content ids of texts, prompts, documents and images."""
    judges: Distinct
    """Keyed hashes of voters."""

    def add_images(self, ids: pl.Series, tombstones: Tombstones) -> None:
        """Add images that were not taken down."""
        ids = ids.drop_nulls().unique()
        stay = ids.filter(~ids.is_in(sorted(tombstones.holds(TakenDownKind.IMAGE, ids))))
        self.images.add(stay)
        self.contents.add(stay)


def live(store: Store, tombstones: Tombstones) -> Live:
    """Ids that stay; they depend only on the tables and the tombstones."""
    gone = frozenset(taken_down_in(store, store.parts("sightings"), tombstones))
    # seeds are random, so that a collision of hashes does not recur in the next sweep
    stay = Live(gone, *(Distinct(secrets.randbits(32)) for _ in Live._fields[1:]))
    for rows in store.read_slices("conversations", ["conversation_id"]):
        ids = rows["conversation_id"]
        stay.conversations.add(ids.filter(~ids.is_in(sorted(tombstones.conversations(ids)))))
    going = pl.col("conv_id").is_in(sorted(gone)).fill_null(False)
    for rows in store.read_slices("sightings", ["conv_id", "images"]):
        stay.names.add(rows.filter(~going)["images"].explode())
    stay.names.add(_drawn_names(store, tombstones))
    for table in (name for name, declared in TABLES.items() if "turns" in arrow_schema(declared.row).names):
        for rows in store.read_slices(table, _OF_CONVERSATIONS):
            kept = rows.filter(stay.conversations.hold(pl.col("conversation_id")))
            told = kept["served"].explode().struct.field("thinking_id")
            for ids in (kept["turns"].list.eval(_TEXT_ID).explode(), kept["prompt_id"], kept["document_id"], told):
                stay.contents.add(ids)
            stay.add_images(kept["image_ids"].explode(), tombstones)
    for rows in store.read_slices("image_files", ["name", "image_id"]):
        stay.add_images(rows.filter(stays("name", stay.names))["image_id"], tombstones)
    for rows in store.read_slices("redacted_images", ["image_id", "source_image_id"]):
        redacted = rows.filter(stay.images.hold(pl.col("source_image_id")))["image_id"]
        stay.images.add(redacted)
        stay.contents.add(redacted)
    for rows in store.read_slices("signals/image_text", ["content_id", "text"]):
        texts = rows.filter(stay.images.hold(pl.col("content_id")))["text"]
        stay.contents.add(pl.Series([text_id(text) for text in texts if text], dtype=pl.String))
    for table in ("answers", "verdicts", "screened_texts"):
        for rows in store.read_slices(table, ["question_id", "text"]):
            gone_here = sorted(tombstones.conversations(rows["question_id"].unique()))
            texts = rows.filter(~pl.col("question_id").is_in(gone_here))["text"]
            stay.contents.add(pl.Series([text_id(text) for text in texts], dtype=pl.String))
    sides = stay.conversations.hold(pl.col("conversation_a")) & stay.conversations.hold(pl.col("conversation_b"))
    for rows in store.read_slices("battles", ["conversation_a", "conversation_b", "judge", "vote_reason_id"]):
        kept = rows.filter(sides)
        stay.judges.add(kept["judge"])
        stay.contents.add(kept["vote_reason_id"])
    return stay


def _drawn_names(store: Store, tombstones: Tombstones) -> pl.Series:
    """Names of images that models drew, without those of items that were taken down: no log line names the others."""
    items = store.read("generated_items", ["item_id", "description_id"])
    gone = items.filter(pl.col("item_id").is_in(sorted(tombstones.conversations(items["item_id"]))))
    drawn = store.read("generated_images", ["description_id", "name"])
    return drawn.join(gone, on="description_id", how="anti")["name"].drop_nulls()


def stays(column: str, names: Distinct) -> pl.Expr:
    """Whether the image name or image file in `column` is a preset, or one of `names`."""
    stem = pl.col(column).str.replace(r"\.[a-z]+$", "")
    return pl.col(column).str.starts_with(PRESET) | names.hold(stem)


def sweep(store: Store, live: Live, tombstones: Tombstones, now: datetime, dry_run: bool) -> dict[str, int]:
    """Table -> number of rows that were removed, or with `dry_run` would be."""
    tables = [*TABLES, *unknown_tables(store)]
    unwanted = {table: rows for table in tables if (rows := unwanted_rows(table, live, tombstones, store)) is not None}
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
        _reset_names(store, live)  # before the rows are removed, which say what topics they were in
        for table, rows in unwanted.items():
            _remove_rows(store, table, rows, looked[table])
        # the next `curate decide` sets `duplicate_of` anew
        stale = _gone("duplicate_of", live.conversations)
        cleared = pl.when(~stale).then("duplicate_of").alias("duplicate_of")
        _rewrite(store, "decisions", stale, lambda rows: rows.with_columns(cleared))
    removed = {table: sum(parts.values()) for table, parts in looked.items()}
    return {table: rows for table, rows in removed.items() if rows}


def unwanted_rows(table: str, live: Live, tombstones: Tombstones, store: Store) -> pl.Expr | None:
    """Condition on rows of a table to remove; None for a table that holds nothing of single conversations."""
    if table not in TABLES:
        return unwanted_elsewhere(store, table, live.images, live.contents, tombstones)
    declared = TABLES[table]
    tests = [_unheld(column, kind, live, tombstones, store) for column, kind in declared.holds.items()]
    if tombstones:
        tests += [_taken_down(table, column, tombstones, store) for column in declared.named(*_TAKEN_DOWN_BY)]
    return pl.any_horizontal(tests) if tests else None


def _unheld(column: str, kind: Held, live: Live, tombstones: Tombstones, store: Store) -> pl.Expr:
    """Rows whose `column` names something that does not stay."""
    match kind:
        case Held.LINE:
            return pl.col(column).is_in(sorted(live.gone))
        case Held.PLACE:  # rejects of images; those of lines contain only the place of the line
            in_a_line = pl.col(column).is_in(store.read("log_files", ["source"])["source"].implode())
            return pl.col("line").is_null() & ~stays(column, live.names) & ~in_a_line
        case Held.WITHHELD:
            held = store.read("quarantine").filter(kind="conversation")["key"]
            gone = sorted(tombstones.holds(TakenDownKind.CONVERSATION, held))
            return (pl.col("kind") == "conversation") & pl.col(column).is_in(gone)
        case Held.IMAGE_NAME:
            return ~stays(column, live.names)
        case Held.CONTENT if column == "document_ids":
            return ~live.contents.hold_all(pl.col(column))
    stay = {Held.CONVERSATION: live.conversations, Held.CONTENT: live.contents, Held.IMAGE: live.images}
    return _gone(column, stay.get(kind, live.judges))


_TAKEN_DOWN_BY: dict[Held, Callable[[Tombstones, pl.Series], set[str]]] = {
    Held.CONVERSATION: Tombstones.conversations,
    Held.IMAGE: lambda tombstones, ids: tombstones.holds(TakenDownKind.IMAGE, ids),
    Held.IMAGE_NAME: lambda tombstones, names: {
        n for n in names if tombstones.holds(TakenDownKind.IMAGE, [quarantine_key(n)])
    },
    Held.USER: lambda tombstones, ids: tombstones.holds(TakenDownKind.USER, ids),
}


def _taken_down(table: str, column: str, tombstones: Tombstones, store: Store) -> pl.Expr:
    """Rows whose `column` names something that was taken down, wherever it is; others may be of another store."""
    found, kind = set[str](), {**TABLES[table].holds, **TABLES[table].mentions}[column]
    for rows in store.read_slices(table, [column]):
        ids = rows[column].explode() if rows[column].dtype == pl.List else rows[column]
        found |= _TAKEN_DOWN_BY[kind](tombstones, ids.drop_nulls().unique())
    return names_any(table, column, found)


def _gone(column: str, stay: Distinct) -> pl.Expr:
    return pl.col(column).is_not_null() & ~stay.hold(pl.col(column))


def _reset_names(store: Store, live: Live) -> None:
    """Rename topics with removed documents to `untitled (3)`: names may quote them. `curate sample` names them anew."""
    gone, touched = _gone("document_id", live.contents) & (pl.col("topic") >= 0), set[int]()
    for rows in store.read_slices("topics", ["document_id", "topic"]):
        touched.update(rows.filter(gone)["topic"])
    theirs = pl.col("topic").is_in(sorted(touched))
    named = pl.when(theirs).then(pl.format(UNNAMED, "topic")).otherwise("name").alias("name")
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
    parts, known = store.parts(table), looked or {}
    fresh = parts_with(store, table, [part for part in parts if part not in known], touched)
    new = changed_parts(store, table, parts, {part for part, rows in {**known, **fresh}.items() if rows}, change)
    if new != parts:
        store.list_parts(table, new)


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
