"""Commands use the configured Prefect server, or a temporary one with its own history."""

import os
import re
import resource
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.commands.engine import check_server
from schemas.errors import EngineUnwell
from schemas.settings import Settings

ROOT = Path(__file__).parents[2]
RUN = """
import os, signal, sys
from prefect import flow
from schemas.run import StageReport

@flow(name="stage")
def stage(settings):
    from prefect.settings import PREFECT_API_URL
    print(PREFECT_API_URL.value(), flush=True)
    if sys.argv[2:] == ["kill"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return [StageReport(stage="ingest")]
"""
COMMAND = f"""
import sys
from flows.commands.engine import run_flows
from schemas.settings import Settings

def load():
    names = {{}}
    exec({RUN!r}, names)
    return names["stage"]

print(len(run_flows(Settings(store=sys.argv[1]), load, load)))
"""


def _run(folder: Path, *options: str, room_bytes: int = resource.RLIM_INFINITY) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PREFECT_HOME": str(folder / "home")}
    return subprocess.run(
        [sys.executable, "-c", COMMAND, str(folder / "store"), *options], cwd=ROOT, env=environment,
        capture_output=True, text=True, check=False, timeout=400,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room_bytes, resource.RLIM_INFINITY)),
    )  # fmt: skip


def test_a_killed_command_leaves_no_server(tmp_path):
    done = _run(tmp_path, "kill")
    assert done.returncode == -signal.SIGKILL
    with pytest.raises(EngineUnwell, match="does not answer"):
        check_server(done.stdout.strip())


def test_a_broken_history_is_one_line_that_says_what_to_do(tmp_path):
    database = tmp_path / "store" / ".prefect" / "prefect.db"
    database.parent.mkdir(parents=True)
    database.write_bytes(b"no database" * 100)
    done = _run(tmp_path)
    assert done.returncode == 1
    assert re.search(r"EngineUnwell: Prefect's server does not start[^\n]* PREFECT_API_URL=[^\n]*\n$", done.stderr)


def test_history_is_kept_in_the_store_and_no_room_for_it_is_one_line_at_the_start_and_later(tmp_path):
    """A limit on the size of files stands for the full disk; SQLite's log of a run is larger."""
    full = _run(tmp_path, room_bytes=65_536), _run(tmp_path), _run(tmp_path, room_bytes=65_536)
    assert [done.returncode for done in full] == [1, 0, 1], full
    place = re.escape(str(tmp_path / "store" / ".prefect"))
    for done in (full[0], full[2]):
        assert re.search(rf"EngineUnwell: no room left for the history of runs in '{place}' [^\n]*\n$", done.stderr)
    assert full[1].stdout.splitlines()[-1] == "2"
    assert not (tmp_path / "home").exists()
    written = (tmp_path / "store" / ".prefect").iterdir()
    assert {file.name: file.stat().st_mode & 0o077 for file in written if file.name.startswith("prefect.db")} == {
        "prefect.db": 0  # nobody else reads parameters and log lines
    }
    with closing(sqlite3.connect(tmp_path / "store" / ".prefect" / "prefect.db")) as history:
        states = history.execute("SELECT state_name FROM flow_run").fetchall()
    assert states[:2] == [("Completed",)] * 2


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/api", "nonsense", "http://[::1/api"])
def test_a_configured_server_that_does_not_answer_is_one_line_that_says_what_to_do(url):
    with pytest.raises(EngineUnwell, match=r"^Prefect's server does not answer at [^\n]*prefect server start[^\n]*$"):
        check_server(url)


def test_a_flow_of_a_notebook_names_a_server_that_does_not_answer_before_anything_starts(tmp_path):
    from flows.stages import decide

    url = "http://127.0.0.1:9/api"
    with temporary_settings({PREFECT_API_URL: url}), pytest.raises(EngineUnwell, match=f"does not answer at .*={url}"):
        decide(Settings(store=str(tmp_path / "nowhere")))
    assert not (tmp_path / "nowhere").exists()


def test_a_configured_server_that_answers_anything_is_there(http_server):
    assert check_server(http_server.url) is None  # it answers GET with an error
