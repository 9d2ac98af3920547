"""A process that read codes ends with its own last lines, and with none of a library's about what it has not freed."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
HELD = """
import atexit, ctypes, sys
from tasks.images import measures
ctypes.pythonapi.Py_IncRef(ctypes.py_object(measures.CODE_FORMATS))  # as threads of a whole run hold it
atexit.register(lambda: print("its last line", file=sys.stderr))
"""


@pytest.mark.parametrize(
    ("ends", "status", "first"), [("", 0, "its last line"), ("raise ValueError('why')", 1, "Traceback")]
)
def test_nothing_follows_the_last_line_of_a_process(ends, status, first):
    done = subprocess.run([sys.executable, "-c", HELD + ends], cwd=ROOT, capture_output=True, text=True, check=False)
    lines = done.stderr.splitlines()
    assert (done.returncode, done.stdout, lines[-1]) == (status, "", "its last line")
    assert lines[0].startswith(first) and not [line for line in lines if "leaked" in line]
