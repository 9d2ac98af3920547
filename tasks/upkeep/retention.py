"""Retention of a store: data of old releases, old run records, the probes' store. What people wrote stays.

The manifest of a release stays, so that its version is never used again. Kept in any case are the newest release, those
on the Hub's list, and a release whose benchmark is in use. A further reason to keep one is a line of `_why_kept`.
"""

from collections import defaultdict
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import NamedTuple

from schemas.run import Removable
from schemas.settings import Settings
from schemas.upkeep import Audited, ReleaseDay
from tasks.publish.records import publications
from tasks.storage.queries.released import day_of_version
from tasks.storage.records import add_audit_entry, record_paths, run_records
from tasks.storage.tables import Store
from tasks.takedown.releases import withdraw_releases

RUNS_MIN = 30
"""Run records that always stay: the drift check compares with them."""
DAILY_DAYS = 31
"""Days for which the last release of each day stays under `thin_releases`."""
_PROBES = "canaries"


def removable(store: Store, settings: Settings, now: datetime) -> Removable:
    """Parts that `retention` of the settings no longer keeps. Reads names and small files only."""
    kept = settings.retention
    return Removable(
        releases=[version for version, why in _why_kept(store, settings, now).items() if not why],
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


def release_days(store: Store, settings: Settings, now: datetime) -> list[ReleaseDay]:
    """The days of the releases that have data, newest first: the day's release, and what of the others stays and why.

    The release of a day is the one that was made last under that day's name; a version that is no day counts on the day
    on which it was made.
    """
    by_day = defaultdict[date, list[_Made]](list)
    for release in _made(store):
        by_day[release.day].append(release)
    reasons = _why_kept(store, settings, now)
    return [
        ReleaseDay(
            day=day,
            release=by_day[day][-1].version,
            attempts=len(by_day[day]),
            kept=[f"{release.version} ({reasons[release.version] or 'goes'})" for release in reversed(by_day[day])],
        )
        for day in sorted(by_day, reverse=True)
    ]


class _Made(NamedTuple):
    """A release with data."""

    version: str
    day: date
    made_at: datetime


def _made(store: Store) -> list[_Made]:
    """The releases with data, in the order in which they were made."""
    manifests = {path.rsplit("/", 2)[1]: path for path in store.fs.glob(store.at("releases/*/manifest.json"))}
    withdrawn = {path.rsplit("/", 2)[1] for path in store.fs.glob(store.at("releases/*/withdrawn.json"))}
    started = {
        stage["result"].removeprefix("releases/"): datetime.fromisoformat(record["started_at"])
        for record in run_records(store)
        for stage in record["stages"]
    }
    made = []
    for version in manifests.keys() - withdrawn:
        made_at = started.get(version) or store.fs.modified(manifests[version])
        made.append(_Made(version, day_of_version(version) or made_at.date(), made_at))
    # A release whose run has no record any more is older than those that have one.
    return sorted(made, key=lambda release: (release.version in started, release.made_at, release.version))


def _why_kept(store: Store, settings: Settings, now: datetime) -> dict[str, str]:
    """Version of a release with data -> why it stays; empty for one that goes, in the order in which they were made."""
    kept, made = settings.retention, _made(store)
    last_of_day = {release.day: release.version for release in made}
    last_of_month = {
        (release.day.year, release.day.month): last_of_day[release.day] for release in sorted(made, key=_by_day)
    }
    in_use = (settings.evaluate.bench_release or "").rstrip("/").rpartition("/")[2]
    published = {row.version for row in publications(store)}
    newest = {release.version for release in made[-(kept.keep_releases or 1) :]}
    keeps_all = kept.keep_releases is None and not kept.thin_releases

    def why(release: _Made) -> str:
        reasons = {
            "on the Hub": release.version in published,
            "its benchmark is in use": release.version == in_use,
            "one of the newest": release.version in newest,
            "the last of its month": kept.thin_releases and release.version in last_of_month.values(),
            "the last of its day": kept.thin_releases
            and release.version == last_of_day[release.day]
            and now - release.made_at < timedelta(days=DAILY_DAYS),
            "nothing is removed": keeps_all,
        }
        return next((reason for reason, holds in reasons.items() if holds), "")

    return {release.version: why(release) for release in made}


def _by_day(release: _Made) -> tuple[date, datetime]:
    return release.day, release.made_at


def _runs(store: Store, days: int | None, now: datetime) -> Iterator[str]:
    if days is not None:
        first = f"runs/{now - timedelta(days=days):%Y%m%d}"
        yield from (path for path in record_paths(store)[:-RUNS_MIN] if path < first)


def _probes_since(store: Store, now: datetime) -> timedelta:
    """Time since the probes' store was begun; none without one."""
    begun = store.at(f"{_PROBES}/tables/layout.json")
    return now - store.fs.modified(begun) if store.fs.exists(begun) else timedelta(0)
