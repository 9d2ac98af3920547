"""One process writes to a store at a time."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from schemas.errors import StoreBusy
from tasks.storage.lock import writing

ROOT = Path(__file__).parents[3]
HOLD = """
import sys, time
from tasks.storage.lock import writing
with writing(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def other_process(tmp_path):
    """Another process that holds the store."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def _hold(root: str) -> None:
    with writing(root):
        pass


def test_a_second_process_is_refused_with_the_time_the_first_began(other_process, tmp_path):
    with pytest.raises(
        StoreBusy, match=r"another run has been writing to store '.*' since 20.* UTC; wait for it to end"
    ):
        _hold(str(tmp_path))


def test_a_killed_process_holds_nothing(other_process, tmp_path):
    other_process.send_signal(signal.SIGKILL)
    other_process.wait()
    with writing(str(tmp_path)) as store:
        assert b"UTC" in store.read_bytes("writing.since")


def test_a_flow_and_its_stages_hold_the_store_together(tmp_path, other_process):
    root = str(tmp_path / "own")
    with writing(root), writing(root):
        _hold(root)
    _hold(root)
    assert list((tmp_path / "own").rglob("writing.since")) == []


def test_after_an_error_the_store_is_free(tmp_path):
    with pytest.raises(RuntimeError), writing(str(tmp_path)):
        raise RuntimeError
    done = subprocess.run(
        [sys.executable, "-c", HOLD.replace("time.sleep(60)", ""), str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "held\n", done.stderr
