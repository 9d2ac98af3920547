"""Days read night by night give the release that one backfill gives, and forget what visitors asked to be forgotten."""

import json
import shutil
from datetime import date
from pathlib import Path

import polars as pl
import pytest

from schemas.items.reject import REQUESTS_FILE
from schemas.settings import Settings
from tests.builders import USER_KEY
from tests.flows.conftest import take_over_probes
from tests.places import contents
from tests.tasks.ingest.logs import chat, conv_id, write
from tests.tasks.takedown.conftest import files_with

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
        take_over_probes(backfilled, str(by_night))
        for since, until in NIGHTS:
            changes = {"store": str(by_night), "since": since, "until": until, "workers": 2}
            curate(backfilled.model_copy(update=changes))
    return by_night, Path(backfilled.store)


def _versions(store: Path) -> list[str]:
    return sorted(folder.name for folder in (store / "releases").iterdir())


def test_every_night_makes_a_release_and_the_last_is_that_of_the_backfill(stores):
    by_night, at_once = stores
    assert len(_versions(by_night)) == len(NIGHTS)
    (version,) = _versions(at_once)
    assert version == _versions(by_night)[-1]
    nightly, backfilled = (contents(store / "releases" / version) for store in stores)
    assert nightly.keys() == backfilled.keys()
    assert [name for name in nightly if nightly[name] != backfilled[name]] == []


@pytest.mark.parametrize(
    "table",
    ["conversations", "battles", "decisions", "near_images", "topics", "bench", "bench_funnel", "hidden", "ratings"],
)
def test_the_tables_are_the_same(stores, table):
    listed = [json.loads((store / "tables" / table / "parts.json").read_text()) for store in stores]
    assert listed[0] == listed[1] != []


def test_a_request_before_a_run_holds_in_that_run(backfilled, tmp_path, monkeypatch):
    from flows.curate import curate
    from tasks.storage.tables import Store

    monkeypatch.setenv("CURATE_USER_KEY", USER_KEY)
    logs, store = (
        Path(shutil.copytree(place, tmp_path / place.name)) for place in map(Path, (backfilled.logs, backfilled.store))
    )
    (before,) = (store / "releases").iterdir()
    released = pl.read_parquet(before / "chat" / "data" / "*.parquet")["conversation_id"]
    forgotten = next(each for each in released if "-" not in each)
    last = max(path.name for path in logs.glob("*-conv.json"))
    late = last.replace("-conv.json", "-conv.jsonl")
    write(logs, late, chat("late", "A secret of mine?", "It is safe."))
    (logs / REQUESTS_FILE).write_text(f"{forgotten}\n{conv_id('late')}\n")
    reports = curate(backfilled.model_copy(update={"logs": str(logs), "store": str(store)}))
    applied = next(report for report in reports if report.stage == "takedown_requests")
    assert (applied.counts["requests"], applied.counts["new"]) == (2, 2)
    assert applied.notes == [f"gone  release STORE/releases/{before.name}; its manifest stays"]
    shutil.rmtree(store / ".prefect", ignore_errors=True)
    assert files_with(Store(str(store)), forgotten, conv_id("late"), "A secret of mine?") == []
    assert Store(str(store)).read("rejects").filter(source=late)["reason"].to_list() == ["taken_down"]
    after = store / reports[-1].result
    kept = pl.read_parquet(after / "chat" / "data" / "*.parquet")["conversation_id"]
    assert after != before and len(kept) > 0 and forgotten not in kept and not (before / "chat").exists()
