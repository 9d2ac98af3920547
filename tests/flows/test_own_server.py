"""The Prefect server that a command starts for itself."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flows.commands.own_server import OwnServer, check_server
from schemas.errors import EngineUnwell
from tests.http_server import HttpServer

ROOT = Path(__file__).parents[2]
COMMAND = """
import time
from flows.commands.own_server import own_server
print(own_server()._process.pid, flush=True)
time.sleep(99)
"""


def _alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_killed_command_leaves_no_server_behind(tmp_path):
    environment = os.environ | {"PREFECT_HOME": str(tmp_path), "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND], cwd=ROOT, env=environment, stdout=subprocess.PIPE
    ) as command:
        server = int(command.stdout.readline())
        assert _alive(server)
        command.send_signal(signal.SIGKILL)
        command.wait()
        until = time.monotonic() + 60
        while _alive(server) and time.monotonic() < until:
            time.sleep(0.2)
    assert not _alive(server)


def test_a_server_that_does_not_start_is_one_line_that_says_what_to_do(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(EngineUnwell, match=r"^Prefect's server does not start[^\n]* PREFECT_API_URL=[^\n]*$"):
        OwnServer().url()


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
