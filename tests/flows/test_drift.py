"""`curate release` is held with status 3 when the share that a rule drops differs from earlier runs."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from schemas.policy import policy_hash
from schemas.run import DropCounts, StageReport
from schemas.settings import Settings
from tasks.storage.records import RunRecord
from tests.builders import NOON
from tests.small_store import POLICY, small_store


def drifted_store(folder: Path) -> Path:
    """A store in which a reason dropped nearly everything in earlier runs and now drops nothing."""
    store, hashed = small_store(folder), policy_hash(POLICY)
    for number in (1, 2, 3):
        drops = DropCounts(policy_hash=hashed, conversations=3 * number, by_reason={"nsfw_image": 3 * number})
        report = StageReport(stage="drift", drops=drops)
        RunRecord(store, Settings(store=store.root), NOON + timedelta(days=number)).add(report)
    narrow = {"runs_min": 2, "conversations_min": 1, "difference_min": 0.05, "z_max": 2.0}
    applied = POLICY.model_dump(mode="json") | {"drift": narrow}
    store.write_bytes(f"policies/{hashed}.json", json.dumps(applied).encode())
    return Path(store.root)


@pytest.fixture
def drifted(tmp_path) -> Path:
    return drifted_store(tmp_path)


def test_a_drift_holds_the_release_with_one_line_until_it_is_accepted(prefect_server, curate, drifted):
    status, _, err = curate("release", "--store", drifted)
    assert status == 3
    (line,) = [line for line in err.splitlines() if line.startswith("curate: ")]
    assert line.startswith("curate: held before the release: ") and "nsfw_image drops 0.0% of 20 new" in line
    assert list(drifted.glob("releases/*/manifest.json")) == []
    status, _, err = curate("release", "--store", drifted, "--accept-drift")
    assert status == 0, err
    assert len(list(drifted.glob("releases/*/manifest.json"))) == 1
    status, _, err = curate("release", "--store", drifted)
    assert status == 0, err
