"""Prefect's server on PostgreSQL, as docs/operating.md says, where PostgreSQL is installed."""

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STAGE = """
import sys
from prefect import flow
from flows.commands.engine import run_flows
from flows.running.one_writer import one_writer
from schemas.run import StageReport
from schemas.settings import Settings

@flow(name="stage")
@one_writer
def stage(settings: Settings) -> list[StageReport]:
    return [StageReport(stage="ingest", counts={"lines": 3})]

run_flows(Settings(store=sys.argv[1]), lambda: stage)
"""
pytestmark = pytest.mark.skipif(not shutil.which("initdb"), reason="PostgreSQL is not installed")


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """A PostgreSQL server of its own, with an empty database: its address for SQLAlchemy."""
    user = pwd.getpwnam("nobody") if os.getuid() == 0 else pwd.getpwuid(os.getuid())  # it refuses to run as root
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="postgres-") as folder:
        os.chown(folder, user.pw_uid, user.pw_gid)
        options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        commands = {
            "initdb": ["initdb", "-D", f"{folder}/data", "-U", "prefect", "--auth=trust", "--no-sync"],
            "start": ["pg_ctl", "-D", f"{folder}/data", "-o", options, "-l", f"{folder}/log", "-w", "start"],
            "stop": ["pg_ctl", "-D", f"{folder}/data", "-m", "immediate", "stop"],
        }

        def call(name: str) -> None:
            who = {"user": user.pw_uid, "group": user.pw_gid} if os.getuid() == 0 else {}
            subprocess.run(commands[name], check=True, cwd=folder, stdout=subprocess.DEVNULL, **who)

        call("initdb")
        call("start")
        try:
            yield f"postgresql+asyncpg://prefect@127.0.0.1:{port}/postgres"
        finally:
            call("stop")


@pytest.fixture(scope="module")
def server(database, tmp_path_factory) -> Iterator[str]:
    """`prefect server start` with that database: the address of its API."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environment = {name: value for name, value in os.environ.items() if name != "PREFECT_API_URL"} | {
        "PREFECT_HOME": str(tmp_path_factory.mktemp("home")),
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": database,
    }
    start = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", port, "--no-ui"]
    with subprocess.Popen(start, env=environment, stdout=subprocess.DEVNULL) as started:
        until = time.monotonic() + 180
        while not _answers(f"http://127.0.0.1:{port}/api/health") and time.monotonic() < until:
            assert started.poll() is None
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/api"
        started.send_signal(signal.SIGINT)


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=10).close()
    except OSError:
        return False
    return True


def test_a_stage_runs_and_its_run_is_kept_in_postgresql(server, database, tmp_path):
    # In a process of its own: Prefect sends all events of a process to the first server that it knew.
    done = subprocess.run(
        [sys.executable, "-c", STAGE, str(tmp_path / "store")], cwd=ROOT, env=os.environ | {"PREFECT_API_URL": server},
        capture_output=True, text=True, check=False, timeout=400,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (kept,) = _rows(
        database,
        "select r.state_name, a.data from flow_run r join artifact a on a.flow_run_id = r.id where a.key = 'stages'",
    )
    assert kept.startswith("Completed|") and "ingest" in kept


def test_the_scheduler_makes_the_nights_of_a_deployment(server, database):
    flow = _post(f"{server}/flows/", {"name": "curate"})["id"]
    nightly = {"name": "nightly", "flow_id": flow, "schedules": [{"schedule": {"cron": "30 2 * * *"}, "active": True}]}
    _post(f"{server}/deployments/", nightly)
    made, until = [], time.monotonic() + 60
    while not made and time.monotonic() < until:
        time.sleep(1)
        made = _rows(database, "select name from flow_run where auto_scheduled and state_name = 'Scheduled'")
    assert made, "no run was scheduled within a minute"


def _post(url: str, body: dict) -> dict:
    asked = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return json.load(answer)


def _rows(database: str, query: str) -> list[str]:
    port = database.rpartition(":")[2].partition("/")[0]
    ask = ["psql", "-h", "127.0.0.1", "-p", port, "-U", "prefect", "-At", "-c", query, "postgres"]
    return subprocess.run(ask, check=True, capture_output=True, text=True).stdout.splitlines()
