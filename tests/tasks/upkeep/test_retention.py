"""Releases are thinned to the last of each day and month; what was ever published stays; `curate status` says why."""

import json
import os
import random
from datetime import UTC, date, datetime, timedelta

import pytest

from schemas.benches.judging import Verdict
from schemas.publication import Publication, RepoUpload, UploadPlan
from schemas.settings import EvaluateSettings, RetentionSettings, Settings
from tasks.publish.records import (
    ever_published,
    of_version,
    publications,
    record_commits,
    record_publication,
    record_yank,
)
from tasks.storage.layout import state_layout
from tasks.storage.records import record_paths
from tasks.storage.tables import Store, frame_of
from tasks.takedown.releases import mark_withdrawn, withdraw_releases
from tasks.upkeep.retention import DAILY_DAYS, RETENTION, RUNS_MIN, release_days, removable, remove
from tests.builders import verdict as a_verdict

NOW = datetime(2026, 11, 29, 3, tzinfo=UTC)


def _settings(**retention: object) -> Settings:
    return Settings(store="", retention=RetentionSettings(**{"thin_releases": True} | retention))


def _release(store: Store, version: str, made_at: datetime) -> None:
    """A release that a run made then."""
    store.write_bytes(f"releases/{version}/manifest.json", b"{}")
    store.write_bytes(f"releases/{version}/chat/data/part.parquet", b"data")
    record = {
        "started_at": made_at.isoformat(),
        "state": "completed",
        "error": None,
        "finished_at": made_at.isoformat(),
    }
    record["stages"] = [{"stage": "release", "result": f"releases/{version}", "counts": {}, "failures": {}, "use": {}}]
    store.write_bytes(f"runs/{made_at:%Y%m%dT%H%M%S}Z.json", json.dumps(record).encode())


def _publish(store: Store, version: str) -> None:
    row = Publication(repo="org/data", version=version, revision=version, commit="c", public=True, published_at=NOW)
    store.write_bytes(f"published/org/data/{version}.json", row.model_dump_json().encode())


def _plan(version: str, preview: bool = False) -> UploadPlan:
    """An upload to two repositories."""
    uploads = [RepoUpload(repo=repo, files={}, sha256={}, size_bytes=0) for repo in ("org/chat", "org/battle")]
    branch, tag = (f"preview-{version}", None) if preview else ("main", version)
    return UploadPlan(version=version, uploads=uploads, branch=branch, tag=tag, public=True, manifest_sha256="")


@pytest.fixture
def store(tmp_path) -> Store:
    """An empty store."""
    store = Store(str(tmp_path / "store"))
    state_layout(store)
    return store


def _nights(draw: random.Random) -> list[tuple[str, date, datetime]]:
    """(version, its day, when it was made), oldest first: some days with attempts, some without a release."""
    nights = []
    for ago in range(100, 0, -1):
        made_at = NOW - timedelta(days=ago)
        data_day = made_at.date() - timedelta(days=1)
        for attempt in range(1, draw.choice([0, 1, 1, 1, 2, 3]) + 1):
            version = f"{data_day:%Y.%m.%d}" + (f"-attempt{attempt}" if attempt > 1 else "")
            nights.append((version, data_day, made_at + timedelta(hours=attempt)))
    return nights


@pytest.mark.parametrize("seed", range(5))
def test_the_last_of_each_day_of_a_month_and_of_each_month_stay_and_what_was_published(store, seed):
    draw = random.Random(seed)
    nights = _nights(draw)
    for version, _, made_at in nights:
        _release(store, version, made_at)
    published = {version for version, _, _ in draw.sample(nights, 4)}
    for version in published:
        _publish(store, version)
    last_of_day = {day: version for version, day, _ in nights}
    last_of_month = {day.replace(day=1): version for version, day, _ in nights}
    young = {v for v, day, made_at in nights if v == last_of_day[day] and made_at > NOW - timedelta(days=DAILY_DAYS)}
    stay = published | young | {*last_of_month.values()} | {nights[-1][0]}
    goes = removable(store, _settings(), NOW)
    assert {*goes.releases} == {version for version, _, _ in nights} - stay and goes.releases
    days = release_days(store, _settings(), NOW)
    assert {row.day: row.release for row in days} == last_of_day
    assert {each.partition(" (")[0] for row in days for each in row.kept if not each.endswith(" (goes)")} == stay
    remove(store, goes)
    assert removable(store, _settings(), NOW).releases == []
    with_data = {path.split("/")[-4] for path in store.fs.glob(store.at("releases/*/chat/data/*.parquet"))}
    assert with_data == stay
    assert all(store.read_bytes(f"releases/{version}/manifest.json") for version, _, _ in nights)


