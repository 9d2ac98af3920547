"""A full disk or a store out of reach ends a run with one line, and the next run goes on."""

import os

import polars as pl
import pytest

from flows.running.one_writer import one_writer
from schemas.errors import StoreUnwell
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.storage.queries.documents import on_disk
from tasks.storage.tables import Store
from tests.cut_off import room_for
from tests.s3_server import s3_here


def _rejects(source: str, count: int) -> pl.DataFrame:
    rows = {"source": [source] * count, "line": range(count), "reason": "not_json", "evidence": ""}
    return pl.DataFrame(rows | {"evidence": [os.urandom(16).hex() for _ in range(count)]})


@one_writer
def _stage(settings: Settings) -> list[StageReport]:
    """Adds a small part and then a large one."""
    store = Store.open(settings.store)
    if not store.parts("rejects"):
        store.append("rejects", _rejects("small", 3))
    store.append("rejects", _rejects("large", 20_000))
    return [StageReport(stage="ingest")]


def test_a_full_disk_is_one_line_and_loses_nothing_and_the_next_run_goes_on(tmp_path):
    settings, store = Settings(store=str(tmp_path / "store")), Store(str(tmp_path / "store"))
    with (
        room_for(64 * 1024),
        pytest.raises(StoreUnwell, match=r"^store '.*' has no room left \(File too large\); [^\n]*$"),
    ):
        _stage(settings)
    assert set(store.read("rejects")["source"]) == {"small"}
    assert list(tmp_path.rglob("*.tmp")) == []
    _stage(settings)
    assert store.read("rejects").height == 20_003


def test_a_temporary_folder_without_room_for_vectors_is_one_line(tmp_path):
    @one_writer
    def topics(_: Settings) -> list[StageReport]:
        on_disk(1_000, 512)
        return []

    with (
        room_for(64 * 1024),
        pytest.raises(StoreUnwell, match=r"the temporary folder '.*' \(TMPDIR\) has no room left; [^\n]*$"),
    ):
        topics(Settings(store=str(tmp_path / "store")))


def test_a_store_that_goes_out_of_reach_is_one_line():
    @one_writer
    def cut_off(settings: Settings) -> list[StageReport]:
        store = Store.open(settings.store)
        store.append("rejects", _rejects("first", 3))
        server.kill()
        server.wait()
        store.append("rejects", _rejects("second", 3))
        return []

    with (
        s3_here("arena") as server,
        pytest.raises(StoreUnwell, match=r"^store 's3://arena/store' cannot be reached \([A-Za-z ]+\); [^\n]*$"),
    ):
        cut_off(Settings(store="s3://arena/store"))
