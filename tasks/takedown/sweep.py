"""Removes from every table what was taken down, and what nothing else needs any more.

A sweep is a function of the tables and the tombstones: one that was killed is finished by the next.
"""

from datetime import datetime

import polars as pl

from schemas.row import arrow_schema
from schemas.tables import TABLES
from schemas.takedown import TakenDownKind
from tasks.ingest.quarantine import withdraw_taken_down
from tasks.storage.part_rewrite import parts_with, rewritten, written_anew
from tasks.storage.tables import Store
from tasks.storage.tombstones import Tombstones
from tasks.takedown.live import Ids, Live, stays

IMPERSONAL = {
    "log_files", "takedowns", "ratings", "style_coefficients", "rank_changes", "pair_records", "win_rates",
    "vote_shares", "elo_ratings", "rule_parity", "bench_funnel", "bench_measures", "bench_agreement",
    "topic_tree", "topic_changes",
}  # fmt: skip
"""Tables that hold nothing of any single conversation. Ratings are computed anew by the next `curate rate`."""
_CONVERSATION = ("conversation_id", "conversation_a", "conversation_b", "item_id")
_DOCUMENTS = ("topics", "topic_model", "hidden", "hidden_changes")
UNNAMED = "untitled"
_IMAGE = ("image_id", "image_a", "image_b", "source_image_id")


def sweep(store: Store, live: Live, tombstones: Tombstones, now: datetime, dry_run: bool) -> dict[str, int]:
    """Table -> rows that went, or with `dry_run` would go."""
    found = {table: _found(store, table, live, tombstones) for table in TABLES if table not in IMPERSONAL}
    if not dry_run:
        _sweep_lines(store, tombstones, now)
        _forget_names(store, live)  # while the tables still tell which topics they were in
        for table, known in found.items():
            _sweep_table(store, table, live, tombstones, known)
        _forget_duplicates(store, live)
    removed = {table: sum(rows.values()) for table, rows in found.items()}
    return {table: rows for table, rows in removed.items() if rows}


def _found(store: Store, table: str, live: Live, tombstones: Tombstones) -> dict[str, int]:
    """Part of a table -> rows that go, of all its parts."""
    unwanted = unwanted_rows(table, live, tombstones, store)
    parts = store.parts(table)
    return dict.fromkeys(parts, 0) | parts_with(store, table, parts, unwanted, _read(unwanted))


def unwanted_rows(table: str, live: Live, tombstones: Tombstones, store: Store) -> pl.Expr:
    """Which rows of a table go that is not one of `IMPERSONAL`."""
    if table == "sightings":
        return pl.col("conv_id").is_in(sorted(live.gone))
    if table == "rejects":  # those of pictures; a rejected line or name says where it stands and nothing else
        in_a_line = pl.col("source").is_in(store.read("log_files", ["source"])["source"].implode())
        return pl.col("line").is_null() & ~stays("source", live.names) & ~in_a_line
    if table == "quarantine":
        held = store.read("quarantine").filter(kind="conversation")["key"]
        gone = sorted(tombstones.holds(TakenDownKind.CONVERSATION, held))
        return (pl.col("kind") == "conversation") & pl.col("key").is_in(gone)
    columns = arrow_schema(TABLES[table].row).names
    tests = [_gone(name, live.conversations) for name in _CONVERSATION if name in columns]
    tests += [_gone(name, live.pictures) for name in _IMAGE if name in columns]
    tests += [_gone("content_id", live.contents)] if table.startswith("signals/") else []
    tests += [_gone("document_id", live.contents)] if table in _DOCUMENTS else []
    tests += [~live.contents.hold_all(pl.col("document_ids"))] if table == "topic_names" else []
    tests += [_gone("judge", live.judges)] if table == "outlier_judges" else []
    tests += [~stays("name", live.names)] if table == "picture_files" else []
    return pl.any_horizontal(tests)


def _gone(column: str, stay: Ids) -> pl.Expr:
    return pl.col(column).is_not_null() & ~stay.hold(pl.col(column))


def _read(expression: pl.Expr) -> list[str]:
    return sorted(set(expression.meta.root_names()))


def _sweep_table(store: Store, table: str, live: Live, tombstones: Tombstones, known: dict[str, int]) -> None:
    """`known` spares a second look at parts that have not been written since."""
    unwanted = unwanted_rows(table, live, tombstones, store)
    parts = store.parts(table)
    new = [part for part in parts if part not in known]
    touched = known | parts_with(store, table, new, unwanted, _read(unwanted))
    touched_parts = [part for part in parts if touched.get(part)]
    if touched_parts:
        keep = ~unwanted.fill_null(False)
        store.list_parts(table, written_anew(store, table, parts, touched_parts, lambda rows: rows.filter(keep)))
    store.purge(table)


def _sweep_lines(store: Store, tombstones: Tombstones, now: datetime) -> None:
    """Lines become rejects before they leave `sightings`, so that every line keeps a fate."""
    parts = store.parts("sightings")
    kept, rejects = withdraw_taken_down(store, parts, parts, tombstones, now)
    if rejects.height:
        part = store.write_part("rejects", rejects)
        store.list_parts("rejects", list(dict.fromkeys([*store.parts("rejects"), part])))
        store.list_parts("sightings", kept)


def _forget_names(store: Store, live: Live) -> None:
    """Topics that something went from have no name until `curate sample` names them anew: it may come from that."""
    gone, touched = _gone("document_id", live.contents) & (pl.col("topic") >= 0), set[int]()
    for rows in store.read_slices("topics", ["document_id", "topic"]):
        touched.update(rows.filter(gone)["topic"])
    theirs = pl.col("topic").is_in(sorted(touched))
    named = pl.when(theirs).then(pl.lit(UNNAMED)).otherwise("name").alias("name")
    _rewrite(store, "topics", theirs, ["topic"], named)


def _forget_duplicates(store: Store, live: Live) -> None:
    """What repeated a conversation that went is a duplicate of nothing until `curate decide` says more."""
    stale = _gone("duplicate_of", live.conversations)
    _rewrite(store, "decisions", stale, ["duplicate_of"], pl.when(~stale).then("duplicate_of").alias("duplicate_of"))


def _rewrite(store: Store, table: str, touched: pl.Expr, columns: list[str], column: pl.Expr) -> None:
    parts = store.parts(table)
    anew = rewritten(store, table, parts, touched, columns, lambda rows: rows.with_columns(column))
    if anew != parts:
        store.list_parts(table, anew)