class _History:
    """Nights of a store by a seed, and beside them, in plain words of this class, what retention may remove of it.

    Releases get every state that one can be in: an attempt of a day, a chosen version, found unchanged, sent to the
    Hub or being sent, taken back there, withdrawn by a takedown, the benchmark of the settings or of a judge's
    verdicts, half removed by a killed night, and the one that the next night takes shards from.
    """

    def __init__(self, store: Store, seed: int) -> None:
        self.store, self.draw = store, random.Random(seed)
        self.day_of, self.attempt_of = dict[str, date](), dict[str, int]()
        self.started_at = dict[str, datetime]()
        self.sent, self.judged, self.taken_down = set[str](), set[str](), set[str]()
        self.keep_releases = self.draw.choice([None, None, 1, 5])
        self.in_use, self.withdrawn = "", set[str]()

    @property
    def with_data(self) -> list[str]:
        """Versions that have data."""
        return [version for version in self.day_of if version not in self.withdrawn]

    def look(self) -> None:
        """Look which versions have no data any more, which is slow."""
        self.withdrawn = _withdrawn(self.store)

    def settings(self) -> Settings:
        """Settings of the present night."""
        place = f"{self.store.root}/releases/{self.in_use}" if self.in_use else None
        settings = _settings(runs_days=45, keep_releases=self.keep_releases)
        return settings.model_copy(update={"evaluate": EvaluateSettings(bench_release=place)})

    def night(self, at: datetime) -> None:
        """Runs of one night, and what people do with releases that day."""
        for attempt in range(self.draw.choice([0, 1, 1, 1, 2])):
            self._run(at + timedelta(hours=attempt))
        if not self.with_data:
            return
        for share, action in (
            (0.03, self._publish), (0.02, self._begin_to_publish), (0.02, self._take_down), (0.02, self._judge),
            (0.02, self._use), (0.02, self._kill_removal),
        ):  # fmt: skip
            if self.draw.random() < share:
                action(self.draw.choice(self.with_data), at)
        if self.sent and self.draw.random() < 0.03:
            self._yank(self.draw.choice(sorted(self.sent)), at)

    def _run(self, at: datetime) -> None:
        if self.with_data and self.draw.random() < 0.1:
            version = self.draw.choice(self.with_data)  # its rows are those of the tables again
            self.day_of[version] = self.day_of[version] if self.attempt_of[version] else at.date()
        else:
            day = at.date() - timedelta(days=self.draw.choice([1, 1, 1, 1, 5, 20]))
            attempts = [self.attempt_of[version] for version, named in self.day_of.items() if named == day]
            attempt = 1 + max(attempts, default=0)
            version = f"{day:%Y.%m.%d}" + (f"-attempt{attempt}" if attempt > 1 else "")
            if self.draw.random() < 0.1:
                version, day, attempt = f"1.{len(self.day_of)}.0", at.date(), 0
            self.day_of[version], self.attempt_of[version] = day, attempt
        self.started_at[version] = at
        _release(self.store, version, at)

    def _publish(self, version: str, at: datetime) -> None:
        plan = _plan(version, preview=self.draw.random() < 0.3)
        record_publication(self.store, plan, at)
        record_commits(self.store, plan, {upload.repo: "c" * 40 for upload in plan.uploads}, at)
        self.sent.add(version)

    def _begin_to_publish(self, version: str, at: datetime) -> None:
        record_publication(self.store, _plan(version), at)
        self.sent.add(version)

    def _yank(self, version: str, at: datetime) -> None:
        for row in of_version(self.store, version)[: self.draw.choice([1, 4])]:
            record_yank(self.store, row.revision, row.repo, at)

    def _take_down(self, version: str, at: datetime) -> None:
        withdraw_releases(self.store, [version])
        self.look()
        self.taken_down.add(version)
        self._run(at + timedelta(hours=9))

    def _judge(self, version: str, _: datetime) -> None:
        self.store.append("verdicts", frame_of(Verdict, [a_verdict(draw=version)]))
        self.judged.add(version)

    def _use(self, version: str, _: datetime) -> None:
        self.in_use = version

    def _kill_removal(self, _: str, at: datetime) -> None:
        """The night is killed after it has marked what goes, and removed a part of one."""
        for number, version in enumerate(removable(self.store, self.settings(), at).releases):
            mark_withdrawn(self.store, version, RETENTION)
            if number == 0:
                self.store.fs.rm(self.store.at(f"releases/{version}/chat/data/part.parquet"))
        self.look()

    def restore(self, at: datetime) -> None:
        """Files get the time at which the store was restored from a backup, in any order."""
        for number, version in enumerate(self.draw.sample(self.with_data, len(self.with_data))):
            stamp = at.timestamp() + number
            os.utime(self.store.at(f"releases/{version}/manifest.json"), (stamp, stamp))

    def stay(self, now: datetime) -> set[str]:
        """Versions with data that retention must leave."""
        with_data = sorted(self.with_data, key=lambda version: self.started_at[version])
        last_of_day = {self.day_of[version]: version for version in with_data}
        return {
            *self.sent.intersection(with_data),
            *self.judged.intersection(with_data),
            *{self.in_use}.intersection(with_data),
            *with_data[-(self.keep_releases or 1) :],
            *{day.replace(day=1): last_of_day[day] for day in sorted(last_of_day)}.values(),
            *(last for last in last_of_day.values() if now - self.started_at[last] < timedelta(days=DAILY_DAYS)),
        }


