"""The next run forgets what a visitor of the arena asked for: it is in no table and no release, old or new."""

import shutil
from pathlib import Path

import polars as pl

from schemas.reject import REQUESTS
from tests.builders import USER_KEY
from tests.tasks.ingest.logs import chat, conv_id, write
from tests.tasks.takedown.conftest import files_with


def test_a_request_before_a_run_holds_in_that_run(backfilled, tmp_path, monkeypatch):
    from flows.curate import curate
    from tasks.storage.tables import Store

    monkeypatch.setenv("CURATE_USER_KEY", USER_KEY)
    logs, store = (
        Path(shutil.copytree(place, tmp_path / place.name)) for place in map(Path, (backfilled.logs, backfilled.store))
    )
    (before,) = (store / "releases").iterdir()
    released = pl.read_parquet(before / "chat" / "data" / "*.parquet")["conversation_id"]
    forgotten = next(each for each in released if "-" not in each)
    last = max(path.name for path in logs.glob("*-conv.json"))
    late = last.replace("-conv.json", "-conv.jsonl")
    write(logs, late, chat("late", "A secret of mine?", "It is safe."))
    (logs / REQUESTS).write_text(f"{forgotten}\n{conv_id('late')}\n")
    reports = curate(backfilled.model_copy(update={"logs": str(logs), "store": str(store)}))
    applied = next(report for report in reports if report.stage == "takedown_requests")
    assert (applied.counts["requests"], applied.counts["new"]) == (2, 2)
    assert applied.notes == [f"gone  release STORE/releases/{before.name}; its manifest stays"]
    shutil.rmtree(store / ".prefect", ignore_errors=True)
    assert files_with(Store(str(store)), forgotten, conv_id("late"), "A secret of mine?") == []
    assert Store(str(store)).read("rejects").filter(source=late)["reason"].to_list() == ["taken_down"]
    after = store / reports[-1].result
    kept = pl.read_parquet(after / "chat" / "data" / "*.parquet")["conversation_id"]
    assert after != before and len(kept) > 0 and forgotten not in kept and not (before / "chat").exists()
