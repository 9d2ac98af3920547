"""Retention of a store: data of old releases, old run records, the probes' store. What people wrote stays.

The manifest of a release stays, so that its version is never used again. Kept in any case are the newest release, those
on the Hub's list, and a release whose benchmark is in use.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from schemas.run import Removable
from schemas.settings import Settings
from schemas.upkeep import Audited
from tasks.publish.records import publications
from tasks.storage.records import add_audit_entry, record_paths, run_records
from tasks.storage.tables import Store
from tasks.takedown.releases import withdraw_releases

RUNS_MIN = 30
"""Run records that always stay: the drift check compares with them."""
_PROBES = "canaries"


def removable(store: Store, settings: Settings, now: datetime) -> Removable:
    """Parts that `retention` of the settings no longer keeps. Reads names and small files only."""
    kept = settings.retention
    return Removable(
        releases=list(_releases(store, kept.keep_releases, settings.evaluate.bench_release or "")),
        runs=list(_runs(store, kept.runs_days, now)),
        probes=kept.probes_days is not None and _probes_since(store, now) > timedelta(days=kept.probes_days),
    )


def remove(store: Store, found: Removable) -> None:
    """Remove it, and say so in the audit log; call it only while holding the store's lock."""
    if not found.counts:
        return
    add_audit_entry(store, Audited.REMOVED, found.counts)
    withdraw_releases(store, found.releases, "retention")
    for path in found.runs:
        store.fs.rm_file(store.at(path))
    if found.probes:
        store.fs.rm(store.at(_PROBES), recursive=True)


def _releases(store: Store, keep: int | None, in_use: str) -> Iterator[str]:
    """Versions with data, oldest first, without the newest `keep` and those that stay in any case."""
    if keep is None:
        return
    found = {path.rsplit("/", 2)[1]: path for path in store.fs.glob(store.at("releases/*/manifest.json"))}
    withdrawn = {path.rsplit("/", 2)[1] for path in store.fs.glob(store.at("releases/*/withdrawn.json"))}
    made = {
        stage["result"].removeprefix("releases/"): record["started_at"]
        for record in run_records(store)
        for stage in record["stages"]
    }
    there = sorted(
        found.keys() - withdrawn, key=lambda each: (made.get(each, ""), store.fs.modified(found[each]), each)
    )
    stay = {row.version for row in publications(store)} | {in_use.rstrip("/").rpartition("/")[2]}
    yield from (each for each in there[:-keep] if each not in stay)


def _runs(store: Store, days: int | None, now: datetime) -> Iterator[str]:
    if days is not None:
        first = f"runs/{now - timedelta(days=days):%Y%m%d}"
        yield from (path for path in record_paths(store)[:-RUNS_MIN] if path < first)


def _probes_since(store: Store, now: datetime) -> timedelta:
    """Time since the probes' store was begun; none without one."""
    begun = store.at(f"{_PROBES}/tables/layout.json")
    return now - store.fs.modified(begun) if store.fs.exists(begun) else timedelta(0)
