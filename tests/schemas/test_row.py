"""Every declared row is documented, frozen and closed, has an Arrow schema, and can be written and read back."""

import importlib
import io
import pkgutil
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import schemas
from schemas.layout import LAYOUT, layout_lines
from schemas.release import CONFIGS
from schemas.row import (
    Float32,
    FloatVector,
    Int32,
    Row,
    arrow_schema,
    described_columns,
    field_descriptions,
    inner_rows,
)
from schemas.settings import Settings
from schemas.signals import SignalKey
from schemas.tables import SIGNALS, TABLES
from tasks.storage.parquet import conform, encode_parquet
from tasks.storage.tables import frame_of
from tests.schemas.strategies import rows

for _module in pkgutil.iter_modules(schemas.__path__):
    importlib.import_module(f"schemas.{_module.name}")


def _all_rows(base: type[Row] = Row) -> list[type[Row]]:
    found = [each for each in base.__subclasses__() if each.__module__.startswith("schemas.")]
    return found + [deeper for each in found for deeper in _all_rows(each)]


ROWS = sorted(set(_all_rows()), key=lambda row: row.__qualname__)


def test_every_row_says_in_a_sentence_what_it_is():
    said = {row.__name__: (row.__doc__ or "").strip().split("\n")[0] for row in ROWS}
    assert {name: words for name, words in said.items() if not words.endswith(".")} == {}


def test_every_field_says_in_a_sentence_what_it_is():
    fields = [(row, name) for row in ROWS for name in row.model_fields]
    said = {f"{row.__name__}.{name}": field_descriptions(row).get(name, "") for row, name in fields}
    assert {name: words for name, words in said.items() if not words.endswith(".")} == {}


def test_an_arrow_column_says_what_its_field_says():
    schema = arrow_schema(Outer)
    assert {name: schema.field(name).metadata[b"comment"] for name in ("whole", "maybe")} == {
        "whole": b"Whole.",
        "maybe": b"Maybe.",
    }


def test_the_form_of_a_deployment_says_what_each_setting_is():
    form = Settings.model_json_schema()
    fields = {f"{Settings.__name__}.{name}": field for name, field in form["properties"].items()}
    fields |= {
        f"{row}.{name}": f for row, inner in form["$defs"].items() for name, f in inner.get("properties", {}).items()
    }
    assert len(fields) > 100
    assert [name for name, field in fields.items() if not field.get("description", "").endswith(".")] == []


def test_no_row_can_be_given_an_unknown_key():
    for row in ROWS:
        with pytest.raises(ValidationError) as refused:
            row.model_validate({"no_such_key": 1})
        errors = [(each["type"], each["loc"]) for each in refused.value.errors()]
        assert ("extra_forbidden", ("no_such_key",)) in errors, row


def test_no_row_can_be_changed():
    assert [row for row in ROWS if not row.model_config["frozen"]] == []


class Inner(Row):
    """Inner."""

    a: Int32
    """A."""


class Outer(Row):
    """Outer."""

    whole: int
    """Whole."""
    half: Float32
    """Half."""
    maybe: Int32 | None
    """Maybe."""
    vector: FloatVector
    """Vector."""
    inner: list[Inner]
    """Inner."""


def test_arrow_types_are_as_wide_as_the_annotation_says():
    schema = arrow_schema(Outer)
    assert dict(zip(schema.names, schema.types, strict=True)) == {
        "whole": pa.int64(),
        "half": pa.float32(),
        "maybe": pa.int32(),
        "vector": pa.list_(pa.float32()),
        "inner": pa.list_(pa.struct([("a", pa.int32())])),
    }


def test_columns_are_described_by_name_type_sentence():
    assert described_columns(Outer) == [
        ("whole", "int64", "Whole."),
        ("half", "float", "Half."),
        ("maybe", "int32 or null", "Maybe."),
        ("vector", "list of float", "Vector."),
        ("inner", "list of Inner", "Inner."),
    ]


def test_rows_inside_the_columns_of_a_row_are_known():
    assert (inner_rows(Outer), inner_rows(Inner)) == ([Inner], [])


@pytest.mark.parametrize("annotation", [dict[str, int], Any, complex, int | str])
def test_a_field_without_an_arrow_type_is_an_error(annotation):
    broken = type("Broken", (Row,), {"__annotations__": {"field": annotation}})
    with pytest.raises((TypeError, ValueError)):
        arrow_schema(broken)


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


def test_a_table_of_facts_has_the_key_of_facts_before_its_values():
    key = list(SignalKey.model_fields)
    for name, row in SIGNALS.items():
        value = list(row.model_fields)
        assert set(key).isdisjoint(value), name
        assert arrow_schema(TABLES[f"signals/{name}"].row).names == key + value


def test_no_fact_is_a_verdict():
    verdicts = ("keep", "drop", "safe", "unsafe", "allowed", "blocked", "threshold")
    columns = {f"{name}.{column}" for name, value in SIGNALS.items() for column in value.model_fields}
    assert [column for column in columns if column.rpartition(".")[2].startswith(verdicts)] == []


KNOWN = Path(__file__).with_name("layout.txt")


def test_no_table_changes_without_a_thought_about_the_layout_number():
    """A new signal, or a new column of one, changes nothing for stores that exist, and needs no line here."""
    known, now = set(KNOWN.read_text().splitlines()), set(layout_lines())
    came = {line for line in now - known if not line.startswith("signals/")}
    assert (came, known - now) == (set(), set()), (
        f"Stores that exist have the tables of tests/schemas/{KNOWN.name}. If this version cannot read their parts any "
        f"more, raise LAYOUT ({LAYOUT}) in schemas/layout.py, so that they are refused in one line. Then write it "
        f"anew: python -m schemas.layout >tests/schemas/{KNOWN.name}"
    )
