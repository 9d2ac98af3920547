"""Prefect's server on PostgreSQL, as docs/operating.md says, where PostgreSQL is installed."""

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
STAGE = """
import sys
from prefect import flow
from flows.commands.engine import run_flows
from flows.running.checked_flow import one_writer
from schemas.run import StageReport
from schemas.settings import Settings

@flow(name="stage")
@one_writer
def stage(settings: Settings) -> list[StageReport]:
    return [StageReport(stage="ingest", counts={"lines": 3})]

run_flows(Settings(store=sys.argv[1]), lambda: stage)
"""
pytestmark = pytest.mark.skipif(not shutil.which("initdb"), reason="PostgreSQL is not installed")


def test_a_stage_runs_and_its_run_is_kept_in_postgresql(scheduling_server, database, tmp_path):
    # In a process of its own: Prefect sends all events of a process to the first server that it knew.
    command, own = [sys.executable, "-c", STAGE, str(tmp_path / "store")], {"PREFECT_API_URL": scheduling_server}
    environment = os.environ | own
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=400)
    assert done.returncode == 0, done.stderr
    (kept,) = _rows(
        database,
        "select r.state_name, a.data from flow_run r join artifact a on a.flow_run_id = r.id join flow f on "
        "f.id = r.flow_id where a.key = 'stages' and f.name = 'stage'",
    )
    assert kept.startswith("Completed|") and "ingest" in kept


def test_the_scheduler_makes_the_nights_of_a_deployment(scheduling_server, database):
    flow = _post(f"{scheduling_server}/flows/", {"name": "curate"})["id"]
    nightly = {"name": "nightly", "flow_id": flow, "schedules": [{"schedule": {"cron": "30 2 * * *"}, "active": True}]}
    _post(f"{scheduling_server}/deployments/", nightly)
    wait_until(lambda: _rows(database, "select name from flow_run where auto_scheduled and state_name = 'Scheduled'"))


def _post(url: str, body: dict) -> dict:
    asked = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return json.load(answer)


def _rows(database: str, query: str) -> list[str]:
    port = database.rpartition(":")[2].partition("/")[0]
    ask = ["psql", "-h", "127.0.0.1", "-p", port, "-U", "prefect", "-At", "-c", query, "postgres"]
    return subprocess.run(ask, check=True, capture_output=True, text=True).stdout.splitlines()
