"""Values of Parquet and Arrow files of any type are read as Arrow itself gives them."""

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from schemas.errors import BadInput
from tasks.ingest.log_files import table_rows

_PLAIN_TYPES = (
    pa.string(), pa.large_string(), pa.bool_(), pa.int8(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(),
    pa.null(),
)  # fmt: skip
_OTHER_TYPES = (
    pa.timestamp("us", tz="UTC"), pa.timestamp("ms"), pa.date32(), pa.binary(), pa.decimal128(9, 2), pa.duration("s"),
    pa.map_(pa.string(), pa.int64()), pa.dictionary(pa.int32(), pa.string()),
)  # fmt: skip


def _drawn_type(drawn: random.Random, depth: int = 0) -> pa.DataType:
    kinds = ["plain", "plain", "other", "list", "large list", "fixed list", "object"] if depth < 3 else ["plain"]
    kind = drawn.choice(kinds)
    if kind == "plain":
        return drawn.choice(_PLAIN_TYPES)
    if kind == "other":
        return drawn.choice(_OTHER_TYPES)
    if kind == "object":
        return pa.struct([(f"field_{n}", _drawn_type(drawn, depth + 1)) for n in range(drawn.randint(1, 3))])
    inner_type = _drawn_type(drawn, depth + 1)
    return {"list": pa.list_, "large list": pa.large_list, "fixed list": lambda inner: pa.list_(inner, 2)}[kind](
        inner_type
    )


def _drawn_value(drawn: random.Random, of_type: pa.DataType) -> Any:
    if drawn.random() < 0.2 or pa.types.is_null(of_type):
        return None
    if pa.types.is_struct(of_type):
        return {field.name: _drawn_value(drawn, field.type) for field in of_type}
    if pa.types.is_map(of_type):
        return [(f"key {number}", number) for number in range(drawn.randint(0, 3))]
    if pa.types.is_fixed_size_list(of_type):
        return [_drawn_value(drawn, of_type.value_type) for _ in range(2)]
    if pa.types.is_list(of_type) or pa.types.is_large_list(of_type):
        return [_drawn_value(drawn, of_type.value_type) for _ in range(drawn.randint(0, 3))]
    instant = datetime(2024, 6, 20, tzinfo=UTC) + timedelta(seconds=drawn.randrange(10**8))
    values: dict[str, Any] = {
        "bool": drawn.random() < 0.5,
        "int8": drawn.randint(-128, 127),
        "int64": drawn.randint(-(2**63), 2**63 - 1),
        "uint64": drawn.randint(0, 2**64 - 1),
        "float": drawn.choice([0.1, -1e30, float("inf")]),
        "double": drawn.choice([0.1, -1e300, float("-inf")]),
        "timestamp[us, tz=UTC]": instant,
        "timestamp[ms]": instant.replace(tzinfo=None),
        "date32[day]": instant.date(),
        "binary": drawn.randbytes(3),
        "decimal128(9, 2)": Decimal(drawn.randint(-(10**6), 10**6)).scaleb(-2),
        "duration[s]": timedelta(seconds=drawn.randrange(10**6)),
    }
    return values.get(str(of_type), drawn.choice(["", "a word", "zero \0 byte", "日本語 😀", "x" * 300]))


def _drawn_table(seed: int) -> pa.Table:
    drawn = random.Random(seed)
    column_types = {f"column_{number}": _drawn_type(drawn) for number in range(12)}
    columns = {
        name: pa.array([_drawn_value(drawn, column_type) for _ in range(600)], column_type)
        for name, column_type in column_types.items()
    }
    return pa.table(columns)


@pytest.mark.parametrize("seed", range(6))
def test_values_of_every_type_are_those_that_arrow_gives(tmp_path, seed):
    table = _drawn_table(seed)
    with pa.OSFile(str(tmp_path / "rows.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as stream:
        stream.write_table(table)
    expected = table.to_pylist(maps_as_pydicts="strict")
    assert list(table_rows(tmp_path / "rows.arrow", image_bytes=True)) == expected


@pytest.mark.parametrize("within", ["a column", "a list", "an object in a list"])
def test_a_text_that_is_no_utf8_is_one_line_that_names_the_file(tmp_path, within):
    texts = pa.array([b"a word", b"\xff\xfe", None]).view(pa.string())
    if within != "a column":
        elements = texts if within == "a list" else pa.StructArray.from_arrays([texts], ["content"])
        texts = pa.ListArray.from_arrays([0, 1, 3], elements)
    pq.write_table(pa.table({"messages": texts}), tmp_path / "rows.parquet")
    with pytest.raises(BadInput, match=r"data file 'rows\.parquet' cannot be read"):
        list(table_rows(tmp_path / "rows.parquet", image_bytes=True))
