"""Peak memory of making a release of a store: joining the tables, shards, report, card and manifest."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.release_store import VERSIONS, decided_store

ROWS = (5_000, 50_000)
"""300 MB and 3 GB of pictures. The disk of `TMPDIR` takes three times as much."""


def run() -> list[dict[str, Any]]:
    """One row a size: peak of a process that makes the release, and of one that only reads the code for it."""
    return [_measured(rows) for rows in ROWS]


def _measured(rows: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        decided_store(Path(name) / "store", rows)
        code = "from benchmarks.release_memory import make, report; "
        before, after = (_told(f"{code}{work}report()") for work in ("", f"make({name + '/store'!r}); "))
    row = {"bench": "release: peak memory of a build", "n": rows, "peak_mb": after["peak_mb"]}
    row |= {"without_release_mb": before["peak_mb"], "cpu_s": after["cpu_s"]}
    print(json.dumps(row), flush=True)
    return row


def _told(code: str) -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def make(store: str) -> None:
    """Build, report on and seal a release of the store, as `flows/release.py` does, without Prefect's engine."""
    from schemas.settings import Settings
    from tasks.providers import Providers
    from tasks.release.steps import build_release, seal_release
    from tasks.report.steps import report_release

    chosen, providers = Settings(store=store), Providers()
    built = build_release.fn(chosen, VERSIONS)
    report_release.fn(chosen, providers, VERSIONS, built.staging)
    seal_release.fn(chosen, providers, VERSIONS, built)


def report() -> None:
    """Print this process's peak memory in MB, and its CPU seconds."""
    import tasks.release.steps
    import tasks.report.steps  # noqa: F401 - what making a release imports

    status = Path("/proc/self/status").read_text()  # getrusage would count the process that started this one
    peak = int(status.split("VmHWM:")[1].split()[0]) // 1024
    print(json.dumps({"peak_mb": peak, "cpu_s": round(sum(os.times()[:2]), 1)}))
