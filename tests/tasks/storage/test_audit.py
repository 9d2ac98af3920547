"""The audit log and the record of a run: what is in them, what is not, and that a change or a cut is noticed."""

import getpass
import json
from datetime import timedelta
from multiprocessing.pool import ThreadPool
from pathlib import Path

import pytest

from schemas.errors import StoreUnwell
from schemas.items.review import Review
from schemas.run import StageReport
from schemas.settings import Settings
from schemas.upkeep import Audited
from tasks.storage.records import (
    COMPLETED,
    RunRecord,
    add_audit_entry,
    audit_entries,
    last_entry,
    latest_run_record,
    record_paths,
)
from tasks.storage.tables import Store, frame_of
from tests.builders import NOON, store_with


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = store_with(tmp_path)
    review = Review(conversation_id="c", content_id="7" * 32, reasons=[], verdict="drop", reviewer="Maria Muster")
    store.replace("reviews", frame_of(Review, [review]))
    add_audit_entry(store, Audited.LOOKED, {"items": 1}, by="Maria Muster")
    add_audit_entry(store, Audited.EXPORTED, {"training data": 1}, "1.0.0")
    add_audit_entry(store, Audited.TOOK_DOWN, {"rows": 12, "releases": 0})
    return store


def test_the_files_of_the_log_name_nobody(store):
    files = sorted(Path(store.at("audit")).iterdir())
    written = "".join(file.read_text() for file in files)
    assert len(files) == 3 and "Muster" not in written and f'"{getpass.getuser()}"' not in written


def test_only_its_owner_reads_the_key_of_the_people_in_the_log(store):
    assert Path(store.at("secret/people_key")).stat().st_mode & 0o077 == 0


def test_the_doctor_names_the_people_of_the_log(store, curate):
    code, out, _ = curate("doctor", "--store", store.root)
    said = [line[27:] for line in out.splitlines() if line.startswith("audit    2")]
    user = getpass.getuser()
    assert (code, said[0]) == (0, "Maria Muster  looked  1 items")
    assert said[1:] == [f"{user}  exported  1 training data  1.0.0", f"{user}  took_down  12 rows"]
    assert "audit    3 entries" in out


@pytest.fixture(params=["changed", "removed", "first removed"])
def harmed(store, request) -> Store:
    """The store with harm to its audit log."""
    second = Path(store.at("audit/00000002.json"))
    if request.param == "changed":
        second.write_text(second.read_text().replace("1.0.0", "1.0.1"))
    else:
        (second if request.param == "removed" else second.with_name("00000001.json")).unlink()
    return store


def test_a_log_with_a_changed_or_removed_entry_is_not_read(harmed):
    with pytest.raises(StoreUnwell, match=r"was changed: entry [123] is missing or is not"):
        list(audit_entries(harmed))


def test_the_doctor_notices_a_changed_or_removed_entry(harmed, curate):
    code, out, _ = curate("doctor", "--store", harmed.root)
    assert code == 1 and "the audit log" in out


def test_a_log_with_all_that_the_last_run_saw_is_whole(store, curate):
    store.write_bytes("runs/20240620T120000Z.json", json.dumps({"audit": last_entry(store), "stages": []}).encode())
    assert curate("doctor", "--store", store.root)[0] == 0


def test_a_cut_end_is_noticed_by_what_the_last_run_saw(store, curate):
    store.write_bytes("runs/20240620T120000Z.json", json.dumps({"audit": last_entry(store), "stages": []}).encode())
    Path(store.at("audit/00000003.json")).unlink()
    code, out, _ = curate("doctor", "--store", store.root)
    assert code == 1 and "was cut: a run saw 3 entries, and the last is not there" in out


def test_entries_of_several_at_once_are_one_chain(store):
    with ThreadPool(8) as pool:
        pool.map(lambda n: add_audit_entry(store, Audited.LOOKED, {"items": n}), range(1, 41))
    assert sorted(each.counts["items"] for each in list(audit_entries(store))[3:]) == list(range(1, 41))
    assert [file.suffix for file in Path(store.at("audit")).iterdir()] == [".json"] * 43


def _kept(folder, now=NOON) -> tuple[Store, str]:
    folders = {name: str(folder / name) for name in ("store", "logs", "images", "presets")}
    store = Store.open(folders["store"])
    reports = [StageReport(stage="ingest", counts={"lines": 3}), StageReport(stage="screen", failures={"nsfw: x": 1})]
    record = RunRecord(store, Settings(**folders, seed=7), now)
    for report in reports:
        record.add(report)
    record.write(COMPLETED)
    return store, latest_run_record(store)


@pytest.fixture(scope="module")
def record(tmp_path_factory) -> dict:
    """The record of a run."""
    store, path = _kept(tmp_path_factory.mktemp("kept"))
    return json.loads(store.read_bytes(path))


def test_a_record_says_when_its_run_began(record):
    assert record["started_at"] == "2024-09-18T12:00:00+00:00"


def test_a_record_says_how_its_run_ended(record):
    assert record["state"] == "completed"


def test_a_record_has_the_settings_of_its_run(record):
    assert record["settings"]["seed"] == 7


def test_a_record_has_the_stages_of_its_run(record):
    assert [stage["stage"] for stage in record["stages"]] == ["ingest", "screen"]
    assert record["stages"][1]["failures"] == {"nsfw: x": 1}


def test_a_record_has_no_funnel_before_there_is_a_release(record):
    assert record["funnel"] is None  # not every line has an outcome


def test_no_path_of_the_machine_is_in_a_record(tmp_path):
    store, path = _kept(tmp_path)
    assert str(tmp_path) not in store.read_bytes(path).decode()
    assert not path.startswith("/")


def test_each_run_has_its_own_record(tmp_path):
    _, path = _kept(tmp_path)
    _, of_the_same_second = _kept(tmp_path)
    store, last = _kept(tmp_path, NOON + timedelta(seconds=1))
    assert record_paths(store) == [path, of_the_same_second, last]
