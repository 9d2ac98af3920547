"""A release after another takes over what both have; each stays whole by itself, also when one is taken down."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from benchmarks.release_rows import written_share
from flows.products import parts_of_release
from schemas.policy import policy_hash
from schemas.release import Manifest
from schemas.settings import Settings
from tasks.bench.steps import draw_bench
from tasks.providers import Providers
from tasks.release import shards
from tasks.release.build import EarlierRelease, staging_folder
from tasks.release.shards import shard_files, shard_rows
from tasks.release.steps import unchanged_release
from tasks.release.verify import verify_release
from tasks.storage.content_id import text_id
from tasks.storage.keyed_ids import UNFINISHED
from tasks.storage.queries.released import mark_decided
from tasks.storage.records import run_record
from tasks.storage.tables import Store
from tasks.takedown.take_down import take_down
from tasks.topics.steps import find_topics
from tests.builders import (
    NOON,
    VERSIONS,
    conversation,
    counted_tokens,
    decision,
    drawn_image,
    image,
    measure_clean,
    store_with,
)
from tests.places import contents
from tests.small_store import POLICY, make_release

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


def test_a_release_stays_while_nothing_changes_that_it_is_made_from(own_store):
    _, report = _night(own_store, "one")
    settings = Settings(store=own_store.root, release="one")
    kept = unchanged_release(settings, VERSIONS)
    assert (kept.result, kept.counts) == (report.result, report.counts | {"new": 0})
    assert unchanged_release(settings.model_copy(update={"seed": 1}), VERSIONS) is None
    assert unchanged_release(settings, {**VERSIONS, "nsfw": "2"}) is None
    own_store.write_bytes(UNFINISHED, b"{}")
    assert unchanged_release(settings, VERSIONS) is None
    own_store.fs.rm_file(own_store.at(UNFINISHED))
    assert unchanged_release(settings, VERSIONS) == kept
    _drop(own_store)
    assert unchanged_release(settings, VERSIONS) is None


def test_a_night_writes_only_what_changed_and_a_takedown_from_one_release_changes_no_byte_of_the_other(
    own_store, tmp_path
):
    first, _ = _night(own_store, "one")
    _drop(own_store)
    second, report = _night(own_store, "two")
    chat = [f"chat/data/{path.name}" for path in shard_files(second, "chat")]
    written = _written(second, first)
    assert len(chat) > 4 and 0 < len(written & {*chat}) <= 2
    assert not {name for name in written if name.startswith("battle/data")}
    assert report.changed[0] == "since one: chat 1 removed"
    files = [path for path in second.rglob("*") if path.is_file() and path.name != "manifest.json"]
    assert report.changed[1].startswith(f"{len(written) - 1} of {len(files)} files are new, ")
    alone = Store(str(tmp_path / "alone"))
    alone.fs.put(f"{own_store.root}/", f"{alone.root}/", recursive=True)
    for place in ("runs", "releases"):
        alone.fs.rm(alone.at(place), recursive=True)
    make_release(alone, release="two")
    assert contents(Path(alone.at("releases/two"))) == contents(second)
    assert verify_release(second, parts_of_release) == []
    before, shared = contents(second), {path.stat().st_ino for path in second.rglob("*")}
    assert any(path.stat().st_ino in shared for path in first.rglob("*.parquet"))
    taken = take_down(own_store, [GONE], [], datetime.now(UTC), dry_run=False)
    assert {"one"} <= {*taken.releases} and "two" not in taken.releases
    assert [path.name for path in first.rglob("*.parquet")] == []
    assert contents(second) == before and verify_release(second, parts_of_release) == []


@pytest.mark.parametrize("place", ["folder", "bucket"])
def test_a_shard_that_was_damaged_since_is_written_anew(own_store, tmp_path, place):
    store = own_store if place == "folder" else _bucket(own_store, tmp_path)
    _night(store, "one")
    damaged = sorted(store.fs.find(store.at("releases/one/chat/data")))[0]
    whole = store.fs.cat_file(damaged)
    broken = whole[:40] + bytes([whole[40] ^ 1]) + whole[41:]
    store.fs.pipe_file(damaged, broken)
    _drop(store)
    _night(store, "two")
    store.fs.get(f"{store.at('releases/two')}/", f"{tmp_path}/two/", recursive=True)
    assert verify_release(tmp_path / "two", parts_of_release) == []
    assert whole in {path.read_bytes() for path in shard_files(tmp_path / "two", "chat")}
    assert store.fs.cat_file(damaged) == broken


@pytest.mark.parametrize("place", ["folder", "bucket"])
@pytest.mark.parametrize("shard", ["same rows", "other rows"])
def test_a_shard_that_was_lost_since_is_written_anew(own_store, tmp_path, place, shard):
    store = own_store if place == "folder" else _bucket(own_store, tmp_path)
    first, _ = _night(own_store, "one")
    if store is not own_store:
        _night(store, "one")
    holds = {GONE in pl.read_parquet(path)["conversation_id"]: path.name for path in shard_files(first, "chat")}
    lost = store.at(f"releases/one/chat/data/{holds[shard == 'other rows']}")
    store.fs.rm_file(lost)
    _drop(store)
    _night(store, "two")
    store.fs.get(f"{store.at('releases/two')}/", f"{tmp_path}/two/", recursive=True)
    assert verify_release(tmp_path / "two", parts_of_release) == []
    assert not store.fs.exists(lost)


@pytest.mark.parametrize("place", ["folder", "bucket"])
def test_no_altered_file_of_an_earlier_release_comes_into_the_next(own_store, tmp_path, place):
    store = own_store if place == "folder" else _bucket(own_store, tmp_path)
    _night(store, "one")
    for path in store.fs.find(store.at("releases/one")):
        if not path.endswith("manifest.json"):
            content = store.fs.cat_file(path)
            store.fs.pipe_file(path, content[:-1] + bytes([content[-1] ^ 1]))
    _drop(store)
    _night(store, "two")
    store.fs.get(f"{store.at('releases/two')}/", f"{tmp_path}/two/", recursive=True)
    assert verify_release(tmp_path / "two", parts_of_release) == []


def test_a_bucket_copies_no_altered_shard_that_another_version_of_its_rows_equals(own_store, tmp_path):
    store = _bucket(own_store, tmp_path)
    _night(store, "one")
    manifest = Manifest.model_validate_json(store.read_bytes("releases/one/manifest.json"))
    earlier = EarlierRelease(store, manifest, "")
    path = next(name for name in sorted(manifest.shards) if name.startswith("chat/"))
    store.write_bytes(f"releases/one/{path}", b"altered")
    assert not earlier.copied(manifest.files[path], store.at("releases/two/shard.parquet"))
    assert not store.fs.exists(store.at("releases/two/shard.parquet"))


def _bucket(store: Store, tmp_path: Path) -> Store:
    """A copy of the store on an object store."""
    bucket = Store(f"memory://{tmp_path.name}/store")
    bucket.fs.put(f"{store.root}/", f"{bucket.path}/", recursive=True)
    return bucket


def test_a_bucket_copies_what_both_have_by_itself(own_store, tmp_path, monkeypatch):
    bucket = _bucket(own_store, tmp_path)
    sent, put, read, get = [], MemoryFileSystem.put_file, [], MemoryFileSystem.get_file
    monkeypatch.setattr(MemoryFileSystem, "put_file", lambda fs, a, b, **k: (sent.append(b), put(fs, a, b, **k))[1])
    monkeypatch.setattr(MemoryFileSystem, "get_file", lambda fs, a, b, **k: (read.append(a), get(fs, a, b, **k))[1])
    for version in ("one", "two"):
        with run_record(bucket, Settings(store=bucket.root)) as record:
            record.add(make_release(bucket, release=version))
        _drop(bucket)
    later = [path.partition("/two/")[2] for path in sent if "/two/" in path]
    there = bucket.fs.find(bucket.at("releases/two"))
    assert len([path for path in there if "chat/data" in path]) > 4
    assert 0 < len([path for path in later if path.startswith("chat/data")]) <= 2
    assert not [path for path in later if path.startswith("battle/data")]
    assert sent[-1].endswith("two/manifest.json")
    shards = [path for path in bucket.fs.find(bucket.at("releases/one")) if re.search("/data/train-.*[1-9]-of", path)]
    assert {*shards} <= {*read} and len(read) == len({*read})  # each of the earlier release once
    assert not staging_folder(bucket).with_suffix(".earlier").exists()


def _measured(folder: Path, count: int) -> Store:
    """A decided store of so many chats of five subjects, each with an image of its own; from the 601st of a new day."""
    random, subjects = np.random.default_rng(0), ("giraffe", "receipt", "triangle", "kettle", "harbour")
    shown = [drawn_image(n, (96, 72)) for n in range(count)]
    chats = [
        conversation(
            f"c{n:03d}", f"{subjects[n % 5]} {n}", f"Answer {n}.", image_ids=[each.image_id], user_id=text_id(f"{n}"),
            tstamp=NOON + timedelta(days=n // 600, minutes=n % 600),
        )
        for n, each in enumerate(shown)
    ]  # fmt: skip
    vectors = np.eye(8)[np.arange(count) % 5] + random.normal(scale=0.05, size=(count, 8))
    units = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).tolist()
    prompts = {chat.prompt_id: {"vector": unit} for chat, unit in zip(chats, units, strict=True)}
    decided = [decision(chat).model_copy(update={"policy_hash": policy_hash(POLICY)}) for chat in chats]
    store = store_with(folder, conversations=chats, images=map(image, shown), decisions=decided)
    pictures = {each.image_id: {"vector": [1.0, 0.0]} for each in shown}
    measure_clean(store, chats, text_embedding=prompts, image_embedding=pictures, tokens=counted_tokens(chats))
    store.write_bytes(f"policies/{policy_hash(POLICY)}.json", POLICY.model_dump_json().encode())
    mark_decided(store)
    return store


def test_a_night_of_one_in_a_hundred_writes_at_most_fifteen_in_a_hundred_bytes(tmp_path, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(shards, "FEW", 64)
    places = []
    for count in (600, 606):
        store, settings = _measured(tmp_path, count), Settings(store=str(tmp_path / "store"))
        find_topics.fn(settings, Providers(), VERSIONS)
        draw_bench.fn(settings, VERSIONS)
        places.append(_night(store, f"of-{count}")[0])
    assert store.read("topics").filter(pl.col("topic") >= 0)["topic"].n_unique() >= 5
    assert 0 < written_share(*places) <= 0.15


@pytest.mark.parametrize("expected, rows", [(0, 4_096), (2_047, 4_096), (2_048, 16), (100_000, 512), (10**7, 4_096)])
def test_shards_grow_with_the_release_by_doubling(expected, rows, monkeypatch):
    monkeypatch.undo()
    assert shard_rows(expected) == rows
