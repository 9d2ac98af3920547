"""Progress on stderr: nothing for zero items, lines in a log, a bar on a terminal; the report of a timed step."""

import json
import os
import pty
import subprocess
import sys
import threading
import time
from datetime import datetime

import pytest

from schemas.run import StageReport
from tasks.runtime.progress import SECONDS_BETWEEN_LINES, progress, rate_text, tell, timed


@pytest.mark.parametrize("total", [0, 3])
def test_nothing_to_do_and_short_work_show_nothing_in_a_log(capsys, total):
    with progress("images", total) as advance:
        for _ in range(total):
            advance()
    assert capsys.readouterr() == ("", "")


def test_long_work_shows_its_pace_on_stderr_alone(capsys, clock):
    with progress("images", 4000) as advance:
        for count in (1500, 2500):
            clock.later(SECONDS_BETWEEN_LINES)
            advance(count)
    shown = capsys.readouterr()
    assert shown.out == ""
    first, last = shown.err.splitlines()
    assert first.startswith("  images: 1,500 of 4,000, ") and first.endswith("/min, 1 min left")
    assert last.startswith("  images: 4,000 of 4,000, ")


@pytest.mark.parametrize(
    ("per_second", "shown"), [(1500, "90,000/min"), (1.5, "90/min"), (0.02, "1.2/min"), (1e-5, "0.0006/min"), (0, "")]
)
def test_rates_have_one_unit(per_second, shown):
    assert rate_text(per_second) == shown


def test_no_count_is_lost_between_threads(capsys, clock):
    with progress("images", 40_000) as advance:
        threads = [threading.Thread(target=lambda: [advance() for _ in range(5000)]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        clock.later(SECONDS_BETWEEN_LINES)
        advance(0)
    assert "40,000 of 40,000" in capsys.readouterr().err


@pytest.mark.parametrize("total", [0, 2])
def test_an_error_in_the_work_is_not_swallowed(total):
    with pytest.raises(KeyError), progress("images", total):
        raise KeyError


def test_a_terminal_shows_a_bar_that_is_gone_in_the_end():
    program = (
        "from tasks.runtime.progress import progress\n"
        "with progress('images', 2) as advance:\n    advance()\n    advance()\n"
    )
    ours, theirs = pty.openpty()
    run = [sys.executable, "-c", program]
    subprocess.run(run, stderr=theirs, check=True, timeout=60, env=os.environ | {"TERM": "xterm"})
    os.close(theirs)
    shown = b""
    while chunk := _read(ours):
        shown += chunk
    os.close(ours)
    assert b"images" in shown and b"2/2" in shown
    assert shown.endswith(b"\x1b[1A\x1b[2K")  # up a line, and erase it


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 10_000)
    except OSError:  # Linux reports the end of a terminal as an input/output error
        return b""


def test_log_lines_are_json_where_they_are_asked_for(capsys, clock, monkeypatch):
    monkeypatch.setenv("CURATE_LOG_FORMAT", "json")
    with progress("images", 4000) as advance:
        clock.later(SECONDS_BETWEEN_LINES)
        advance(1500)
    tell("stage ingest", stage={"seconds": 1.5})
    first, last = map(json.loads, capsys.readouterr().err.splitlines())
    assert first["message"].startswith("images: 1,500 of 4,000, ") and datetime.fromisoformat(first["at"]).tzinfo
    assert last["stage"] == {"seconds": 1.5}


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
