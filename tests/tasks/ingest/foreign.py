"""Rows of other people's formats, invented by rule with a seed, and how a file of them is read.

rows = with_each_null(WILDCHAT_ROW, NULLABLE)
store = ingested(put_rows(tmp_path / "data", rows, "parquet"), tmp_path / "store")
assert_conserved(store, len(rows))
"""

import csv
import json
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.storage.tables import Store

Row = dict[str, Any]
WORDS = ["tide", "moon", "heron", "salt", "map", "boat", "wren", "kite", "soup", "bell"]


def sentence(random: random.Random, words: int = 5) -> str:
    """A text that no other call with this generator is likely to give."""
    return " ".join(random.choices(WORDS, k=words)) + f" {random.getrandbits(32):08x}"


def with_each_null(row: Callable[[int], Row], nullable: Sequence[str]) -> list[Row]:
    """A row without nulls, and one for each nullable column, in which it is null; `row` makes the row of a number."""
    rows = [row(0)]
    for number, column in enumerate(nullable, 1):
        rows.append(row(number) | {column: None})
    return rows


def put_rows(folder: Path, rows: Iterable[Row], kind: str) -> Path:
    """A folder with one file of these rows: parquet, arrow, csv, jsonl, array, printed, or list as an API gives it."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = list(rows)
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), folder / "rows.parquet")
    elif kind == "arrow":
        table = pa.Table.from_pylist(rows)
        with pa.ipc.new_file(folder / "rows.arrow", table.schema) as sink:
            sink.write_table(table)
    elif kind == "csv":
        with (folder / "rows.csv").open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        texts = {
            "jsonl": lambda: "".join(json.dumps(row) + "\n" for row in rows),
            "array": lambda: json.dumps(rows),
            "printed": lambda: "\n".join(json.dumps(row, indent=2) for row in rows),
            "list": lambda: json.dumps({"object": "list", "data": rows, "first_id": "a", "has_more": False}),
        }
        (folder / f"rows.{'jsonl' if kind == 'jsonl' else 'json'}").write_text(texts[kind](), encoding="utf-8")
    return folder


def assert_conserved(store: Store, rows: int) -> None:
    """Every input row is in sightings or in rejects, and none in both."""
    read = set(store.read("sightings").select("source", "line").iter_rows())
    rejected = list(store.read("rejects").drop_nulls("line").select("source", "line").iter_rows())
    assert len(rejected) == len(set(rejected))
    assert read.isdisjoint(rejected)
    assert {line for _, line in [*read, *rejected]} == set(range(1, rows + 1))
