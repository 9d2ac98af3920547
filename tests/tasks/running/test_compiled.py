"""Compiled loops kept on disk are never older than what is compiled into them, in whichever file that stands."""

import os
import subprocess
import sys

import pytest

LOOP = """
from part import SCALE, step
from tasks.running.compiled import compiled

@compiled
def by_step(value):
    return step(value)

@compiled
def by_scale(value):
    return SCALE * value
"""
RUN = "import loop; print(loop.by_step(1), loop.by_scale(1), *(sum(each.stats.cache_hits.values()) for each in "
RUN += "(loop.by_step, loop.by_scale)))"


def part(scale, added):
    return f"import numba\nSCALE = {scale}\n@numba.njit\ndef step(value):\n    return value + {added}\n"


@pytest.fixture
def run(tmp_path):
    (tmp_path / "loop.py").write_text(LOOP)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.pathsep.join(sys.path)}"}
    environment |= {"NUMBA_CACHE_DIR": str(tmp_path / "kept"), "PYTHONDONTWRITEBYTECODE": "1"}

    def run(written):
        (tmp_path / "part.py").write_text(written)
        done = subprocess.run(
            [sys.executable, "-c", RUN], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return [int(each) for each in done.stdout.split()]

    return run


def test_a_loop_is_kept_until_a_called_function_or_a_constant_of_another_file_changes(run):
    assert run(part(scale=10, added=5)) == [6, 10, 0, 0]
    assert run(part(scale=10, added=5)) == [6, 10, 1, 1]
    assert run(part(scale=20, added=5)) == [6, 20, 0, 0]
    assert run(part(scale=20, added=7)) == [8, 20, 0, 1]
