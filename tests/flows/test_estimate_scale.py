"""`curate estimate --scale` tells time and room of a first run from its log lines alone."""

import json

from benchmarks.ingest import write_large_log
from tasks.runtime.scale import expected


def test_the_scale_of_a_run_is_told_from_its_logs_and_leaves_no_store(curate, tmp_path):
    logs, store = tmp_path / "logs", tmp_path / "store"
    write_large_log(logs, 300, 150)
    code, out, err = curate("estimate", "--scale", "--json", "--logs", str(logs), "--store", str(store))
    assert code == 0, err
    told, lines = json.loads(out), [line for file in logs.iterdir() for line in file.read_text().splitlines()]
    states = [state for each in map(json.loads, lines) for state in each.get("states") or [each["state"]]]
    turns = {state["conv_id"]: len(state["messages"]) for state in states}  # a later line repeats an earlier one
    assert (told["lines"], told["conversations"]) == (len(lines), len(turns))
    assert told["messages"] <= sum(turns.values()) and told["images"] > 0
    assert not store.exists()


def test_the_scale_of_a_run_without_logs_is_one_clear_line(curate, tmp_path):
    code, _, err = curate("estimate", "--scale", "--store", str(tmp_path / "store"))
    assert code == 2 and "no log folder given; use --logs DIR" in err


def test_hours_fall_with_the_cores_and_memory_grows_with_the_conversations():
    one, two = (expected(9_000, 2_000, 8_000, 1_000, cores) for cores in (1, 2))
    larger = expected(9_000, 2_000_000, 8_000, 1_000, 1)
    assert abs(one.hours - 2 * two.hours) <= 0.02 and two.hours > 0
    assert larger.peak_mb > one.peak_mb and larger.disk_mb == one.disk_mb
