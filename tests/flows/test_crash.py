"""Killed in the middle, a run is finished by the next one, to the same bytes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tasks.demo.arena import generate_arena
from tasks.tables import Store

RUN = [sys.executable, "-c", "from flows.commands import main; main()", "run"]
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def small_arena(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("small")
    generate_arena(folder, conversations=40, battles=10, seed=9, pictures_max=20, problems=False)
    return folder


@pytest.fixture
def start(small_arena, monkeypatch):
    """Start `curate run` on the small arena in a process group of its own."""
    monkeypatch.setenv("CURATE_USER_KEY", "one key for all stores of this test")

    def started(store: Path) -> subprocess.Popen[str]:
        command = [*RUN, "--logs", str(small_arena / "logs"), "--store", str(store)]
        return subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )

    return started


def _finish(process: subprocess.Popen[str]) -> None:
    out, err = process.communicate(timeout=500)
    assert process.returncode == 0, out + err


def _kill_when(process: subprocess.Popen[str], reached: Path) -> None:
    """SIGKILL to the whole group as soon as `reached` exists."""
    while not reached.exists():
        assert process.poll() is None, f"ended before {reached.name} was there"
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def _parquet(store: Path) -> dict[str, bytes]:
    return {str(path.relative_to(store)): path.read_bytes() for path in sorted(store.glob("releases/*/*/*.parquet"))}


def test_killed_runs_are_completed_to_the_same_bytes_and_measure_nothing_twice(start, tmp_path):
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    _finish(start(undisturbed))
    _kill_when(start(killed), killed / "tables" / "signals" / "image_layout")
    stored = Store.open(str(killed)).read("signals/image_hash").height
    assert stored > 0
    _kill_when(start(killed), killed / "tables" / "decisions")
    assert not list(killed.glob("releases/*/manifest.json"))
    _finish(start(killed))
    assert _parquet(killed) == _parquet(undisturbed) != {}
    (record,) = (killed / "runs").glob("*.json")
    calls = [stage["model_calls"] for stage in json.loads(record.read_text())["stages"]]
    assert [each for each in calls if each.keys() & {"image_hash", "text_pii"}] == []
