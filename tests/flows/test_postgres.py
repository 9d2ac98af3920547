"""Prefect's server on PostgreSQL, as docs/operating.md says, where PostgreSQL is installed."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.commands.own_server import OwnServer
from schemas.run import StageReport
from schemas.settings import Settings

pytestmark = pytest.mark.skipif(not shutil.which("initdb"), reason="PostgreSQL is not installed")


@pytest.fixture
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


def test_a_stage_runs_and_its_run_is_kept_in_postgresql(database, tmp_path, monkeypatch):
    from prefect import flow
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_URL, PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

    from flows.one_writer import one_writer

    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PREFECT_SERVER_DATABASE_CONNECTION_URL", database)
    monkeypatch.setenv("PREFECT_SERVER_ANALYTICS_ENABLED", "false")

    @flow(name="stage")
    @one_writer
    def stage(settings: Settings) -> list[StageReport]:
        return [StageReport(stage="ingest", counts={"lines": 3})]

    server = OwnServer()
    with temporary_settings({PREFECT_API_URL: server.url(), PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):
        stage(Settings(store=str(tmp_path / "store")))
        with get_client(sync_client=True) as client:
            (run,) = client.read_flow_runs()
            (artifact,) = client.read_artifacts()
    server.end()
    assert run.state_name == "Completed" and "ingest" in str(artifact.data)
    assert not list((tmp_path / "home").glob("*.db"))
    assert Path(tmp_path / "store" / "runs").is_dir()
