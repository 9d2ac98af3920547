"""Joins keep to the memory and the room that settings give them, and a setting that is too small is one line."""

import re
import subprocess
import sys
import tempfile

import polars as pl
import pytest

from flows.running.settings_file import in_force
from schemas.errors import BadInput, StoreUnwell
from schemas.settings import Settings
from tasks.runtime.memory import use_limits
from tasks.storage.tables import Store
from tests.cut_off import room_for
from tests.places import ROOT

IDS = pl.DataFrame({"id": pl.int_range(100_000, eager=True).hash().cast(pl.String)})


@pytest.fixture(autouse=True)
def usual_limits():
    """What a test sets ends with it."""
    yield
    use_limits(None, None)


@pytest.fixture
def folder(tmp_path) -> str:
    return str(tmp_path / "store")


def joined(folder: str) -> int:
    frames = {name: iter([*IDS.iter_slices(10_000)]) for name in ("left_ids", "right_ids")}
    question = "SELECT count(*) AS ids FROM left_ids JOIN right_ids USING (id)"
    (counts,) = Store.open(folder).batches(question, **frames)
    return int(counts["ids"].item())


def ordered(folder: str) -> int:
    frames = (IDS.with_columns(copy=pl.lit(number)) for number in range(8))
    batches = Store.open(folder).batches("SELECT id, copy FROM copies ORDER BY id, copy", copies=frames)
    return sum(batch.height for batch in batches)


@pytest.mark.parametrize("memory_gb", [1e-9, 0.002, 0.009])
def test_too_little_memory_is_one_line_with_a_value_that_works(folder, memory_gb):
    in_force(Settings(store="s", memory_gb=memory_gb))
    with pytest.raises(BadInput, match=r"^memory_gb=\S+ is too little [^\n]+$") as error:
        joined(folder)
    enough = re.findall(r"give memory_gb=([\d.]+)", str(error.value))
    in_force(Settings(store="s", memory_gb=float(enough[0])))
    assert joined(folder) == IDS.height


def test_a_full_temporary_folder_is_one_line_that_names_it(folder):
    use_limits(0.012, None)
    line = r"^the temporary folder '.+' \(TMPDIR\) has no room .+$"
    with room_for(64 * 1024), pytest.raises(StoreUnwell, match=line):
        ordered(folder)


def test_a_temporary_folder_that_is_gone_is_one_line_that_names_it(folder, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(StoreUnwell, match=r"^the temporary folder '.+/gone' \(TMPDIR\) cannot be written to; .+$"):
        Store.open(folder).ask("SELECT 1 AS one")


FAILING = """
import sys
import polars as pl
from schemas.errors import BadInput
from tasks.runtime.memory import use_limits
from tasks.storage.tables import Store
use_limits(0.01, None)
try:
    frames = (pl.DataFrame({"id": range(n, n + 5_000), "text": "word " * 100}) for n in range(0, 10**5, 5_000))
    [*Store.open(sys.argv[1]).batches("SELECT * FROM texts ORDER BY hash(id)", texts=frames)]
except BadInput:
    raise SystemExit(2)
"""  # fmt: skip


def test_the_process_of_a_join_that_failed_ends(tmp_path):
    """Threads of DuckDB that still ran Python would abort it, or keep it for ever."""
    command = [sys.executable, "-c", FAILING, str(tmp_path / "store")]
    assert subprocess.run(command, cwd=ROOT, timeout=120, check=False, capture_output=True).returncode == 2


def test_what_is_spilled_has_a_bound_that_one_line_names(folder):
    in_force(Settings(store="s", memory_gb=0.012, spill_gb=0.001))
    line = r"^spill_gb=0.001 is too little [^\n]+\(TMPDIR\); give spill_gb=None [^\n]+$"
    with pytest.raises(StoreUnwell, match=line):
        ordered(folder)
