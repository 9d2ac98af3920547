"""A release after another takes over what both have; each stays whole by itself, also when one is taken down."""

from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from flows.products import parts_of_release
from schemas.settings import Settings
from tasks.release import shards
from tasks.release.shards import shard_files, shard_rows
from tasks.release.verify import verify_release
from tasks.storage.run_record import run_record
from tasks.storage.tables import Store
from tasks.takedown.take_down import take_down
from tests.places import contents
from tests.small_store import make_release

GONE = "c03"


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    """Shards of one to four rows."""
    monkeypatch.setattr(shards, "SHARD_ROWS_MAX", 2)


def _night(store: Store, version: str):
    """A release of a run that is on record."""
    with run_record(store, Settings(store=store.root)) as record:
        record.add(report := make_release(store, release=version))
    return Path(store.at(report.result)), report


def _drop(store: Store) -> None:
    decided = store.read("decisions")
    store.replace("decisions", decided.with_columns(keep=pl.col("keep") & (pl.col("item_id") != GONE)))


def _written(release: Path, earlier: Path) -> set[str]:
    """Files of a release that are not the ones of an earlier release."""
    known = {path.stat().st_ino for path in earlier.rglob("*") if path.is_file()}
    return {str(p.relative_to(release)) for p in release.rglob("*") if p.is_file() and p.stat().st_ino not in known}


@pytest.fixture
def nights(own_store):
    """Two releases; the second one without a conversation of chat."""
    first, _ = _night(own_store, "one")
    _drop(own_store)
    second, report = _night(own_store, "two")
    return first, second, report


def test_a_night_writes_only_the_shards_that_changed(nights):
    first, second, report = nights
    chat = [f"chat/data/{path.name}" for path in shard_files(second, "chat")]
    written = _written(second, first)
    assert len(chat) > 4 and 0 < len(written & {*chat}) <= 2
    assert not {name for name in written if name.startswith("battle/data")}
    assert report.changed[0] == "since one: chat 1 removed"
    files = [path for path in second.rglob("*") if path.is_file() and path.name != "manifest.json"]
    assert report.changed[1].startswith(f"{len(written) - 1} of {len(files)} files are new, ")


def test_it_is_the_release_that_is_written_from_nothing(nights, own_store, tmp_path):
    _, second, _ = nights
    alone = Store(str(tmp_path / "alone"))
    alone.fs.put(f"{own_store.root}/", f"{alone.root}/", recursive=True)
    for place in ("runs", "releases"):
        alone.fs.rm(alone.at(place), recursive=True)
    make_release(alone, release="two")
    assert contents(Path(alone.at("releases/two"))) == contents(second)
    assert verify_release(second, parts_of_release) == []


def test_a_takedown_from_one_release_changes_no_byte_of_the_other(nights, own_store):
    first, second, _ = nights
    before, shared = contents(second), {path.stat().st_ino for path in second.rglob("*")}
    assert any(path.stat().st_ino in shared for path in first.rglob("*.parquet"))
    taken = take_down(own_store, [GONE], [], datetime.now(UTC), dry_run=False)
    assert {"one"} <= {*taken.releases} and "two" not in taken.releases
    assert [path.name for path in first.rglob("*.parquet")] == []
    assert contents(second) == before and verify_release(second, parts_of_release) == []


def test_a_shard_that_was_damaged_since_is_written_anew(own_store):
    first, _ = _night(own_store, "one")
    damaged = shard_files(first, "chat")[0]
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:40] + bytes([whole[40] ^ 1]) + whole[41:])
    _drop(own_store)
    second, _ = _night(own_store, "two")
    assert verify_release(second, parts_of_release) == []
    assert whole in {path.read_bytes() for path in shard_files(second, "chat")}
    assert damaged.read_bytes() != whole


def test_a_bucket_copies_what_both_have_by_itself(own_store, tmp_path, monkeypatch):
    bucket = Store(f"memory://{tmp_path.name}/store")
    bucket.fs.put(f"{own_store.root}/", f"{bucket.path}/", recursive=True)
    sent, put = [], type(bucket.fs).put_file
    monkeypatch.setattr(type(bucket.fs), "put_file", lambda fs, a, b, **k: (sent.append(b), put(fs, a, b, **k))[1])
    for version in ("one", "two"):
        with run_record(bucket, Settings(store=bucket.root)) as record:
            record.add(make_release(bucket, release=version))
        _drop(bucket)
    later = [path.partition("/two/")[2] for path in sent if "/two/" in path]
    there = bucket.fs.find(bucket.at("releases/two"))
    assert len([path for path in there if "chat/data" in path]) > 4
    assert 0 < len([path for path in later if path.startswith("chat/data")]) <= 2
    assert not [path for path in later if path.startswith("battle/data")]


@pytest.mark.parametrize("expected, rows", [(63, 4_096), (100, 4), (1_100, 8), (100_000, 512), (10_000_000, 4_096)])
def test_shards_grow_with_the_release_by_doubling(expected, rows, monkeypatch):
    monkeypatch.undo()
    assert shard_rows(expected) == rows
