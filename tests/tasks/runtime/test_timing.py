"""The report of a timed step."""

import time

from schemas.run import StageReport
from tasks.runtime.timing import timed


@timed
def nap(seconds: float, *, stage: str) -> StageReport:
    """Sleep."""
    block = bytearray(b"x") * 80_000_000
    time.sleep(seconds)
    return StageReport(stage=stage, counts={"bytes": len(block)})


def test_seconds_and_memory_are_added_and_the_rest_is_kept():
    report = nap(0.12, stage="nap")
    assert report.stage == "nap"
    assert report.counts == {"bytes": 80_000_000}
    assert 0.1 <= report.seconds < 5
    assert 80 < report.peak_memory_mb < 100_000
