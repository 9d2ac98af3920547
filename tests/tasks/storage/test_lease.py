"""The hold on an object store: renewed while a run writes, ended some minutes after it was killed."""

import threading
import time
from datetime import UTC, datetime, timedelta

import fsspec
import polars as pl
import pytest

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


def test_a_store_is_held_and_free_again_and_nothing_is_left(store):
    with writing(store.root):
        assert store.read_bytes(FILE)
    assert store.fs.find(store.path) == []


def test_who_holds_a_store_writes_no_table_again_that_stays_the_same(store, monkeypatch):
    rows = pl.DataFrame({"source": ["a"], "line": [1], "reason": ["not_json"], "evidence": [""]})
    written, write = [], Store.write_bytes
    with leased(store):
        store.replace("rejects", rows)
        monkeypatch.setattr(Store, "write_bytes", lambda *to: (written.append(to[1]), write(*to))[1])
        assert store.parts("rejects")
        store.replace("rejects", rows)
        assert written == []
        store.replace("rejects", rows.with_columns(line=2))
        assert len(written) == 2 and store.read("rejects")["line"].to_list() == [2]
    assert len(store.fs.find(store.at("tables/rejects"))) == 2


def test_a_hold_that_was_renewed_lately_refuses_and_says_when_it_ends(store):
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


def test_a_run_whose_hold_was_taken_over_stops_and_leaves_the_other_s(store, capsys):
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


def test_a_run_that_stood_still_and_was_not_missed_goes_on(store):
    with leased(store, Terms(renewed_every=600.0, expires_after=600.1, settles_in=0.0)):
        time.sleep(0.2)
        first = store.fs.modified(store.at(FILE))
        store.write_bytes("tables/rejects/parts.json", b"[]")
        assert store.fs.modified(store.at(FILE)) > first
