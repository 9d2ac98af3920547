"""Releases are thinned to the last of each day and month; what was published stays, and `curate status` says why."""

import json
import os
import random
from datetime import UTC, date, datetime, timedelta

import pytest

from schemas.publication import Publication
from schemas.settings import RetentionSettings, Settings
from tasks.storage.layout import state_layout
from tasks.storage.tables import Store
from tasks.upkeep.retention import DAILY_DAYS, release_days, removable, remove

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


def test_four_hundred_days_of_nights_that_remove_leave_what_one_removal_would(store):
    """Nights remove as they go, also their own run records; releases are published, and days are made again later."""
    draw = random.Random(66)
    last_of_day, made, published = dict[date, str](), dict[str, tuple[date, datetime]](), set[str]()
    for ago in range(400, 0, -1):
        night = NOW - timedelta(days=ago)
        for attempt in range(draw.choice([0, 1, 1, 1, 2])):
            day = night.date() - timedelta(days=draw.choice([1, 1, 1, 1, 5, 20]))
            attempts = sum(released == day for released, _ in made.values())
            version = f"{day:%Y.%m.%d}" + (f"-attempt{attempts + 1}" if attempts else "")
            made[version] = (day, night + timedelta(hours=attempt))
            last_of_day[day] = version
            _release(store, version, made[version][1])
            stamp = made[version][1].timestamp()
            os.utime(store.at(f"releases/{version}/manifest.json"), (stamp, stamp))
        if made and draw.random() < 0.02:
            version = draw.choice([version for version in made if version not in _withdrawn(store)])
            published.add(version)
            _publish(store, version)
        if ago % 20 == 1:
            goes = removable(store, _settings(runs_days=45), night + timedelta(hours=5))
            remove(store, goes)
            assert not published & _withdrawn(store)
    # the last release of the last day of each month
    last_of_month = {day.replace(day=1): last_of_day[day] for day in sorted(last_of_day)}
    young = {version for version in last_of_day.values() if made[version][1] > NOW - timedelta(days=DAILY_DAYS)}
    stay = published | young | {*last_of_month.values()} | {[*made][-1]}
    remove(store, removable(store, _settings(), NOW))
    assert {*made} - _withdrawn(store) == stay
    assert len(published) > 2 < len({version for version in published if made[version][1] < NOW - timedelta(days=99)})
    newest = release_days(store, _settings(), NOW)[0]
    assert newest.release == last_of_day[max(last_of_day)]


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
