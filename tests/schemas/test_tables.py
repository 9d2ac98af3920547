"""Rows of every table and signal can be written and read back."""

import io
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.layout import LAYOUT, layout_lines
from schemas.release import CONFIGS
from schemas.row import arrow_schema
from schemas.signals import SignalKey
from schemas.tables import SIGNALS, TABLES
from tasks.storage.parquet import conform, encode_parquet
from tasks.storage.tables import frame_of
from tests.schemas.strategies import rows

STORED = {name: table.row for name, table in TABLES.items()} | {f"release {name}": row for name, row in CONFIGS.items()}


@pytest.mark.parametrize("name", STORED)
@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_rows_survive_parquet(name, data):
    row = STORED[name]
    written = data.draw(st.lists(rows(row), max_size=3))
    content = encode_parquet(conform(frame_of(row, written), arrow_schema(row)))
    read = pl.from_arrow(pq.read_table(io.BytesIO(content)))
    assert [row.model_validate(each) for each in read.to_dicts()] == written


def test_descriptions_survive_parquet():
    for name, row in STORED.items():
        schema = arrow_schema(row)
        read = pq.read_schema(io.BytesIO(encode_parquet(schema.empty_table())))
        for field in schema:
            assert read.field(field.name).type == field.type, name
            assert read.field(field.name).metadata[b"comment"] == field.metadata[b"comment"] != b"", name


def test_a_table_is_sorted_by_columns_it_has():
    for name, table in TABLES.items():
        assert table.sort, name
        assert set(table.sort) <= set(arrow_schema(table.row).names), name


def test_a_stored_fact_says_what_it_is_about_and_where_it_comes_from():
    key = list(SignalKey.model_fields)
    for name, row in SIGNALS.items():
        value = list(row.model_fields)
        assert set(key).isdisjoint(value), name
        assert arrow_schema(TABLES[f"signals/{name}"].row).names == key + value


def test_no_value_of_a_signal_is_a_verdict():
    verdicts = ("keep", "drop", "safe", "unsafe", "allowed", "blocked", "threshold")
    columns = {f"{name}.{column}" for name, value in SIGNALS.items() for column in value.model_fields}
    assert [column for column in columns if column.rpartition(".")[2].startswith(verdicts)] == []


KNOWN = Path(__file__).with_name("layout.txt")


def test_a_changed_table_is_noticed_and_its_layout_number_considered():
    """A new signal, or a new column of one, changes nothing for stores that exist, and needs no line here."""
    known, now = set(KNOWN.read_text().splitlines()), set(layout_lines())
    came = {line for line in now - known if not line.startswith("signals/")}
    assert (came, known - now) == (set(), set()), (
        f"Stores that exist have the tables of tests/schemas/{KNOWN.name}. If this version cannot read their parts any "
        f"more, raise LAYOUT ({LAYOUT}) in schemas/layout.py, so that they are refused in one line. Then write it "
        f"anew: python -m schemas.layout >tests/schemas/{KNOWN.name}"
    )
