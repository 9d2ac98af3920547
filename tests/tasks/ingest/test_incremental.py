"""What was read is not read again, and reading bit by bit ends where reading at once does."""

import hashlib
import os
import random
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.ingest import read_new
from tasks.ingest.formats.data_files import source_files
from tasks.storage.keyed_ids import KEY_VARIABLE
from tasks.storage.tables import Store
from tests.tasks.ingest.logs import DAY, chat, image_name, ingested, line, rejected, state, vote, write

TABLES = ("conversations", "battles", "rejects", "quarantine")
RECORDS = [
    chat("a", "Q1", "A1", images=[image_name("p")]),
    chat("b", "Q1", "B1", images=[image_name("p")]),
    b"{broken",
    vote("a", "b", at=30),
    chat("a", "Q1", "A1", "Q2", "A2", at=60, images=[image_name("p")]),
    chat("a", "Q1", "A", at=90, images=[image_name("q")]),
    b"",
    chat("c", at=95, has_csam_image=True),
    vote(state("c"), state("d"), at=96),
    chat("e", "Q", "é" * 50, at=97),
]


@pytest.fixture(autouse=True)
def one_key(monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, "the key of every store here")


def files_of(store: Path) -> dict[str, str]:
    """Every part of the tables that later stages read, by content."""
    return {
        f"{table}/{path.name}": hashlib.md5(path.read_bytes()).hexdigest()
        for table in ("conversations", "battles")
        for path in (store / "tables" / table).iterdir()
    }


def test_the_same_logs_twice_give_the_same_bytes_and_read_nothing(tmp_path):
    write(tmp_path / "logs", DAY, *RECORDS)
    ingested(tmp_path / "logs", tmp_path / "store")
    before = {path: path.read_bytes() for path in (tmp_path / "store" / "tables").rglob("*.parquet")}
    ingested(tmp_path / "logs", tmp_path / "store")
    assert before == {path: path.read_bytes() for path in (tmp_path / "store" / "tables").rglob("*.parquet")}
    counts = read_again(tmp_path)
    assert (counts["files_read"], counts["lines"]) == (0, 0)


def read_again(tmp_path) -> dict[str, int]:
    return read_new.read_new(Store(str(tmp_path / "store")), source_files(tmp_path / "logs"), tmp_path / "logs", 1)


def test_an_unchanged_file_is_not_even_opened(tmp_path):
    path = write(tmp_path / "logs", DAY, *RECORDS)
    ingested(tmp_path / "logs", tmp_path / "store")
    stamp = path.stat()
    path.write_bytes(b"x" * stamp.st_size)
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert read_again(tmp_path)["lines"] == 0


def test_a_grown_file_costs_its_new_lines(tmp_path):
    write(tmp_path / "logs", DAY, *RECORDS[:7])
    ingested(tmp_path / "logs", tmp_path / "store")
    write(tmp_path / "logs", DAY, *RECORDS)
    counts = read_again(tmp_path)
    assert (counts["lines"], "lines_replaced" in counts) == (len(RECORDS) - 7, False)


def test_a_file_that_shrank_is_read_anew(tmp_path):
    write(tmp_path / "logs", DAY, *RECORDS)
    ingested(tmp_path / "logs", tmp_path / "store")
    write(tmp_path / "logs", DAY, *RECORDS[:2])
    counts = read_again(tmp_path)
    assert (counts["lines"], counts["lines_replaced"]) == (2, len(RECORDS))


def test_a_rewritten_file_is_read_anew_and_its_old_lines_are_gone(tmp_path):
    write(tmp_path / "logs", DAY, chat("old"), b"{", chat("older"))
    ingested(tmp_path / "logs", tmp_path / "store")
    write(tmp_path / "logs", DAY, chat("new"), chat("newer", "Q" * 1000))
    store = ingested(tmp_path / "logs", tmp_path / "store")
    write(tmp_path / "alone", DAY, chat("new"), chat("newer", "Q" * 1000))
    assert store.read("conversations").equals(ingested(tmp_path / "alone", tmp_path / "other").read("conversations"))
    assert rejected(store) == {}


def masked(record: dict) -> dict:
    """The record with an answer of the same length."""
    record["state"]["messages"][1][1] = "y" * len(record["state"]["messages"][1][1])
    return record


@pytest.mark.parametrize(("count", "rewritten"), [(1000, range(300, 600)), (2000, [1234]), (100, [50])])
def test_a_file_rewritten_in_the_middle_at_the_same_length_that_also_grew_is_read_anew(tmp_path, count, rewritten):
    """Much of a large file, or one line; the beginning and the end of what was read stay."""
    lines = [chat(f"c{n:04d}", "What is this?", "x" * 200, at=n) for n in range(count)]
    write(tmp_path / "logs", DAY, *lines)
    ingested(tmp_path / "logs", tmp_path / "store")
    grown = [masked(each) if n in rewritten else each for n, each in enumerate(lines)] + [chat("more", at=9000)]
    write(tmp_path / "logs", DAY, *grown)
    assert read_again(tmp_path)["lines"] == count + 1


def test_a_line_that_a_server_was_still_writing_is_read_again_when_it_is_whole(tmp_path):
    half = line(chat("b"))[:-20]
    write(tmp_path / "logs", DAY, chat("a"), half, end=b"")
    assert rejected(ingested(tmp_path / "logs", tmp_path / "store")) == {(DAY, 2): "not_json"}
    write(tmp_path / "logs", DAY, chat("a"), chat("b"))
    store = ingested(tmp_path / "logs", tmp_path / "store")
    assert (rejected(store), store.read("conversations").height) == ({}, 2)


@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(cuts=st.lists(st.integers(0, 5000), max_size=4), seed=st.integers(0, 3))
def test_reading_bit_by_bit_ends_where_reading_at_once_does(tmp_path_factory, cuts, seed):
    folder = tmp_path_factory.mktemp("cuts")
    records = random.Random(seed).sample(RECORDS, len(RECORDS))
    content = write(folder / "logs", DAY, *records).read_bytes()
    whole = ingested(folder / "logs", folder / "whole")
    for cut in sorted({min(cut, len(content)) for cut in cuts} | {len(content)}):
        (folder / "logs" / DAY).write_bytes(content[:cut])
        bits = ingested(folder / "logs", folder / "bits")
    assert files_of(folder / "bits") == files_of(folder / "whole")
    for table in TABLES:
        order = whole.read(table).columns
        assert bits.read(table).sort(order[:3]).equals(whole.read(table).sort(order[:3])), table


@pytest.mark.parametrize("step", ["write_part", "list_parts", "replace"])
@pytest.mark.parametrize("survived", range(4))
def test_a_run_that_was_killed_anywhere_leaves_no_line_twice(tmp_path, monkeypatch, step, survived):
    logs = tmp_path / "logs"
    write(logs, DAY, *RECORDS[:4])
    ingested(logs, tmp_path / "store")
    write(logs, DAY, *RECORDS)
    write(logs, "2024-06-21-conv.json", chat("z", at=86400), b"{")
    calls, whole = iter(range(100)), getattr(Store, step)

    def killed(self, *given):
        if next(calls) >= survived:
            raise KeyboardInterrupt
        return whole(self, *given)

    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(Store, step, killed)
        ingested(logs, tmp_path / "store")
    store, expected = ingested(logs, tmp_path / "store"), ingested(logs, tmp_path / "calm")
    for table in ("sightings", *TABLES):
        order = expected.read(table).columns[:3]
        assert store.read(table).sort(order).equals(expected.read(table).sort(order)), table
