"""`curate judge votes` and `sheet` from the command line, on a small store."""

import csv
import json

import polars as pl
import pytest

from tests.voted_store import MODELS, voted

pytestmark = pytest.mark.usefixtures("prefect_server")


def test_the_stand_in_votes_and_is_held_against_people(curate, tmp_path):
    store = voted(tmp_path)
    code, out, err = curate("judge", "votes", "--store", store.root)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "has no votes of a judge; ask for some with --sample N" in err
    code, out, err = curate("judge", "votes", "--store", store.root, "--sample", 9)
    assert (code, out.count("\n")) == (2, 1)  # the path of the record; the images have no text
    assert f"gave a verdict on any of {len(MODELS)} battles" in err
    rows = store.read("judge_votes").with_columns(label=pl.lit("tie"))
    store.replace("judge_votes", rows)
    code, out, err = curate("judge", "votes", "--store", store.root, "--json")
    (row,) = map(json.loads, out.splitlines())
    assert (row["a"], row["b"], row["items"]) == ("people", "embedded stand-in", len(MODELS))


def test_a_sheet_is_written_once_and_read_back(curate, tmp_path):
    store, out = voted(tmp_path), tmp_path / "sheet"
    code, printed, err = curate("judge", "sheet", "--store", store.root, "--per-pair", 5, "--out", out)
    assert (code, printed.strip()) == (0, str(out / "sheet.csv")), err
    rows = list(csv.DictReader((out / "sheet.csv").read_text(encoding="utf-8").splitlines()))
    with (tmp_path / "ann.csv").open("w", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(row | {"label": "tie"} for row in rows)
    code, printed, err = curate("judge", "sheet", "--store", store.root, "--read", tmp_path / "ann.csv", "--json")
    found = list(map(json.loads, printed.splitlines()))
    assert (code, found[0]["b"], found[0]["items"], found[-1]["board"]) == (0, "ann", len(MODELS), "experts"), err
    for wrong, told in (
        ((), "give either --out DIR"),
        (("--out", out), "may be filled in"),
        (("--read", "none.csv"), "cannot be read"),
    ):
        code, printed, err = curate("judge", "sheet", "--store", store.root, *wrong)
        assert (code, printed, err.count("\n")) == (2, "", 1)
        assert told in err
