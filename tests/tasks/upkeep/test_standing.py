"""`curate status`: last runs, what is held or waits for people, and cost, on one screen, as JSON and for Prometheus."""

import json
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from schemas.errors import ProviderHeld
from schemas.run import StageReport, Use
from schemas.settings import Settings
from tasks.storage.records import RunRecord, record_paths, run_record, run_records
from tasks.storage.tables import Store
from tasks.upkeep.standing import last_completed, month_costs
from tests.s3_server import s3_here
from tests.small_store import small_store


@pytest.fixture
def store(tmp_path) -> Store:
    """A store after a completed run and one that was held, with one conversation that a rule holds."""
    store = small_store(tmp_path)
    decisions = store.read("decisions").with_columns(held=pl.col("item_id") == "c00")
    store.replace("decisions", decisions)
    settings, now = Settings(store=store.root), datetime.now(UTC)
    uses = {"openai-mini": Use(calls=40, usd=1.25, usd_unconfirmed=0.5)}
    earlier = RunRecord(store, settings, now.replace(year=now.year - 1))
    earlier.add(StageReport(stage="measure_documents", use=uses))
    earlier.add(StageReport(stage="release", result="releases/2025.1.1"))
    earlier.write("failed", "a line")
    with pytest.raises(ProviderHeld), run_record(store, settings) as record:
        record.add(StageReport(stage="read_logs", counts={"lines": 12}))
        record.add(StageReport(stage="measure_documents", use=uses, failures={"categories: http_401": 3}))
        raise ProviderHeld("held before the release: openai failed")
    return store


def test_status_says_what_is_new_held_and_waiting_and_what_the_month_cost(store, curate):
    code, out, err = curate("status", store.root, "--json")
    assert (code, err) == (0, "")
    rows: dict[str, list[dict]] = {}
    for line in out.splitlines():
        row = json.loads(line)
        rows.setdefault(row.pop("table"), []).append(row)
    (holds,) = rows["store"]
    assert (holds["conversations"], holds["newest"]) == (store.height("conversations"), "2025.1.1")
    last, first = rows["runs"]
    assert (last["state"], last["new_lines"], last["failed"], last["usd"]) == ("held", 12, 3, 1.75)
    assert (last["result"], first["state"]) == ("held before the release: openai failed", "failed")
    assert {row["what"]: row["count"] for row in rows["waiting"]} == {
        "the last run, which is held": 1,
        "questions to people: held": 1,
        "questions to people: failures": 3,  # its type, and two answers
    }
    (cost,) = rows["cost"]  # of this month only
    assert cost == {
        "service": "openai-mini",
        "requests": 40,
        "requests_unpriced": 0,
        "usd": 1.25,
        "usd_unconfirmed": 0.5,
    }


@pytest.mark.parametrize(("settled", "unconfirmed"), [(0.25, 0.25), (0.5, 0.0), (0.75, 0.0)])
def test_a_price_that_a_later_run_knows_replaces_what_a_month_held_unconfirmed(store, settled, unconfirmed):
    record = RunRecord(store, Settings(store=store.root), datetime.now(UTC) + timedelta(seconds=2))  # another name
    record.add(StageReport(stage="measure_documents", use={"openai-mini": Use(usd=0.125, usd_settled=settled)}))
    record.write("completed")
    (cost,) = month_costs(run_records(store), datetime.now(UTC))
    assert (cost.requests, cost.usd, cost.usd_unconfirmed) == (40, 1.375, unconfirmed)


def test_the_status_of_a_bucket_is_that_of_the_folder(store, curate):
    here = curate("status", store.root, "--json")
    with s3_here("arena"):
        bucket = Store("s3://arena/store")
        bucket.fs.put(f"{store.path}/", f"{bucket.path}/", recursive=True)
        assert curate("status", bucket.root, "--json") == here
    assert here[0] == 0 and len(here[1].splitlines()) > 5


def test_one_screen_names_the_command_that_goes_on_and_what_retention_would_remove(store, curate, tmp_path):
    for version in ("1.0.0", "1.1.0"):
        store.write_bytes(f"releases/{version}/manifest.json", b"{}")
    (tmp_path / "curate.yaml").write_text("store: store\nretention: {keep_releases: 1}\n")
    code, out, _ = curate("status", store.root)
    assert code == 0 and "curate review serve held" in out and len(out.splitlines()) < 40
    assert max(map(len, out.splitlines())) <= 160
    assert "1.0.0" in out.rpartition("removed next")[2]


def test_the_last_night_is_that_of_the_deployment_and_not_of_any_command():
    unnamed = [{"state": "completed", "finished_at": f"{datetime.now(UTC)}", "stages": []} for _ in range(2)]
    unnamed[0]["stages"] = [{"stage": "canaries"}]
    assert last_completed(unnamed).keys() == {"nightly", ""}, "as earlier versions wrote records"


def test_no_store_is_one_line(refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "no STORE is given" in refused("status")
    assert "is not a store" in refused("status", tmp_path)


@pytest.mark.parametrize("written", [b"", b"{}", b'{"stages": 1}', b"\x00 torn"])
def test_a_damaged_record_of_a_run_is_one_line(store, refused, written):
    store.write_bytes(record_paths(store)[-1], written)
    assert "is no record of a run; delete it" in refused("status", store.root)
