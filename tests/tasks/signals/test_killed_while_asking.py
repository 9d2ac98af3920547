"""A run that is killed while it asks a service asks again what was under way and not yet stored, and nothing else."""

import json
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("openai", reason="production extra")
from benchmarks.llm_throughput import server
from tasks.storage.parts import ROWS_A_PART
from tasks.storage.tables import Store

ROOT = Path(__file__).parents[3]
COUNT, CALLS_AT_ONCE = 400, 8
NIGHT = "import sys; from benchmarks.llm_throughput import label; label(sys.argv[1], sys.argv[2], int(sys.argv[3]))"


def test_a_killed_run_repeats_less_than_one_part_of_its_calls_and_loses_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("CURATE_CALLS_AT_ONCE", str(CALLS_AT_ONCE))
    with server(100.0, headers=True) as url:
        night = [sys.executable, "-c", NIGHT, url, str(tmp_path / "store"), str(COUNT)]
        first = subprocess.Popen(night, cwd=ROOT)
        while _counts(url)["distinct"] < COUNT // 2:
            assert first.poll() is None
            time.sleep(0.05)
        first.send_signal(signal.SIGKILL)
        first.wait()
        subprocess.run(night, cwd=ROOT, check=True, timeout=300)
        counts = _counts(url)
    assert counts["distinct"] == Store.open(str(tmp_path / "store")).read("signals/categories").height == COUNT
    assert counts["repeated"] < ROWS_A_PART + 2 * CALLS_AT_ONCE


def _counts(url: str) -> dict[str, int]:
    return json.loads(urllib.request.urlopen(f"{url}/counts", timeout=30).read())
