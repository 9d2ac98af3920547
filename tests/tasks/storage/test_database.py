"""Joins keep to the memory and the room that settings give them, and a setting that is too small is one line."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl
import pytest

from flows.running.settings_file import in_force
from schemas.errors import BadInput, StoreUnwell
from schemas.settings import Settings
from schemas.tables import TABLES
from tasks.runtime.memory import use_limits
from tasks.storage.database import BlockFiles, TemporaryDatabase
from tasks.storage.tables import frame_schema
from tests.cut_off import room_for
from tests.places import ROOT

IDS = pl.DataFrame({"id": pl.int_range(100_000, eager=True).hash().cast(pl.String)})


@pytest.fixture(autouse=True)
def usual_limits():
    """What a test sets ends with it."""
    yield
    use_limits(None, None)


def _joined() -> int:
    database = TemporaryDatabase()
    for name in ("left", "right"):
        database.load(name, IDS.iter_slices(10_000))
    return int(database.read('SELECT count(*) FROM "left" JOIN "right" USING (id)').item())


@pytest.mark.parametrize("memory_gb", [1e-9, 0.002, 0.009])
def test_too_little_memory_is_one_line_with_a_value_that_works(memory_gb):
    in_force(Settings(store="s", memory_gb=memory_gb))
    with pytest.raises(BadInput, match=r"^memory_gb=\S+ is too little [^\n]+$") as error:
        _joined()
    enough = re.findall(r"give memory_gb=([\d.]+)", str(error.value))
    in_force(Settings(store="s", memory_gb=float(enough[0])))
    assert _joined() == IDS.height


def test_blocks_are_written_up_to_a_bound_that_one_line_names():
    in_force(Settings(store="s", spill_gb=0.001))
    line = r"^spill_gb=0.001 is too little [^\n]+\(TMPDIR\); give spill_gb=none [^\n]+$"
    with pytest.raises(StoreUnwell, match=line):
        BlockFiles().add("ids", IDS, pl.repeat(0, IDS.height, eager=True))


@pytest.mark.parametrize("work", [_joined, lambda: BlockFiles().add("ids", IDS, pl.repeat(0, IDS.height, eager=True))])
def test_a_full_temporary_folder_is_one_line_that_names_it(work):
    use_limits(0.012, None)
    line = r"^the temporary folder '.+' \(TMPDIR\) has no room .+$"
    with room_for(64 * 1024), pytest.raises(StoreUnwell, match=line):
        work()


def test_a_temporary_folder_that_is_gone_is_one_line_that_names_it(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    for work in (TemporaryDatabase, BlockFiles):
        with pytest.raises(StoreUnwell, match=r"^the temporary folder '.+/gone' \(TMPDIR\) cannot be written to; .+$"):
            work()


FAILING = """
import polars as pl
from schemas.errors import BadInput
from tasks.runtime.memory import use_limits
from tasks.storage.database import TemporaryDatabase
use_limits(0.01, None)
try:
    database = TemporaryDatabase()
    frames = (pl.DataFrame({"id": range(n, n + 5_000), "text": "word " * 100}) for n in range(0, 10**5, 5_000))
    database.load("texts", frames)
    database.run("CREATE TABLE ordered AS SELECT * FROM texts ORDER BY hash(id)")
except BadInput:
    raise SystemExit(2)
"""  # fmt: skip


def test_the_process_of_a_join_that_failed_ends():
    """Threads of DuckDB that still ran Python would abort it, or keep it for ever."""
    command = [sys.executable, "-c", FAILING]
    assert subprocess.run(command, cwd=ROOT, timeout=120, check=False, capture_output=True).returncode == 2


@pytest.mark.parametrize("table", TABLES)
def test_rows_of_every_table_come_back_from_their_block_in_their_order(table):
    schema, files = frame_schema(TABLES[table].row), BlockFiles()
    rows = pl.DataFrame({name: [None] * 5 for name in schema}, schema=schema)
    lists = [name for name, kind in schema.items() if isinstance(kind, pl.List)]
    rows = rows.with_columns(pl.lit([], schema[name]).alias(name) for name in lists[:1])
    for some in (rows[:2], rows[2:2], rows[2:]):
        files.add(table, some, pl.Series([1, 7, 1][: some.height], dtype=pl.UInt32))
    assert files.read(table, 1).equals(rows[:3]) and files.read(table, 1).schema == schema
    assert files.read(table, 7).height == 2 and files.read(table, 0) is None
    first = schema.names()[:1]
    assert files.read(table, 7, first).columns == first


def test_a_block_holds_its_rows_as_they_were_added():
    files = BlockFiles()
    numbered = pl.DataFrame({"n": range(1_000), "text": [f"a\0{n}" for n in range(1_000)]})
    for some in numbered.iter_slices(37):
        files.add("signals/x", some, some["n"] % 3)
    assert all(files.read("signals/x", block).equals(numbered.filter(pl.col("n") % 3 == block)) for block in range(3))


def test_the_files_of_a_database_and_of_blocks_go_with_them(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    database, files = TemporaryDatabase(), BlockFiles()
    files.add("ids", IDS, pl.repeat(0, IDS.height, eager=True))
    assert len([*Path(tmp_path).iterdir()]) == 2
    del database, files
    assert [*tmp_path.iterdir()] == []
