"""`curate judge votes` from the command line, on a small store."""

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
