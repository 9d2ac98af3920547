"""The modules that a reader meets who follows one chat and its image through the code."""

import subprocess
import sys
from pathlib import Path


def test_the_way_of_a_chat_leads_from_its_log_line_to_a_verified_release(tmp_path):
    command = [sys.executable, "-m", "tests.way_of_one_chat", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parent.parent)
    assert ran.returncode == 0, ran.stderr[-2000:]
    modules = [line.split()[0] for line in ran.stdout.splitlines()]
    assert {"tasks/ingest/take_in.py", "tasks/policy/decisions.py", "tasks/release/verify.py"} <= set(modules)
