"""Every declared row: documented, frozen, closed, and with an Arrow schema."""

import importlib
import pkgutil
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

import schemas
from schemas.row import Float32, FloatVector, Int32, Row, arrow_schema, described_columns, inner_rows

for _module in pkgutil.iter_modules(schemas.__path__):
    importlib.import_module(f"schemas.{_module.name}")


def _all_rows(base: type[Row] = Row) -> list[type[Row]]:
    found = [each for each in base.__subclasses__() if each.__module__.startswith("schemas.")]
    return found + [deeper for each in found for deeper in _all_rows(each)]


ROWS = sorted(set(_all_rows()), key=lambda row: row.__qualname__)


def test_every_row_and_every_field_says_in_a_sentence_what_it_is():
    said = {row.__name__: (row.__doc__ or "").strip().split("\n")[0] for row in ROWS}
    fields = [(row, name, field) for row in ROWS for name, field in row.model_fields.items()]
    said |= {f"{row.__name__}.{name}": (field.description or "").strip() for row, name, field in fields}
    assert {name: words for name, words in said.items() if not words.endswith(".")} == {}


def test_no_row_can_be_changed_or_given_an_unknown_key():
    for row in ROWS:
        with pytest.raises(ValidationError) as refused:
            row.model_validate({"no_such_key": 1})
        errors = [(each["type"], each["loc"]) for each in refused.value.errors()]
        assert ("extra_forbidden", ("no_such_key",)) in errors, row
        assert row.model_config["frozen"], row


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


def test_the_text_under_a_field_is_the_comment_of_its_arrow_column():
    schema = arrow_schema(Outer)
    assert {name: schema.field(name).metadata[b"comment"] for name in ("whole", "maybe")} == {
        "whole": b"Whole.",
        "maybe": b"Maybe.",
    }


def test_columns_are_described_with_the_rows_inside_them():
    assert described_columns(Outer) == [
        ("whole", "int64", "Whole."),
        ("half", "float", "Half."),
        ("maybe", "int32 or null", "Maybe."),
        ("vector", "list of float", "Vector."),
        ("inner", "list of Inner", "Inner."),
    ]
    assert (inner_rows(Outer), inner_rows(Inner)) == ([Inner], [])


@pytest.mark.parametrize("annotation", [dict[str, int], Any, complex, int | str])
def test_a_field_without_an_arrow_type_is_an_error(annotation):
    broken = type("Broken", (Row,), {"__annotations__": {"field": annotation}})
    with pytest.raises((TypeError, ValueError)):
        arrow_schema(broken)
