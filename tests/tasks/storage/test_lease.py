"""The hold on a store: one process writes at a time; on an object store it is renewed, and ends after a kill."""

import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import fsspec
import polars as pl
import pytest
from fsspec.implementations.memory import MemoryFile

from schemas.errors import StoreBusy, StoreUnwell
from tasks.storage.lock import Terms, leased, writing
from tasks.storage.tables import Store
from tests.waiting import wait_until

QUICK = Terms(renewed_every=0.02, expires_after=600.0, settles_in=0.2)
FILE = "writing.lock"


@pytest.fixture
def store():
    yield Store("memory://bucket/store")
    fsspec.filesystem("memory").store.clear()


def _left_behind(store: Store, minutes_ago: float) -> None:
    store.write_bytes(FILE, b"2026-01-01 00:00:00 UTC somebody")
    store.fs.store[store.at(FILE)].modified = datetime.now(UTC) - timedelta(minutes=minutes_ago)


def test_who_writes_holds_the_store(store):
    with writing(store.root):
        assert store.read_bytes(FILE)


def test_a_hold_that_ended_leaves_nothing(store):
    with writing(store.root):
        pass
    assert store.fs.find(store.path) == []


def test_who_holds_a_store_writes_no_table_again_that_stays_the_same(store):
    rows = pl.DataFrame({"source": ["a"], "line": [1], "reason": ["not_json"], "evidence": [""]})
    with leased(store):
        store.replace("rejects", rows)
        written = {path: store.fs.store[path].modified for path in store.fs.find(store.at("tables"))}
        store.replace("rejects", rows)
        assert {path: store.fs.store[path].modified for path in store.fs.find(store.at("tables"))} == written


def test_who_holds_a_store_replaces_a_table_that_changes(store):
    rows = pl.DataFrame({"source": ["a"], "line": [1], "reason": ["not_json"], "evidence": [""]})
    with leased(store):
        store.replace("rejects", rows)
        store.replace("rejects", rows.with_columns(line=2))
        assert store.read("rejects")["line"].to_list() == [2]
    assert len(store.fs.find(store.at("tables/rejects"))) == 2


def test_a_hold_that_was_renewed_lately_refuses_with_the_time_it_ends(store):
    _left_behind(store, minutes_ago=9)
    with (
        pytest.raises(
            StoreBusy, match=r"since 2026-01-01 00:00:00 UTC; .* killed, its hold ends by itself 10 minutes after it"
        ),
        leased(store),
    ):
        pass
    assert b"somebody" in store.read_bytes(FILE)


def test_a_killed_run_s_hold_is_taken_over_when_it_has_expired(store):
    _left_behind(store, minutes_ago=11)
    with leased(store, QUICK):
        assert b"somebody" not in store.read_bytes(FILE)


def test_a_hold_that_was_taken_over_ends_with_its_run(store):
    _left_behind(store, minutes_ago=11)
    with leased(store, QUICK):
        pass
    assert store.read_bytes(FILE) is None


def test_of_several_that_take_over_at_once_one_succeeds(store):
    _left_behind(store, minutes_ago=11)
    held, refused = [], []

    def take() -> None:
        try:
            with leased(store, QUICK):
                held.append(1)
                wait_until(lambda: len(held) + len(refused) == 4)
        except StoreBusy:
            refused.append(1)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(held), len(refused)) == (1, 3)


def test_a_run_renews_its_hold(store):
    with leased(store, QUICK):
        first = store.fs.modified(store.at(FILE))
        wait_until(lambda: store.fs.modified(store.at(FILE)) > first)


def test_a_run_whose_hold_was_taken_over_stops_without_touching_the_other_s(store, capsys):
    with pytest.raises(KeyboardInterrupt), leased(store, QUICK):
        store.write_bytes(FILE, b"another")
        until = time.monotonic() + 60
        while time.monotonic() < until:  # one long sleep would not be interrupted
            time.sleep(0.01)
    assert store.read_bytes(FILE) == b"another"
    assert "has taken store 'memory://bucket/store' over; this one stops" in capsys.readouterr().err


@pytest.mark.parametrize("left", [b"another", None])
def test_a_run_that_stood_still_until_another_took_over_writes_nothing_more(store, left):
    asleep = Terms(renewed_every=600.0, expires_after=600.1, settles_in=0.0)
    with leased(store, asleep):
        store.write_bytes("tables/rejects/parts.json", b"[]")
        store.write_bytes(FILE, left) if left else store.fs.rm_file(store.at(FILE))
        time.sleep(0.2)
        with pytest.raises(StoreUnwell, match="was taken over by another run while this one stood still"):
            store.write_bytes("tables/rejects/parts.json", b"[1]")
    assert store.read_bytes("tables/rejects/parts.json") == b"[]"
    assert store.read_bytes(FILE) == left
    store.write_bytes("tables/rejects/parts.json", b"[2]")  # and the next run may


