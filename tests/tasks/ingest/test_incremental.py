"""What was read is not read again; neither bits, rounds, slices nor processes change anything but memory and time."""

import hashlib
import os
import random
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tasks.ingest import assemble, read_logs, read_new
from tasks.ingest.log_files import source_files
from tasks.storage.keyed_ids import KEY_VARIABLE
from tasks.storage.tables import Store
from tests.disk_steps import Killed, ends_at
from tests.tasks.ingest.logs import DAY, chat, image_name, ingested, line, rejected, state, vote, write

TABLES = ("conversations", "battles", "rejects")
HELD_BACK = "quarantine"
RECORDS = [
    chat("a", "Q1", "A1", images=[image_name("p")]), chat("b", "Q1", "B1", images=[image_name("p")]), b"{broken",
    vote("a", "b", at=30), chat("a", "Q1", "A1", "Q2", "A2", at=60, images=[image_name("p")]),
    chat("a", "Q1", "A", at=90, images=[image_name("q")]), b"", chat("c", at=95, has_csam_image=True),
    vote(state("c"), state("d"), at=96), chat("e", "Q", "é" * 50, at=97),
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def one_key():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KEY_VARIABLE, "the key of every store here")
        yield


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


def read_again(tmp_path, **options) -> dict[str, int]:
    logs = tmp_path / "logs"
    return read_new.read_new(Store(str(tmp_path / "store")), source_files(logs), logs, 1, **options)


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


def test_a_file_that_shrank_is_read_anew_once_its_loss_is_accepted(tmp_path):
    write(tmp_path / "logs", DAY, *RECORDS)
    ingested(tmp_path / "logs", tmp_path / "store")
    write(tmp_path / "logs", DAY, *RECORDS[:2])
    counts = read_again(tmp_path, accept_shrunk=True)
    assert (counts["lines"], counts["lines_replaced"]) == (2, len(RECORDS))


def test_a_rewritten_file_is_read_anew_and_its_old_lines_are_gone_once_that_is_accepted(tmp_path):
    write(tmp_path / "logs", DAY, chat("old"), b"{", chat("older"))
    ingested(tmp_path / "logs", tmp_path / "store")
    write(tmp_path / "logs", DAY, chat("new"), chat("newer", "Q" * 1000))
    store = ingested(tmp_path / "logs", tmp_path / "store", accept_shrunk=True)
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


@settings(max_examples=10, suppress_health_check=list(HealthCheck))
@given(cuts=st.lists(st.integers(0, 5000), max_size=4), seed=st.integers(0, 3))
@example(cuts=[1438], seed=3)
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
    # Every id in a half-written flagged line is held back both as a conversation and as an image, and stays so.
    more = bits.read(HELD_BACK).join(whole.read(HELD_BACK), on=["kind", "key"], how="anti")
    assert bits.read(HELD_BACK).height - more.height == whole.read(HELD_BACK).height
    assert set(more["kind"]) <= {"image"} and set(more["key"]) <= set(whole.read(HELD_BACK)["key"])


@pytest.mark.parametrize("step", [("write", r"\.parquet"), ("write", r"parts\.json"), ("remove", r"\.parquet$")])
@pytest.mark.parametrize("number", range(1, 5))
def test_a_run_that_was_killed_anywhere_leaves_no_line_twice(tmp_path, step, number):
    logs = tmp_path / "logs"
    write(logs, DAY, *RECORDS[:4])
    ingested(logs, tmp_path / "store")
    write(logs, DAY, *RECORDS)
    write(logs, "2024-06-21-conv.json", chat("z", at=86400), b"{")
    with suppress(Killed), ends_at(*step, number=number):
        ingested(logs, tmp_path / "store")
    store, expected = ingested(logs, tmp_path / "store"), ingested(logs, tmp_path / "calm")
    for table in ("sightings", HELD_BACK, *TABLES):
        order = expected.read(table).columns[:3]
        assert store.read(table).sort(order).equals(expected.read(table).sort(order)), table


def test_a_file_that_a_killed_run_half_listed_has_no_line_twice_when_it_is_back_later(tmp_path):
    """A run between the two, which does not see the file, forgets nothing of it."""
    logs, other_day = tmp_path / "logs", "2024-06-21-conv.json"
    write(logs, DAY, *RECORDS[:4])
    ingested(logs, tmp_path / "store")
    write(logs, other_day, chat("z", at=86400))
    with suppress(Killed), ends_at("write", r"/log_files/"):
        ingested(logs, tmp_path / "store")
    (logs / other_day).unlink()
    write(logs, DAY, *RECORDS)
    ingested(logs, tmp_path / "store")
    write(logs, other_day, chat("z", at=86400), chat("later", at=86401))
    store, expected = ingested(logs, tmp_path / "store"), ingested(logs, tmp_path / "calm")
    assert store.read("sightings").height == expected.read("sightings").height


