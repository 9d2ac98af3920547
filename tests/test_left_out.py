"""Tests that compare nothing with real data are told, and fail where the data was named."""

import os
import subprocess
import sys
from types import SimpleNamespace

from tests.places import ROOT, needs_data


def test_tests_that_were_left_out_for_want_of_data_are_told_in_one_line(request):
    def told(*reasons: str) -> list[str]:
        lines, skipped = [], [SimpleNamespace(longrepr=("file.py", 1, f"Skipped: {reason}")) for reason in reasons]
        conftest = request.config.pluginmanager.get_plugin(str(ROOT / "tests" / "conftest.py"))
        conftest.pytest_terminal_summary(SimpleNamespace(stats={"skipped": skipped}, write_line=lines.append))
        return lines

    assert told("no chromium") == []
    (line,) = told(needs_data.kwargs["reason"], "no chromium", needs_data.kwargs["reason"])
    assert line.startswith("left out: 2 tests, because real data is neither ") and "CURATE_TEST_DATA" in line


def test_a_folder_of_data_that_was_named_is_read_or_the_test_fails():
    """The condition of `needs_data` is read anew in an interpreter in which the folder is named and is not there."""
    code = "from tests.places import DATA, needs_data; print(DATA.is_dir(), *needs_data.args)"
    named = os.environ | {"CURATE_TEST_DATA": "/nowhere"}
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=named, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False", "False"], "it is not there, and no reason to skip"
