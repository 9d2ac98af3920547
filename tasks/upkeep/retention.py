"""Retention of a store: data of old releases, old run records, the probes' store. What people wrote stays.

The manifest of a release stays, so that its version is never used again. Kept in any case are the newest release, those
that were ever sent to the Hub, and a release whose benchmark is in use: settings name it, or a judge's verdicts are on
it. A further reason to keep one is a line of `reasons` in `_why_kept`; of several that hold, the first is shown. A
further kind of thing that goes is a field of `Removable`, filled in `removable` and deleted in `remove`.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterator
from datetime import date, datetime, timedelta
from pathlib import PurePosixPath
from typing import NamedTuple

from schemas.run import Removable
from schemas.settings import Settings
from schemas.upkeep import Audited, ReleaseDay
from tasks.publish.records import ever_published
from tasks.release.build import MANIFEST, WITHDRAWN
from tasks.storage.queries.released import day_of_version
from tasks.storage.records import add_audit_entry, record_paths, run_records
from tasks.storage.tables import Store
from tasks.takedown.releases import mark_withdrawn, unmark_withdrawn, withdraw_releases, withdrawn_by
from tasks.upkeep.standing import deployment_of

RUNS_MIN = 30
"""Run records that always stay: the drift check compares with them."""
DAILY_DAYS = 31
"""Days for which the last release of each day stays under `thin_releases`."""
RETENTION = "retention"
"""Reason for which the data of a release was removed."""
_PROBES = "canaries"
"""Folder of the probes' store inside the store."""


def removable(store: Store, settings: Settings, now: datetime) -> Removable:
    """Parts that `retention` of the settings no longer keeps, and releases whose removal was killed.

    Reads names and small files only, and one column of verdicts.
    """
    retention = settings.retention
    why_kept = _why_kept(store, settings, now)
    outdated_versions = [version for version, reason in why_kept.items() if not reason]
    kept_versions = {version for version, reason in why_kept.items() if reason}
    return Removable(
        releases=[*_half_removed(store), *outdated_versions],
        runs=list(_runs(store, retention.runs_days, now, kept_versions)),
        probes=retention.probes_days is not None and _probes_since(store, now) > timedelta(days=retention.probes_days),
    )


def remove(store: Store, removed: Removable) -> None:
    """Remove it, and say so in the audit log; call it only while holding the store's lock.

    A release whose publication has begun meanwhile stays. Publishing writes its record, and then looks for the mark of
    a removal; this writes the mark, and then looks for the record. So at least one of the two sees the other. Where a
    removal that was killed has deleted files already, the mark was there first: nothing was sent, and the rest goes.
    """
    if not removed.counts:
        return
    add_audit_entry(store, Audited.REMOVED, removed.counts)
    for version in removed.releases:
        mark_withdrawn(store, version, RETENTION)
    published = {row.version for row in ever_published(store)}
    staying = {version for version in published.intersection(removed.releases) if _has_all_files(store, version)}
    for version in staying:
        unmark_withdrawn(store, version)
    withdraw_releases(store, [version for version in removed.releases if version not in staying], RETENTION)
    for path in removed.runs:
        store.fs.rm_file(store.at(path))
    if removed.probes:
        store.fs.rm(store.at(_PROBES), recursive=True)


def _has_all_files(store: Store, version: str) -> bool:
    """Whether every file that the manifest of a release names is there."""
    manifest = json.loads(store.read_bytes(f"releases/{version}/{MANIFEST}") or b"{}")
    return all(store.fs.exists(store.at(f"releases/{version}/{path}")) for path in manifest.get("files", {}))


def release_days(store: Store, settings: Settings, now: datetime) -> list[ReleaseDay]:
    """The days of the releases that have data, newest first: the day's release, and what of the others stays and why.

    The release of a day is the one that was made last under that day's name; a version that is no day counts on the day
    on which it was made.
    """
    releases_of_day = defaultdict[date, list[_Made]](list)
    for release in _made(store):
        releases_of_day[release.day].append(release)
    reasons = _why_kept(store, settings, now)
    return [
        ReleaseDay(
            day=day,
            release=releases_of_day[day][-1].version,
            attempts=len(releases_of_day[day]),
            kept=[
                f"{release.version} ({reasons[release.version] or 'goes'})"
                for release in reversed(releases_of_day[day])
            ],
        )
        for day in sorted(releases_of_day, reverse=True)
    ]


class _Made(NamedTuple):
    """A release with data."""

    version: str
    day: date
    """The day that the version names; of another version that of `made_at`."""
    made_at: datetime
    """Start of the last run that made the release, or found it unchanged; without a record the manifest's file time."""