@pytest.mark.parametrize("seed", range(3))
def test_of_four_hundred_days_retention_removes_what_nothing_keeps_in_any_state_of_a_release(store, seed):
    history = _History(store, seed)
    for ago in range(400, 0, -1):
        night = NOW - timedelta(days=ago)
        history.night(night)
        if ago == 130:
            history.restore(night)
        if ago % 7 == 1:
            now = night + timedelta(hours=12)
            stay, begun = history.stay(now), set(history.with_data)
            goes = removable(store, history.settings(), now)
            assert begun.intersection(goes.releases) == begun - stay
            remove(store, goes)
            history.look()
            assert set(history.with_data) == stay
            assert removable(store, history.settings(), now).releases == []
    removed = _withdrawn(store) - history.taken_down
    assert not removed & (history.sent | history.judged) and len(removed) > 100
    files = {(path.split("/")[-4], path.split("/")[-1]) for path in store.fs.glob(store.at("releases/*/*/*/*"))}
    assert files == {(version, "part.parquet") for version in history.with_data}
    assert history.sent and history.judged and history.taken_down and history.in_use
    yanked = {row.version for row in ever_published(store)} - {row.version for row in publications(store)}
    assert yanked.intersection(history.with_data)


def _withdrawn(store: Store) -> set[str]:
    """Versions whose data is gone."""
    return {path.split("/")[-2] for path in store.fs.glob(store.at("releases/*/withdrawn.json"))}


def test_ten_years_of_nights_leave_a_release_a_month_and_keep_releases_keeps_more(store):
    made = [datetime(2025, month, day, 3, tzinfo=UTC) for month in (1, 2, 3) for day in (5, 15, 25)]
    for at in made:
        _release(store, f"{at:%Y.%m.%d}", at)
    left = {path.split("/")[-1] for path in store.fs.glob(store.at("releases/*"))}
    assert left - {*removable(store, _settings(), NOW).releases} == {"2025.01.25", "2025.02.25", "2025.03.25"}
    more = left - {*removable(store, _settings(keep_releases=3), NOW).releases}
    assert more == {"2025.01.25", "2025.02.25", "2025.03.05", "2025.03.15", "2025.03.25"}
    assert removable(store, _settings(thin_releases=False), NOW).releases == []


def test_versions_that_are_no_day_count_on_the_day_on_which_they_were_made(store):
    for hour, version in enumerate(("1.0.0", "1.0.1", "2026.02.30", "2026-11-20", "2026.11.20.1")):
        _release(store, version, datetime(2026, 11, 20, hour, tzinfo=UTC))
    (row,) = release_days(store, _settings(), NOW)
    assert (row.day, row.release, row.attempts) == (date(2026, 11, 20), "2026.11.20.1", 5)
    assert row.kept == ["2026.11.20.1 (one of the newest)"] + [
        f"{version} (goes)" for version in ("2026-11-20", "2026.02.30", "1.0.1", "1.0.0")
    ]


