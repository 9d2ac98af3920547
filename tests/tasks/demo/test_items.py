"""The demo's written items: the same bytes for a seed, with planted faults that raters see."""

import csv
import hashlib
import json

from tasks.demo.items import files_of, write_demo_items
from tasks.written_bench.families import load_families
from tasks.written_bench.item_files import read_items


def test_items_are_readable_reproducible_and_planted(tmp_path):
    digests = []
    for name in ("a", "b"):
        write_demo_items(tmp_path / name, 24, 0)
        files = sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
        digests.append([hashlib.sha256(path.read_bytes()).hexdigest() for path in files])
    assert digests[0] == digests[1] and len(digests[0]) == 24 + 2 + 4 + 3  # two items have two pictures
    files = files_of(tmp_path / "a")
    items = read_items(files["items"], load_families())
    assert {item.problem for item in items} == {""} and len({item.family for item in items}) == 11
    faults = {fact["item_id"]: fact["fault"] for fact in map(json.loads, files["expected"].read_text().splitlines())}
    assert sorted(faults.values()) == ["caption"] * 2 + ["reference"] * 4
    rated = list(csv.DictReader(files["raters"].read_text().splitlines()))
    careful = [row for row in rated if row["rater"] in ("ann", "bea")]
    assert all((row["correct"] == "no") == (row["item"] in faults) for row in careful)
    assert {row["correct"] for row in rated if row["rater"] == "dan"} == {"yes"}