def test_a_run_that_stood_still_until_another_took_over_deletes_none_of_its_parts(store):
    """It stands still between a list of its own and the deletion of what that list replaced."""
    rows = pl.DataFrame({"source": ["a"], "line": [1], "reason": ["not_json"], "evidence": [""]})
    with leased(store, Terms(renewed_every=600.0, expires_after=600.1, settles_in=0.0)):
        store.append("rejects", rows)
        store.write_bytes(FILE, b"another")
        part_of_other = store.at("tables/rejects/0123.parquet")
        store.fs.pipe_file(part_of_other, b"of the other")
        time.sleep(0.2)
        with pytest.raises(StoreUnwell, match="was taken over by another run while this one stood still"):
            store.purge("rejects")
    assert store.fs.exists(part_of_other)


def test_a_run_that_is_interrupted_because_its_hold_was_taken_over_writes_nothing_more(store, capsys):
    with leased(store, QUICK):
        store.write_bytes("tables/rejects/parts.json", b"[]")
        store.write_bytes(FILE, b"another")
        with pytest.raises(KeyboardInterrupt):
            wait_until(lambda: False)
        with pytest.raises(StoreUnwell, match="was taken over by another run"):
            store.write_bytes("tables/rejects/parts.json", b"[1]")
    assert store.read_bytes("tables/rejects/parts.json") == b"[]"
    assert capsys.readouterr().err.count("over; this one stops") == 1


class _Silent(MemoryFile):
    """A file that the object store does not give."""

    def getbuffer(self) -> memoryview:
        raise TimeoutError("no answer")


def test_a_run_that_stood_still_writes_nothing_before_its_store_says_who_holds_it(store):
    with leased(store, Terms(renewed_every=600.0, expires_after=600.1, settles_in=0.0)):
        store.write_bytes("tables/rejects/parts.json", b"[]")
        store.fs.store[store.at(FILE)] = _Silent(store.fs, store.at(FILE), b"another")
        time.sleep(0.2)
        with pytest.raises(TimeoutError):
            store.write_bytes("tables/rejects/parts.json", b"[1]")
    assert store.read_bytes("tables/rejects/parts.json") == b"[]"


def test_a_hold_whose_file_is_no_text_refuses_in_one_line(store):
    store.write_bytes(FILE, b"\xff")
    with pytest.raises(StoreBusy, match="another run has been writing to store"), leased(store):
        pass


def test_a_run_that_noticed_the_loss_itself_is_not_interrupted_for_it_as_well(store, capsys):
    with leased(store, Terms(renewed_every=0.5, expires_after=0.6, settles_in=0.0)):
        store.write_bytes(FILE, b"another")
        time.sleep(0.2)
        with pytest.raises(StoreUnwell, match="was taken over by another run while this one stood still"):
            store.write_bytes("tables/rejects/parts.json", b"[1]")
        time.sleep(0.6)  # the next renewal would have been due
    assert capsys.readouterr().err == ""


def test_a_run_that_stood_still_unnoticed_goes_on(store):
    with leased(store, Terms(renewed_every=600.0, expires_after=600.1, settles_in=0.0)):
        time.sleep(0.2)
        first = store.fs.modified(store.at(FILE))
        store.write_bytes("tables/rejects/parts.json", b"[]")
        assert store.fs.modified(store.at(FILE)) > first


ROOT = Path(__file__).parents[3]
HOLD = """
import sys, time
from tasks.storage.lock import writing
with writing(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def other_process(tmp_path):
    """Another process that holds the store."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def _hold(root: str) -> None:
    with writing(root):
        pass


def test_a_second_process_is_refused_with_the_time_the_first_began(other_process, tmp_path):
    with pytest.raises(
        StoreBusy, match=r"another run has been writing to store '.*' since 20.* UTC; wait for it to end"
    ):
        _hold(str(tmp_path))


def test_a_killed_process_holds_nothing(other_process, tmp_path):
    other_process.send_signal(signal.SIGKILL)
    other_process.wait()
    with writing(str(tmp_path)) as store:
        assert b"UTC" in store.read_bytes("writing.since")


def test_a_flow_and_its_stages_hold_the_store_together(tmp_path, other_process):
    root = str(tmp_path / "own")
    with writing(root), writing(root):
        _hold(root)
    _hold(root)
    assert list((tmp_path / "own").rglob("writing.since")) == []


@pytest.mark.parametrize("name", ["writing.since", "writing.lock"])
def test_a_run_ends_well_when_somebody_has_deleted_a_file_of_its_hold(tmp_path, name):
    with writing(str(tmp_path)) as store:
        store.write_bytes("runs/x.json", b"{}")
        (tmp_path / name).unlink()
    assert not [*tmp_path.glob("writing.*")]


def test_after_an_error_the_store_is_free(tmp_path):
    with pytest.raises(RuntimeError), writing(str(tmp_path)):
        raise RuntimeError
    done = subprocess.run(
        [sys.executable, "-c", HOLD.replace("time.sleep(60)", ""), str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "held\n", done.stderr
