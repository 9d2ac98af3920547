"""Days read night by night give the release that one backfill gives, with the same key and any number of workers."""

import json
from datetime import date
from pathlib import Path

import pytest

from schemas.settings import BenchSettings, Settings
from tasks.demo.arena import generate_arena

pytestmark = pytest.mark.timeout(1800)  # a run for each night, on a machine that may be busy

NIGHTS = [(None, date(2024, 5, 23)), (date(2024, 5, 22), date(2024, 8, 10)), (date(2024, 8, 10), None)]
"""First and last day of the log files each night reads; they overlap, as nights that are run again do."""

BENCH = BenchSettings(hidden_fraction=0.2)
"""Enough of a small arena is reserved for the hidden split to be one."""


@pytest.fixture(scope="module")
def stores(prefect_server, tmp_path_factory) -> tuple[Path, Path]:
    """A small arena curated in three nights by two workers, and at once by one."""
    from flows.curate import curate

    folder = tmp_path_factory.mktemp("nights")
    generate_arena(folder, conversations=40, battles=10, seed=9, images_max=10, problems=False)
    by_night, at_once = folder / "by_night", folder / "at_once"
    key = pytest.MonkeyPatch()
    key.setenv("CURATE_USER_KEY", "one key for both stores of this test")
    for store, windows, workers in ((by_night, NIGHTS, 2), (at_once, [(None, None)], 1)):
        places = {"logs": str(folder / "logs"), "store": str(store)}
        for since, until in windows:
            curate(Settings(**places, since=since, until=until, workers=workers, bench=BENCH))
    key.undo()
    return by_night, at_once


def _versions(store: Path) -> list[str]:
    return sorted(folder.name for folder in (store / "releases").iterdir())


def _files(release: Path) -> dict[str, bytes]:
    return {str(path.relative_to(release)): path.read_bytes() for path in sorted(release.rglob("*")) if path.is_file()}


def test_every_night_makes_a_release_and_the_last_is_that_of_the_backfill(stores):
    by_night, at_once = stores
    assert len(_versions(by_night)) == len(NIGHTS)
    (version,) = _versions(at_once)
    assert version == _versions(by_night)[-1]
    nightly, backfilled = (_files(store / "releases" / version) for store in stores)
    assert nightly.keys() == backfilled.keys()
    assert [name for name in nightly if nightly[name] != backfilled[name]] == []


@pytest.mark.parametrize(
    "table",
    ["conversations", "battles", "decisions", "near_pictures", "topics", "bench", "bench_funnel", "hidden", "ratings"],
)
def test_the_tables_are_the_same(stores, table):
    listed = [json.loads((store / "tables" / table / "parts.json").read_text()) for store in stores]
    assert listed[0] == listed[1] != []
