"""Commands use the configured Prefect server, or a temporary one with its own history."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flows.commands.engine import check_server, start_server
from schemas.errors import EngineUnwell
from tests.http_server import HttpServer

ROOT = Path(__file__).parents[2]
COMMAND = """
import sys, time
from flows.commands.engine import prepare_engine, start_server
prepare_engine(sys.argv[1])
start_server()
from prefect.server.api.server import SubprocessASGIServer
print(SubprocessASGIServer().server_process.pid, flush=True)
time.sleep(99)
"""


def _alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_killed_command_leaves_no_server_and_nothing_in_the_users_prefect_database(tmp_path):
    home, store = tmp_path / "home", tmp_path / "store"
    store.mkdir()
    environment = os.environ | {"PREFECT_HOME": str(home)}
    command = subprocess.Popen(
        [sys.executable, "-c", COMMAND, str(store)], cwd=ROOT, env=environment, stdout=subprocess.PIPE
    )
    with command:
        server = int(command.stdout.readline())
        assert _alive(server)
        command.send_signal(signal.SIGKILL)
        command.wait()
        until = time.monotonic() + 60
        while _alive(server) and time.monotonic() < until:
            time.sleep(0.2)
    assert not _alive(server)
    assert not home.exists() and list(store.glob(".prefect/*.db"))


def test_a_server_that_does_not_start_is_one_line_that_says_what_to_do(monkeypatch):
    import prefect.server.api.server
    from prefect.settings import PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS, temporary_settings

    monkeypatch.setattr(prefect.server.api.server.SubprocessASGIServer, "_instances", {})
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with (
        temporary_settings({PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS: 1}),
        pytest.raises(EngineUnwell, match=r"^Prefect's server does not start[^\n]* PREFECT_API_URL=[^\n]*$"),
    ):
        start_server()


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/api", "nonsense", "http://[::1/api"])
def test_a_configured_server_that_does_not_answer_is_one_line_that_says_what_to_do(url):
    with pytest.raises(EngineUnwell, match=r"^Prefect's server does not answer at [^\n]*prefect server start[^\n]*$"):
        check_server(url)


def test_a_configured_server_that_answers_anything_is_there():
    server = HttpServer()  # it answers GET with an error
    try:
        assert check_server(server.url) is None
    finally:
        server.close()
