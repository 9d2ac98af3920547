"""What the retention of the settings removes, and what it never removes."""

import json
import os
from datetime import UTC, datetime, timedelta

import pytest

from schemas.errors import BadInput
from schemas.publication import Publication
from schemas.settings import RetentionSettings, Settings
from tasks.release.fetched import fetched, read_manifest
from tasks.storage.audit import audit_entries
from tasks.takedown.releases import still_exported
from tasks.upkeep.retention import RUNS_MIN, removable, remove
from tests.tasks.ingest.logs import conv_id
from tests.tasks.takedown.conftest import everything

NOW = datetime(2026, 11, 24, 3, tzinfo=UTC)
VERSIONS = ("1.0.0", "1.1.0", "1.2.0", "1.10.0")


@pytest.fixture
def years(store):
    """The store with four releases, the second one published, and a record of each night of two months."""
    for version in VERSIONS[1:]:
        store.fs.copy(store.at("releases/1.0.0"), store.at(f"releases/{version}"), recursive=True)
    about = {"public": True, "commit": "c", "published_at": NOW}
    published = Publication(repo="org/data", version="1.1.0", revision="1.1.0", **about)
    store.write_bytes("published/org/data/1.1.0.json", published.model_dump_json().encode())
    store.fs.rm(store.at("runs"), recursive=True)
    for night in range(60):
        started = NOW - timedelta(days=60 - night)
        made = f"releases/{VERSIONS[night // 15]}"
        record = {"started_at": started.isoformat(), "state": "completed", "stages": [{"result": made}]}
        store.write_bytes(f"runs/{started:%Y%m%dT%H%M%S}Z.json", json.dumps(record).encode())
    store.write_bytes("canaries/tables/layout.json", b"{}")
    os.utime(store.at("canaries/tables/layout.json"), (NOW.timestamp() - 40 * 86400,) * 2)
    return store


def _kept(**keys) -> Settings:
    return Settings(store="", retention=RetentionSettings(**keys))


def test_nothing_is_removed_that_nobody_asked_to_remove(years):
    assert removable(years, _kept(), NOW).counts == {}


def test_old_releases_go_but_their_manifests_published_ones_and_what_people_wrote_stay(years):
    found = removable(years, _kept(keep_releases=1, runs_days=7, probes_days=30), NOW)
    assert found.releases == ["1.0.0", "1.2.0"]  # the second is on the Hub, the last is the newest
    assert len(found.runs) == 60 - RUNS_MIN and found.probes
    before = dict(everything(years))
    remove(years, found)
    left = dict(everything(years))
    gone = before.keys() - left.keys()
    assert {name.split("/")[0] for name in gone} == {"releases", "runs", "canaries"}
    assert {name for name in left if name.startswith("releases/1.0.0")} == {
        "releases/1.0.0/manifest.json",
        "releases/1.0.0/withdrawn.json",
    }
    assert not any(name.startswith(("releases/1.1.0", "releases/1.10.0")) for name in gone)
    assert removable(years, _kept(keep_releases=1, runs_days=7, probes_days=30), NOW).counts == {}
    (said,) = audit_entries(years)
    assert (said.what, said.counts) == ("removed", {"releases": 2, "run records": 30, "probes": 1})
    with fetched(f"{years.root}/releases/1.0.0") as folder, pytest.raises(BadInput, match="retention did not keep"):
        read_manifest(folder)


def test_of_a_release_that_was_not_kept_a_takedown_says_that_its_export_may_hold_it(years, curate, tmp_path):
    exported = tmp_path / "sft"
    assert curate("export", "sft", f"{years.root}/releases/1.0.0", "--out", exported)[0] == 0
    remove(years, removable(years, _kept(keep_releases=1), NOW))
    code, out, _ = curate("takedown", "--yes", "--store", years.root, conv_id("ann"))
    assert code == 0 and f"perhaps in an export of release 1.0.0 (training data), look there: {exported}" in out
    assert [certain for _, certain in still_exported(years, [])] == [False]
