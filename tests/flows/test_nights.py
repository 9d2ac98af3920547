"""Days read night by night give the release that one backfill gives, with the same key and any number of workers."""

import json
from datetime import date
from pathlib import Path

import pytest

from schemas.settings import Settings
from tests.builders import USER_KEY

pytestmark = pytest.mark.timeout(1800)  # three runs on a machine that may be busy

NIGHTS = [(None, date(2024, 8, 10)), (date(2024, 5, 22), None)]
"""First and last day of the log files each night reads; they overlap, as nights that are run again do."""


@pytest.fixture(scope="module")
def stores(backfilled: Settings, tmp_path_factory) -> tuple[Path, Path]:
    """The same logs curated in two nights, and in one run."""
    from flows.curate import curate

    by_night = tmp_path_factory.mktemp("nights") / "store"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CURATE_USER_KEY", USER_KEY)
        for since, until in NIGHTS:
            changes = {"store": str(by_night), "since": since, "until": until, "workers": 2}
            curate(backfilled.model_copy(update=changes))
    return by_night, Path(backfilled.store)


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
    ["conversations", "battles", "decisions", "near_images", "topics", "bench", "bench_funnel", "hidden", "ratings"],
)
def test_the_tables_are_the_same(stores, table):
    listed = [json.loads((store / "tables" / table / "parts.json").read_text()) for store in stores]
    assert listed[0] == listed[1] != []
