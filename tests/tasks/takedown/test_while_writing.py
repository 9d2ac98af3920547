"""Nothing is taken down while something else writes to the store, and nothing is written while something goes."""

import subprocess
import sys
from pathlib import Path

import pytest

import flows.commands.takedown
import tasks.export.compat
from flows.commands.pipeline import export_released
from schemas.publication import Compat
from schemas.run import StageReport
from schemas.settings import Settings
from tests.tasks.ingest.logs import conv_id
from tests.tasks.takedown.conftest import SECRET, everything, files_with

ROOT = Path(__file__).parents[3]
HOLD = """
import sys
from tasks.storage.lock import writing
with writing(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def start():
    """Start a process that holds a store until its input ends."""
    started = []

    def run(root: str) -> subprocess.Popen[str]:
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        started.append(subprocess.Popen([sys.executable, "-c", HOLD, root], cwd=ROOT, text=True, **pipes))
        return started[-1]

    yield run
    for process in started:
        process.communicate()


def test_a_takedown_is_refused_while_another_process_writes_and_goes_through_when_it_has_ended(start, store, curate):
    other = start(store.root)
    assert other.stdout.readline() == "held\n"
    before = dict(everything(store))
    code, out, err = curate("takedown", "--yes", "--store", store.root, conv_id("ann"))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "another run has been writing to store" in err
    assert dict(everything(store)) == before
    assert curate("takedown", "--yes", "--store", store.root, conv_id("ann"), "--dry-run")[0] == 0
    other.communicate()
    assert curate("takedown", "--yes", "--store", store.root, conv_id("ann"))[0] == 0
    assert files_with(store, conv_id("ann"), f"{SECRET} one") == []


def test_another_process_is_refused_while_a_takedown_is_under_way(start, store, curate, monkeypatch):
    told = []
    monkeypatch.setattr(
        flows.commands.takedown, "_print_left", lambda *_: told.append(start(store.root).communicate()[1])
    )
    assert curate("takedown", "--yes", "--store", store.root, conv_id("ann"))[0] == 0
    assert "StoreBusy: another run has been writing to store" in told[0]


def test_a_release_is_exported_while_the_store_is_held(start, store, monkeypatch):
    told = []
    monkeypatch.setattr(
        tasks.export.compat, "export_beside", lambda *_: told.append(start(store.root).communicate()[1]) or "exports/x"
    )
    reports = [StageReport(stage="release", result="releases/1.0.0")]
    export_released(Settings(store=store.root), reports, Compat.VISIONARENA)
    assert "StoreBusy: another run has been writing to store" in told[0]
