"""Columns made without `pa.array` are those that it makes, and pandas is not imported for them."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from schemas.conversation import Sighting
from schemas.row import arrow_schema
from tasks.ingest.arrow_columns import column, flags, lists, numbers, strings
from tests.tasks.ingest.logs import DAY, chat, vote, write

TIME = arrow_schema(Sighting).field("tstamp").type
INGEST = """
import sys
from pathlib import Path
from tasks.ingest import read_pieces
from tasks.ingest.assemble_step import assemble_store
from tasks.ingest.formats.detect import source_files
from tasks.ingest.read_step import read_new
from tasks.tables import Store

read_pieces.PIECE_BYTES_MIN = 0
store, logs = Store.open(sys.argv[2]), Path(sys.argv[1])
read_new(store, source_files(logs), logs, 1)
print(*assemble_store(store, 1).values(), "numba" in sys.modules, "pandas" in sys.modules)
"""


def test_numbers_are_as_they_stand_in_memory():
    values = np.arange(12, dtype=np.int64).reshape(6, 2)[:, 1]
    assert numbers(values).equals(pa.array(values.tolist(), pa.int64()))
    assert numbers(values.astype(np.int32)).equals(pa.array(values.tolist(), pa.int32()))
    assert numbers(values, TIME).equals(pa.array(values.tolist(), TIME))


def test_flags_are_null_where_they_are_not_there():
    values, there = np.arange(11) % 2 > 0, np.arange(11) % 3 > 0
    assert flags(values).equals(pa.array(values.tolist()))
    wanted = [value if known else None for value, known in zip(values.tolist(), there, strict=True)]
    assert flags(values, there).equals(pa.array(wanted))


@pytest.mark.parametrize(
    ("values", "kind"),
    [(["a", None, ""], pa.string()), ([None, True, False], pa.bool_()), ([3, 1], pa.int32()), ([7], TIME), ([], TIME)],
)
def test_python_values_become_what_arrow_makes_of_them(values, kind):
    assert column(values, kind).equals(pa.array(values, kind))


def test_lists_hold_consecutive_values_or_are_missing():
    said, missing = strings(["a", "b", None]), np.array([False, True, False])
    assert lists(np.array([2, 0, 1]), said).to_pylist() == [["a", "b"], [], [None]]
    assert lists(np.array([2, 0, 1]), said, missing).to_pylist() == [["a", "b"], None, [None]]


def test_a_log_becomes_conversations_without_pandas(tmp_path):
    write(tmp_path / "logs", DAY, chat("a"), chat("b", images=["x"]), chat("c", at=9) | {"state": "{}"}, vote("a", "b"))
    command = [sys.executable, "-c", INGEST, str(tmp_path / "logs"), str(tmp_path / "store")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", "1", "True", "False"]
