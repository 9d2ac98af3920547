"""JSON of other tools is read as what it says: numbers that JSON lacks, arrays, and the tables of pandas."""

import io
import json
import math
import random

import orjson
import pandas
import pytest

from tasks.runtime import json_rows as module
from tasks.runtime.json_rows import loads, raw_rows

ROWS = [{"n": n, "text": f'a "NaN" \\ [{{\n é 🪁 {n}', "list": [{"x": None}, []]} for n in range(5)]


def rows_of(content: bytes | str):
    raw = content.encode() if isinstance(content, str) else content
    return [loads(row) for row in raw_rows(io.BufferedReader(io.BytesIO(raw))) if row.strip()]


def odd_value(draw: random.Random, depth: int = 3):
    """Drawn values with everything that Python's `json` writes and JSON lacks."""
    leaves = [math.nan, math.inf, -math.inf, "NaN", '"Infinity" \\', "\ud83d", "\\ud83d", "🪁", 1.5, None, True]
    if depth == 0 or draw.random() < 0.3:
        return draw.choice(leaves)
    if draw.random() < 0.5:
        return [odd_value(draw, depth - 1) for _ in range(draw.randrange(4))]
    return {draw.choice(["NaN", "-Infinity", "k", '"']): odd_value(draw, depth - 1) for _ in range(draw.randrange(4))}


def plain(value):
    """The same as JSON has it."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.replace("\ud83d", "\ufffd") if isinstance(value, str) else value


@pytest.mark.parametrize("seed", range(30))
def test_all_that_pythons_json_writes_is_read_and_texts_stay(seed):
    value = odd_value(random.Random(seed))
    assert loads(json.dumps(value)) == plain(value)


@pytest.mark.parametrize("text", ["NaNa", "[NaN", '{"a": "NaN}', "nan", "--Infinity", '"\\uD83D', "1e999", "[" * 9999])
def test_what_is_no_json_still_is_none(text):
    with pytest.raises(orjson.JSONDecodeError):
        loads(text)


def test_a_broken_line_with_many_escaped_quotes_takes_no_time():
    with pytest.raises(orjson.JSONDecodeError):
        loads(b'{"state": "' + b'{\\"a\\": ' * 200_000)


FRAME = pandas.DataFrame(ROWS)
SHAPES = {
    "lines": "\n".join(map(json.dumps, ROWS)),
    "lines with a mark": "\ufeff" + "\n".join(map(json.dumps, ROWS)),
    "array": json.dumps(ROWS),
    "array over lines": json.dumps(ROWS, indent=2, ensure_ascii=False),
    "array with a mark": "\ufeff \n" + json.dumps(ROWS, indent="\t"),
    "array with an object a line": "[\n" + ",\n".join(map(json.dumps, ROWS)) + "\n]\n",
    "array of PostgreSQL": "[" + ", \n ".join(map(json.dumps, ROWS)) + "]",
    "array that is not closed": "[\n" + "".join(f"{json.dumps(row)},\n" for row in ROWS),
    **{
        f"pandas {orient}": FRAME.to_json(orient=orient) for orient in ("columns", "records", "index", "split", "table")
    },
    "pandas lines": FRAME.to_json(orient="records", lines=True),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("read", [7, 2**18])
def test_a_file_of_every_shape_has_the_same_rows(monkeypatch, shape, read):
    monkeypatch.setattr(module, "_READ_BYTES", read)
    rows = rows_of(SHAPES[shape].replace("\ufeff", "") if shape == "lines with a mark" else SHAPES[shape])
    assert [{name: row[name] for name in ROWS[0]} for row in rows] == ROWS


@pytest.mark.parametrize("indent", [None, 1, 2, 4, "\t"])
def test_a_broken_element_costs_itself_alone(indent):
    rows = [json.dumps(row, indent=indent) for row in ROWS]
    rows[2] = rows[2].replace('"list": ', '"list" ')
    space = " " * indent if isinstance(indent, int) else indent or ""
    text = "[\n" + ",\n".join(f"{row}".replace("\n", f"\n{space}") if indent else row for row in rows) + "\n]"
    text = "\n".join(f"{space}{line}" if line.startswith("{") else line for line in text.split("\n"))
    found = []
    for raw in raw_rows(io.BufferedReader(io.BytesIO(text.encode()))):
        try:
            found.append(loads(raw)["n"])
        except orjson.JSONDecodeError:
            found.append("broken")
    assert found == [0, 1, "broken", 3, 4]


@pytest.mark.parametrize(
    "line", ['{"a": {"0": 1}, "b": 2}', '{"index": [1], "b": 2}', '{"7": {"x": 1}, "b": 3}', "[1]"]
)
def test_a_line_that_begins_like_a_table_is_a_line(line):
    assert rows_of(f"{line}\n{line}\n") == [json.loads(line)] * 2


def test_a_table_that_is_too_large_is_lines(monkeypatch):
    monkeypatch.setattr(module, "TABLE_BYTES_MAX", 20)
    raw = FRAME.to_json().encode()
    assert b"".join(raw_rows(io.BufferedReader(io.BytesIO(raw)))) == raw