def _made(store: Store) -> list[_Made]:
    """The releases with data, in the order of `made_at`."""
    # a row is one result of a stage, mostly the folder of a release; records are oldest first, so the last run stays
    last_starts = {
        stage["result"].removeprefix("releases/"): datetime.fromisoformat(record["started_at"])
        for record in run_records(store)
        for stage in record["stages"]
    }
    releases = []
    # a mark of removal leaves a release out, also where its removal was killed and data is still there
    with_data = {version for version, files in _files(store).items() if MANIFEST in files and WITHDRAWN not in files}
    for version in with_data:
        made_at = last_starts.get(version) or store.fs.modified(store.at(f"releases/{version}/{MANIFEST}"))
        releases.append(_Made(version, day_of_version(version) or made_at.date(), made_at))
    # A release whose run has no record any more is older than those that have one.
    return sorted(releases, key=lambda release: (release.version in last_starts, release.made_at, release.version))


def _files(store: Store) -> dict[str, set[str]]:
    """Version -> the files of its release, relative to its folder, by one listing."""
    folder, files = store.at("releases"), defaultdict[str, set[str]](set)
    for path in store.fs.find(folder):
        version, _, file = path.removeprefix(f"{folder}/").partition("/")
        files[version].add(file)
    return files


def _half_removed(store: Store) -> list[str]:
    """Versions whose removal was killed: the mark is there, and so is data."""
    # the mark and the manifest stay behind a removal that came to its end; more files are data
    finished = {MANIFEST, WITHDRAWN}
    marked_versions = [version for version, files in _files(store).items() if WITHDRAWN in files and files > finished]
    return [version for version in sorted(marked_versions) if withdrawn_by(store, version) == RETENTION]


def _why_kept(store: Store, settings: Settings, now: datetime) -> dict[str, str]:
    """Version of a release with data -> why it stays; empty for one that goes, in the order in which they were made."""
    retention, releases = settings.retention, _made(store)
    # releases are in order of time, so of one day, and of the days of one month, the last one is what stays here
    last_of_day = {release.day: release.version for release in releases}
    last_of_month = {(day.year, day.month): last_of_day[day] for day in sorted(last_of_day)}
    places = [settings.evaluate.bench_release or "", *settings.known_benchmarks]
    named_parts = {part for place in places for part in PurePosixPath(place).parts}
    # a draw is the version of the release that a judge compared answers on, or a hash, which is no version
    judged = set(store.read("verdicts", ["draw"])["draw"])
    # a row is one release that was ever sent to the Hub, and whether it is still there
    publications = [(row.version, row.yanked_at is None) for row in ever_published(store)]
    newest = {release.version for release in releases[-(retention.keep_releases or 1) :]}
    keeps_all = retention.keep_releases is None and not retention.thin_releases

    def why(release: _Made) -> str:
        reasons = {
            "on the Hub": (release.version, True) in publications,
            "was on the Hub": (release.version, False) in publications,
            "its benchmark is in use": release.version in named_parts,
            "a judge's verdicts are on it": release.version in judged,
            "one of the newest": release.version in newest,
            "the last of its month": retention.thin_releases and release.version in last_of_month.values(),
            "the last of its day": retention.thin_releases
            and release.version == last_of_day[release.day]
            and now - release.made_at < timedelta(days=DAILY_DAYS),
            "nothing is removed": keeps_all,
        }
        return next((reason for reason, holds in reasons.items() if holds), "")

    return {release.version: why(release) for release in releases}


def _runs(store: Store, days: int | None, now: datetime, kept_versions: Collection[str]) -> Iterator[str]:
    """Paths of the run records that go: those older than `days`; none where it is None, or of the newest `RUNS_MIN`.

    This month's stay, because its limits of cost count them; so do the last of each deployment, for its figures, and
    the last that made or found a release of `kept_versions`, which says when that was.
    """
    if days is None:
        return
    # names of records begin with their time: all from this path on stay, by their age or because of this month
    first_kept = min(f"runs/{now - timedelta(days=days):%Y%m%d}", f"runs/{now:%Y%m}")
    paths, last_paths = record_paths(store), dict[str, str]()
    for path, record in zip(paths, run_records(store), strict=True):
        # the releases that a stage of the run made or found
        results = {stage["result"].removeprefix("releases/") for stage in record["stages"]}
        last_paths |= dict.fromkeys([f"deployment {deployment_of(record)}", *results.intersection(kept_versions)], path)
    yield from (path for path in paths[:-RUNS_MIN] if path < first_kept and path not in last_paths.values())


def _probes_since(store: Store, now: datetime) -> timedelta:
    """Time since the probes' store was begun; none without one."""
    begun_file = store.at(f"{_PROBES}/tables/layout.json")
    return now - store.fs.modified(begun_file) if store.fs.exists(begun_file) else timedelta(0)
