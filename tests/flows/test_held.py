"""`curate release` ends in one line and writes nothing: log files lost lines, little is measured, a name identifies."""

import json
from pathlib import Path

import polars as pl
import pytest

from schemas.items.conversation import ShrunkFile
from tasks.ingest.shrunk import note_shrunk
from tasks.storage.queries.released import mark_decided
from tasks.storage.tables import Store
from tests.small_store import MODELS, small_store

pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.fixture
def store(tmp_path) -> Store:
    return small_store(tmp_path)


def _held(store: Store, curate, *arguments: object) -> str:
    """The line with which a release is held; nothing was written, and the run's record has the line."""
    status, _, err = curate("release", "--store", store.root, *arguments)
    (line,) = [line for line in err.splitlines() if line.startswith("curate: ")]
    assert (status, list(Path(store.root).glob("releases/*/manifest.json"))) == (3, [])
    record = json.loads(max((Path(store.root) / "runs").iterdir()).read_text())
    assert (record["state"], f"curate: {record['error']}", record["run"]) == ("held", line, "release")
    return line


def test_a_shrunk_log_file_holds_the_release_and_status_says_so(store, curate, tmp_path):
    file = ShrunkFile(source="2024-06-20-conv.json", lines_before=72, lines_now=20, lines_lost=52)
    note_shrunk(store, tmp_path, [], [file])
    line = _held(store, curate)
    assert "log file '2024-06-20-conv.json' had 72 lines and has 20: 52 with chats or votes are gone" in line
    assert "Put the whole file back" in line and "--accept-shrunk" in line
    waiting = [json.loads(row) for row in curate("status", store.root, "--json")[1].splitlines()]
    due = {row["what"]: (row["count"], row["next"]) for row in waiting if row["table"] == "waiting"}
    assert due["log files that lost lines"] == (1, "put them back whole, then curate run")
    assert due["the last run, which is held"][0] == 1


def test_most_items_without_a_needed_signal_hold_the_release_though_no_provider_was_chosen(store, curate):
    """As after an upgrade, whose embedded models have other versions, before anything is measured anew."""
    unmeasured = pl.lit(["unmeasured_nsfw", "unmeasured_text_pii"])
    store.replace("decisions", store.read("decisions").with_columns(reasons=unmeasured, keep=False))
    count = store.height("decisions")
    line = _held(store, curate)
    assert (
        f"{count} of {count} items are unmeasured by nsfw=embedded, text_pii=embedded; run `curate run` first" in line
    )


def test_a_model_that_names_somebody_ends_the_release_with_what_to_rename(store, curate):
    named = pl.col("model").replace(MODELS[1], "ft:gpt-4o:acme:jane.model15@posteo.net:9x")
    store.replace("conversations", store.read("conversations").with_columns(named))
    mark_decided(store)
    status, _, err = curate("release", "--store", store.root)
    (line,) = [line for line in err.splitlines() if line.startswith("curate: ")]
    assert (status, list(Path(store.root).glob("releases/*/manifest.json"))) == (2, [])
    assert "nothing was released: model " in line and "`renames` of the policy" in line and "jane" not in line
