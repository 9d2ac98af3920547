"""Removes from every table what was taken down, and what nothing else needs any more.

A sweep is a function of the tables and the tombstones: one that was killed is finished by the next.
"""

from datetime import datetime

import polars as pl

from schemas.row import arrow_schema
from schemas.tables import TABLES
from schemas.takedown import TakenDownKind
from tasks.ingest.quarantine import rows_without
from tasks.ingest.taken_down import withdraw_taken_down
from tasks.tables import Store
from tasks.takedown.live import PRESET, Live
from tasks.tombstones import Tombstones

IMPERSONAL = {
    "log_files", "takedowns", "ratings", "style_coefficients", "rank_changes", "pair_records", "win_rates",
    "vote_shares", "elo_ratings", "rule_parity", "bench_funnel", "bench_measures", "bench_agreement",
    "topic_tree", "topic_changes",
}  # fmt: skip
"""Tables that hold nothing of any single conversation. Ratings are computed anew by the next `curate rate`."""
_CONVERSATION = ("conversation_id", "conversation_a", "conversation_b", "item_id")
_DOCUMENTS = ("topics", "topic_model", "hidden", "hidden_changes")
UNNAMED = "untitled"
_PICTURE = ("image_id", "image_a", "image_b", "source_image_id")


def sweep(store: Store, live: Live, tombstones: Tombstones, now: datetime, dry_run: bool) -> dict[str, int]:
    """Table -> rows that went, or with `dry_run` would go."""
    removed: dict[str, int] = {}
    for table in TABLES:
        unwanted = unwanted_rows(table, live, tombstones, store)
        if unwanted is not None:
            removed[table] = sum(rows.filter(unwanted).height for rows in store.read_parts(table, _read(unwanted)))
    if not dry_run:
        _sweep_lines(store, tombstones, now)
        _forget_names(store, live)  # while the tables still tell which topics they were in
        for table in removed:
            _sweep_table(store, table, live, tombstones)
        _forget_duplicates(store, live)
    return {table: rows for table, rows in removed.items() if rows}


def unwanted_rows(table: str, live: Live, tombstones: Tombstones, store: Store) -> pl.Expr | None:
    """Which rows of a table go; None when the table holds nothing of any single conversation."""
    if table in IMPERSONAL:
        return None
    if table == "sightings":
        return pl.col("conv_id").is_in(sorted(live.gone))
    if table == "rejects":  # those of pictures; a rejected line or name says where it stands and nothing else
        in_a_line = pl.col("source").is_in(store.read("log_files", ["source"])["source"].implode())
        return pl.col("line").is_null() & ~_named("source", live) & ~in_a_line
    if table == "quarantine":
        held = store.read("quarantine").filter(kind="conversation")["key"]
        gone = sorted(tombstones.holds(TakenDownKind.CONVERSATION, held))
        return (pl.col("kind") == "conversation") & pl.col("key").is_in(gone)
    columns = arrow_schema(TABLES[table].row).names
    tests = [_gone(name, live.conversations) for name in _CONVERSATION if name in columns]
    tests += [_gone(name, live.pictures) for name in _PICTURE if name in columns]
    tests += [_gone("content_id", live.contents)] if table.startswith("signals/") else []
    tests += [_gone("document_id", live.contents)] if table in _DOCUMENTS else []
    tests += [_any_gone("document_ids", live.contents)] if table == "topic_names" else []
    tests += [_gone("judge", live.judges)] if table == "outlier_judges" else []
    tests += [~_named("name", live)] if table == "picture_files" else []
    return pl.any_horizontal(tests) if tests else None


def _gone(column: str, stay: pl.Series) -> pl.Expr:
    return pl.col(column).is_not_null() & ~pl.col(column).is_in(stay.implode())


def _any_gone(column: str, stay: pl.Series) -> pl.Expr:
    return ~pl.col(column).list.eval(pl.element().is_in(stay.implode())).list.all()


def _named(column: str, live: Live) -> pl.Expr:
    stem = pl.col(column).str.replace(r"\.[a-z]+$", "")
    return pl.col(column).str.starts_with(PRESET) | stem.is_in(live.names.implode())


def _read(expression: pl.Expr) -> list[str]:
    return sorted(set(expression.meta.root_names()))


def _sweep_table(store: Store, table: str, live: Live, tombstones: Tombstones) -> None:
    unwanted = unwanted_rows(table, live, tombstones, store)
    assert unwanted is not None, table
    parts = store.parts(table)
    kept = rows_without(store, table, parts, unwanted, _read(unwanted))
    if kept != parts:
        store.list_parts(table, kept)
    store.purge(table)


def _sweep_lines(store: Store, tombstones: Tombstones, now: datetime) -> None:
    """Lines become rejects before they leave `sightings`, so that every line keeps a fate."""
    parts = store.parts("sightings")
    kept, rejects = withdraw_taken_down(store, parts, parts, tombstones, now)
    if rejects is not None:
        part = store.write_part("rejects", rejects)
        store.list_parts("rejects", list(dict.fromkeys([*store.parts("rejects"), part])))
        store.list_parts("sightings", kept)


def _forget_names(store: Store, live: Live) -> None:
    """Topics that something went from have no name until `curate sample` names them anew: it may come from that."""
    topics = store.read("topics")
    touched = topics.filter(_gone("document_id", live.contents) & (pl.col("topic") >= 0))["topic"].unique()
    if len(touched):
        named = pl.when(pl.col("topic").is_in(touched.implode())).then(pl.lit(UNNAMED)).otherwise("name")
        store.replace("topics", topics.with_columns(name=named))


def _forget_duplicates(store: Store, live: Live) -> None:
    """What repeated a conversation that went is a duplicate of nothing until `curate decide` says more."""
    decisions = store.read("decisions")
    stale = _gone("duplicate_of", live.conversations)
    if decisions.select(stale.any()).item():
        store.replace("decisions", decisions.with_columns(duplicate_of=pl.when(~stale).then("duplicate_of")))