def test_status_names_the_release_of_each_day_and_why_the_others_stay(store, curate, tmp_path):
    now = datetime.now(UTC).replace(microsecond=0)
    for hours, suffix in ((3, ""), (2, "-attempt2"), (1, "-attempt3")):
        _release(store, f"2024.08.18{suffix}", now - timedelta(hours=hours))
    _publish(store, "2024.08.18")
    (tmp_path / "curate.yaml").write_text("store: store\nretention: {thin_releases: true}\n")
    code, out, _ = curate("status", store.root, "--json")
    (row,) = [each for line in out.splitlines() if (each := json.loads(line))["table"] == "releases"]
    assert (code, row["day"], row["release"], row["attempts"]) == (0, "2024-08-18", "2024.08.18-attempt3", 3)
    assert row["kept"] == [
        "2024.08.18-attempt3 (one of the newest)", "2024.08.18-attempt2 (goes)", "2024.08.18 (on the Hub)"
    ]  # fmt: skip


def test_a_version_whose_publication_begins_while_it_is_removed_stays(store):
    """Publishing writes its record between the list of what goes and the removal."""
    for day in (1, 2, 3):
        _release(store, f"2025.03.0{day}", datetime(2025, 3, day, tzinfo=UTC))
    goes = removable(store, _settings(), NOW)
    assert goes.releases == ["2025.03.01", "2025.03.02"]
    record_publication(store, _plan("2025.03.01"), NOW)
    remove(store, goes)
    assert _withdrawn(store) == {"2025.03.02"}
    assert store.read_bytes("releases/2025.03.01/chat/data/part.parquet") == b"data"


def test_a_removal_that_was_killed_among_the_files_is_finished_though_somebody_tried_to_publish(store):
    for day in (1, 2):
        _release(store, f"2025.03.0{day}", datetime(2025, 3, day, tzinfo=UTC))
    files = {"chat/data/part.parquet": {}, "battle/data/part.parquet": {}}
    store.write_bytes("releases/2025.03.01/manifest.json", json.dumps({"files": files}).encode())
    mark_withdrawn(store, "2025.03.01", RETENTION)
    record_publication(store, _plan("2025.03.01"), NOW)
    remove(store, removable(store, _settings(), NOW))
    assert _withdrawn(store) == {"2025.03.01"}
    assert not store.fs.exists(store.at("releases/2025.03.01/chat/data/part.parquet"))


def test_a_version_that_was_taken_back_from_the_hub_stays_and_status_says_so(store, curate, tmp_path):
    for day in (1, 2, 3):
        _release(store, f"2025.03.0{day}", datetime(2025, 3, day, tzinfo=UTC))
    record_publication(store, _plan("2025.03.01"), NOW)
    for repo in ("org/chat", "org/battle"):
        assert record_yank(store, "2025.03.01", repo, NOW)
    (tmp_path / "curate.yaml").write_text("store: store\nretention: {thin_releases: true}\n")
    code, out, _ = curate("status", store.root, "--json")
    rows = {each["day"]: each["kept"] for line in out.splitlines() if "day" in (each := json.loads(line))}
    assert code == 0
    assert rows["2025-03-01"] == ["2025.03.01 (was on the Hub)"] and rows["2025-03-02"] == ["2025.03.02 (goes)"]


@pytest.mark.parametrize("seed", range(3))
def test_run_records_stay_while_a_months_limit_counts_them_or_a_deployment_has_no_later_one(store, seed):
    draw = random.Random(seed)
    runs = [(NOW - timedelta(hours=6 * number), draw.choice(["nightly"] * 20 + ["backfill"])) for number in range(400)]
    runs.append((NOW - timedelta(days=120), "refresh-bench"))
    for started, run in runs:
        about = {"run": run, "started_at": started.isoformat(), "finished_at": None, "state": "completed", "stages": []}
        store.write_bytes(f"runs/{started:%Y%m%dT%H%M%S}Z.json", json.dumps(about).encode())
    newest = sorted(started for started, _ in runs)[-RUNS_MIN:]
    last = {run: max(started for started, of in runs if of == run) for run in {run for _, run in runs}}
    stay = {at for at, _ in runs if at in newest or at in last.values() or (at.year, at.month) == (NOW.year, NOW.month)}
    remove(store, removable(store, _settings(runs_days=3), NOW))
    assert record_paths(store) == [f"runs/{started:%Y%m%dT%H%M%S}Z.json" for started in sorted(stay)]