def test_rejected_lines_of_a_file_that_lost_others_are_not_counted(tmp_path):
    """What is not read is not rejected either."""
    write(tmp_path / "logs", DAY, chat("a"), chat("b"), b"{")
    ingested(tmp_path / "logs", tmp_path / "store")
    write(tmp_path / "logs", DAY, chat("a"), b"[")
    counts = read_again(tmp_path)
    assert (counts["files_shrunk"], counts["lines"], counts["rejected"]) == (1, 0, 0)


COMPARED = ("sightings", "conversations", "battles", "rejects", "log_files")


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    noise, folder = random.Random(0), tmp_path_factory.mktemp("noise") / "logs"
    for day in (20, 21, 22):
        records = []
        for _ in range(60):
            left, right = f"{noise.randrange(40)}l", f"{noise.randrange(40)}r"
            shown = [image_name(str(noise.randrange(3)))] if noise.random() < 0.5 else None
            at = noise.randrange(3 * 86400)
            records += [chat(left, noise.choice("QR"), images=shown, at=at), vote(left, right, at=at + 9), b"{"]
        write(folder, f"2024-06-{day}-conv.json", *records)
    return folder


@pytest.fixture(scope="module")
def whole(logs, tmp_path_factory):
    """The store of these logs, which tests do not write to."""
    return ingested(logs, tmp_path_factory.mktemp("whole") / "store")


def same(one, other) -> bool:
    return all(_rows(one, table).equals(_rows(other, table)) for table in COMPARED)


def _rows(store, table):
    """All rows of a table, but for what depends on the time of reading or on where the pieces were cut."""
    rows = store.read(table).drop("modified_ns", "texts", strict=False)
    return rows.sort(rows.columns[:3])


def cut_small(monkeypatch, count: int) -> None:
    """Pieces and parts of about `count` bytes."""
    for module in (read_logs, read_new):
        monkeypatch.setattr(module, "LINES_BYTES", count)
        monkeypatch.setattr(module, "LOG_PART_BYTES", count)


@pytest.mark.parametrize("conversations", [3, 11])
def test_parts_of_any_size_hold_the_same_conversations(logs, whole, tmp_path, monkeypatch, conversations):
    monkeypatch.setattr(assemble, "CONVERSATIONS_A_PART", conversations)
    cut = ingested(logs, tmp_path / "cut")
    assert same(whole, cut)
    assert cut.read("conversations").equals(whole.read("conversations"))
    assert len(cut.parts("conversations")) == -(-whole.read("conversations").height // conversations)


@pytest.mark.parametrize("sightings", [1, 7, 100])
def test_sightings_assembled_a_few_at_a_time_make_the_same(logs, whole, tmp_path, monkeypatch, sightings):
    monkeypatch.setattr(assemble, "SIGHTINGS_AT_ONCE", sightings)
    few = ingested(logs, tmp_path / "few")
    assert [few.parts(table) for table in COMPARED[:3]] == [whole.parts(table) for table in COMPARED[:3]]


@pytest.mark.parametrize("piece_bytes", [300, 40_000])
def test_pieces_of_a_file_have_the_line_numbers_of_the_file(logs, whole, tmp_path, monkeypatch, piece_bytes):
    cut_small(monkeypatch, piece_bytes)
    assert same(whole, ingested(logs, tmp_path / "cut"))


def test_other_processes_and_threads_make_the_same(logs, whole, tmp_path, monkeypatch):
    cut_small(monkeypatch, 20_000)
    monkeypatch.setattr(read_new, "BATCHES_ALONE", 1)
    monkeypatch.setattr(assemble, "CONVERSATIONS_A_PART", 50)
    shared = ingested(logs, tmp_path / "shared", workers=2)
    assert same(whole, shared)
    assert len(shared.parts("sightings")) > 2


def test_an_archive_of_any_size_is_read_a_piece_at_a_time(tmp_path, monkeypatch):
    cut_small(monkeypatch, 4_000)
    records = [chat(f"c{n}", "Q" * 200, str(n)) for n in range(200)]
    write(tmp_path / "archive", f"{DAY}.gz", *records, b"{")
    monkeypatch.setattr("tasks.ingest.log_files.READ_BYTES", 3_000)
    store = ingested(tmp_path / "archive", tmp_path / "store")
    assert (store.read("conversations").height, rejected(store)) == (200, {(DAY, 201): "not_json"})
    assert len(store.parts("sightings")) > 10
