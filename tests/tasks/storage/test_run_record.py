"""The record of a run: all it did, and no path of the machine."""

import json
from datetime import timedelta

from schemas.run import StageReport
from schemas.settings import Settings
from tasks.storage.run_record import COMPLETED, RunRecord, latest_run_record
from tasks.storage.tables import Store
from tests.builders import NOON


def _kept(folder, now=NOON) -> tuple[Store, str]:
    folders = {name: str(folder / name) for name in ("store", "logs", "images", "presets")}
    store = Store.open(folders["store"])
    reports = [StageReport(stage="ingest", counts={"lines": 3}), StageReport(stage="screen", failures={"nsfw: x": 1})]
    record = RunRecord(store, Settings(**folders, seed=7), now)
    for report in reports:
        record.add(report)
    record.write(COMPLETED)
    return store, latest_run_record(store)


def test_a_record_says_what_was_asked_and_what_was_done(tmp_path):
    store, path = _kept(tmp_path)
    record = json.loads(store.read_bytes(path))
    assert (record["started_at"], record["state"]) == ("2024-09-18T12:00:00+00:00", "completed")
    assert record["settings"]["seed"] == 7
    assert [stage["stage"] for stage in record["stages"]] == ["ingest", "screen"]
    assert record["stages"][1]["failures"] == {"nsfw: x": 1}
    assert record["funnel"] is None  # no release yet: not every line has an outcome


def test_no_path_of_the_machine_is_in_the_record(tmp_path):
    store, path = _kept(tmp_path)
    assert str(tmp_path) not in store.read_bytes(path).decode()
    assert not path.startswith("/")


def test_each_run_has_its_own_record(tmp_path):
    store, first = _kept(tmp_path)
    store, second = _kept(tmp_path, NOON + timedelta(seconds=1))
    assert first != second == latest_run_record(store)
    assert store.read_bytes(first) and store.read_bytes(second)
