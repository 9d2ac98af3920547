"""Cutting the work up, in rounds, slices, pieces and processes, changes nothing but memory and time."""

import random

import pytest

from tasks.ingest import assemble, read_logs, read_new
from tasks.storage.keyed_ids import KEY_VARIABLE
from tests.tasks.ingest.logs import DAY, chat, image_name, ingested, rejected, vote, write

TABLES = ("sightings", "conversations", "battles", "rejects", "log_files")


@pytest.fixture
def logs(tmp_path, monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, "the key of every store here")
    noise = random.Random(0)
    for day in (20, 21, 22):
        records = []
        for _ in range(60):
            left, right = f"{noise.randrange(40)}l", f"{noise.randrange(40)}r"
            shown = [image_name(str(noise.randrange(3)))] if noise.random() < 0.5 else None
            at = noise.randrange(3 * 86400)
            records += [chat(left, noise.choice("QR"), images=shown, at=at), vote(left, right, at=at + 9), b"{"]
        write(tmp_path / "logs", f"2024-06-{day}-conv.json", *records)
    return tmp_path / "logs"


def same(one, other) -> bool:
    return all(_rows(one, table).equals(_rows(other, table)) for table in TABLES)


def _rows(store, table):
    """All rows of a table, but for what depends on the time of reading or on where the pieces were cut."""
    rows = store.read(table).drop("modified_ns", "texts", strict=False)
    return rows.sort(rows.columns[:3])


def cut_small(monkeypatch, count: int) -> None:
    """Pieces and parts of about `count` bytes."""
    for module in (read_logs, read_new):
        monkeypatch.setattr(module, "PIECE_BYTES", count)
        monkeypatch.setattr(module, "PART_BYTES", count)


@pytest.mark.parametrize("conversations", [3, 11])
def test_parts_of_any_size_hold_the_same_conversations(logs, tmp_path, monkeypatch, conversations):
    whole = ingested(logs, tmp_path / "whole")
    monkeypatch.setattr(assemble, "ROWS_A_PART", conversations)
    cut = ingested(logs, tmp_path / "cut")
    assert same(whole, cut)
    assert cut.read("conversations").equals(whole.read("conversations"))
    assert len(cut.parts("conversations")) == -(-whole.read("conversations").height // conversations)


@pytest.mark.parametrize("sightings", [1, 7, 100])
def test_sightings_assembled_a_few_at_a_time_make_the_same(logs, tmp_path, monkeypatch, sightings):
    whole = ingested(logs, tmp_path / "whole")
    monkeypatch.setattr(assemble, "ROWS_AT_ONCE", sightings)
    few = ingested(logs, tmp_path / "few")
    assert [few.parts(table) for table in TABLES[:3]] == [whole.parts(table) for table in TABLES[:3]]


@pytest.mark.parametrize("piece_bytes", [300, 40_000])
def test_pieces_of_a_file_have_the_line_numbers_of_the_file(logs, tmp_path, monkeypatch, piece_bytes):
    whole = ingested(logs, tmp_path / "whole")
    cut_small(monkeypatch, piece_bytes)
    assert same(whole, ingested(logs, tmp_path / "cut"))


def test_other_processes_and_threads_make_the_same(logs, tmp_path, monkeypatch):
    whole = ingested(logs, tmp_path / "whole")
    cut_small(monkeypatch, 20_000)
    monkeypatch.setattr(read_new, "BATCHES_ALONE", 1)
    monkeypatch.setattr(assemble, "ROWS_A_PART", 50)
    shared = ingested(logs, tmp_path / "shared", workers=2)
    assert same(whole, shared)
    assert len(shared.parts("sightings")) > 2


def test_an_archive_of_any_size_is_read_a_piece_at_a_time(logs, tmp_path, monkeypatch):
    cut_small(monkeypatch, 4_000)
    records = [chat(f"c{n}", "Q" * 200, str(n)) for n in range(200)]
    write(tmp_path / "archive", f"{DAY}.gz", *records, b"{")
    monkeypatch.setattr("tasks.ingest.log_files.READ_BYTES", 3_000)
    store = ingested(tmp_path / "archive", tmp_path / "store")
    assert (store.read("conversations").height, rejected(store)) == (200, {(DAY, 201): "not_json"})
    assert len(store.parts("sightings")) > 10
