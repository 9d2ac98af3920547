"""Which files are read, and how their bytes become lines."""

import os
import random
from datetime import date
from itertools import pairwise

import pytest
import zstandard

from schemas.errors import BadInput
from tasks.ingest.image_files import image_folders, linked_images
from tasks.ingest.log_files import LINE_BYTES_MAX, READ_BYTES, lines, log_files
from tasks.ingest.shrunk import shrunk_files
from tests.tasks.ingest.logs import DAY, chat, conv_id, ingested, rejected, write

NAMES = [
    "2024-03-11-conv.json", "vision-tmp-2024-06-20-conv.json", "vision-csam-2024-06-20-conv.json",
    "2024-06-21-conv.jsonl", "2024-06-22-conv.json.gz", "2024-06-23-conv.jsonl.zst",
]  # fmt: skip


def test_logs_of_every_name_and_packing_hold_the_same_lines(tmp_path):
    for name in NAMES:
        write(tmp_path, name, {"n": 1}, {"n": 2})
    found = log_files(tmp_path)
    assert {file.path.name for file in found} == set(NAMES)
    assert [file.path.name for file in found if file.csam] == [NAMES[2]]
    for file in found:
        assert list(lines(file)) == [(1, b'{"n": 1}'), (2, b'{"n": 2}')]


@pytest.mark.parametrize(
    "name", ["gradio_web_server.log", "2024-13-40-conv.json", "conv.json", "2024-06-20-conv.json.bak"]
)
def test_other_files_beside_the_logs_are_left_alone(tmp_path, name):
    write(tmp_path, DAY, {})
    write(tmp_path, name, {})
    assert [file.source for file in log_files(tmp_path)] == [DAY]


def test_a_window_holds_both_of_its_ends(tmp_path):
    for day in (18, 19, 20, 21):
        write(tmp_path, f"2024-06-{day}-conv.json", {})
    found = log_files(tmp_path, since=date(2024, 6, 19), until=date(2024, 6, 20))
    assert [file.day.day for file in found if file.day] == [19, 20]


def test_servers_of_any_depth_and_behind_links_are_read_once(tmp_path):
    logs = tmp_path / "logs"
    write(logs, f"eu/server0/{DAY}", {})
    write(tmp_path, f"elsewhere/{DAY}", {})
    (logs / "server1").symlink_to(tmp_path / "elsewhere")
    (logs / "eu" / "round").symlink_to(logs)
    (logs / "eu" / "server0" / "serve_images").mkdir()
    assert [file.source for file in log_files(logs)] == [f"eu/server0/{DAY}", f"server1/{DAY}"]
    assert image_folders(logs) == [logs / "eu" / "server0" / "serve_images"]


def test_an_empty_window_says_what_the_folder_holds(tmp_path):
    write(tmp_path, DAY, {})
    with pytest.raises(BadInput, match="no log file from since=2025-01-01 on; the folder holds 2024-06-20"):
        log_files(tmp_path, since=date(2025, 1, 1))


def test_a_file_and_its_compressed_copy_are_read_once(tmp_path):
    write(tmp_path, DAY, {})
    write(tmp_path, f"{DAY}.gz", {})
    assert [file.path.name for file in log_files(tmp_path)] == [DAY]


def test_a_log_that_was_rotated_into_an_archive_is_not_read_as_a_second_one(tmp_path):
    plain = write(tmp_path / "logs", DAY, chat("a"), b"{")
    before = ingested(tmp_path / "logs", tmp_path / "store").read("conversations")
    plain.unlink()
    write(tmp_path / "logs", f"{DAY}.zst", chat("a"), b"{")
    store = ingested(tmp_path / "logs", tmp_path / "store")
    assert store.read("conversations").equals(before)
    assert rejected(store) == {(DAY, 2): "not_json"}


ROTATED = [".1", ".12", "-20240621", "-2024-06-21", ".2024-06-21", ".1.gz", "-20240621.zst"]


@pytest.mark.parametrize("suffix", ROTATED)
def test_a_log_that_was_rotated_before_any_run_read_it_is_read_once_under_its_first_name(tmp_path, suffix):
    write(tmp_path / "logs", f"{DAY}{suffix}", chat("a"), b"{")
    store = ingested(tmp_path / "logs", tmp_path / "store")
    assert store.read("conversations").height == 1
    assert rejected(store) == {(DAY, 2): "not_json"}


@pytest.mark.parametrize("suffix", ROTATED)
def test_a_log_that_is_rotated_after_a_run_read_it_changes_nothing(tmp_path, suffix):
    plain = write(tmp_path / "logs", DAY, chat("a"), b"{")
    before = ingested(tmp_path / "logs", tmp_path / "store").read("sightings")
    plain.unlink()
    write(tmp_path / "logs", f"{DAY}{suffix}", chat("a"), b"{")
    store = ingested(tmp_path / "logs", tmp_path / "store")
    assert store.read("sightings").sort("line").equals(before.sort("line"))
    assert rejected(store) == {(DAY, 2): "not_json"}


@pytest.mark.parametrize("seed", range(4))
def test_rotations_with_a_new_file_of_the_first_name_lose_and_hold_nothing(tmp_path, seed):
    draw = random.Random(seed)
    logs, names = tmp_path / "logs", [f"{DAY}.{number}" for number in (4, 3, 2, 1)] + [DAY]
    written = set[str]()
    for night in range(4):
        for older, newer in pairwise(names):
            if (logs / newer).exists():
                (logs / newer).replace(logs / older)
        new = [f"c{night}-{number}" for number in range(draw.randint(1, 3))]
        write(logs, DAY, *map(chat, new))
        written |= {conv_id(name) for name in new}
        if draw.random() < 0.6 or night == 3:
            store = ingested(logs, tmp_path / "store")
            assert {*store.read("conversations")["conversation_id"]} == written
            assert shrunk_files(store) == []


def test_of_rotated_files_the_newest_has_the_first_name(tmp_path):
    for suffix in (".10", ".2", ".3.gz"):
        write(tmp_path, DAY + suffix, {})
    assert {file.path.name: file.source for file in log_files(tmp_path)} == {
        f"{DAY}.2": DAY, f"{DAY}.10": f"{DAY}.10", f"{DAY}.3.gz": f"{DAY}.3"
    }  # fmt: skip
    for suffix in ("-20240622", "-20240623"):
        write(tmp_path, "2024-06-21-conv.json" + suffix, {})
    assert [file.source for file in log_files(tmp_path, since=date(2024, 6, 21))] == [
        "2024-06-21-conv.json", "2024-06-21-conv.json-20240622"
    ]  # fmt: skip


@pytest.mark.parametrize("packing", [".gz", ".zst"])
def test_a_cut_off_archive_gives_the_lines_it_still_holds_and_one_reject(tmp_path, packing):
    noise = random.Random(0)
    records = [chat(f"c{n}", noise.randbytes(500).hex()) for n in range(400)]
    path = write(tmp_path / "logs", DAY + packing, *records)
    path.write_bytes(path.read_bytes()[:-20_000])
    store = ingested(tmp_path / "logs", tmp_path / "store")
    read = store.read("conversations").height
    assert 100 < read < 400
    assert rejected(store) == {(DAY, read + 1): "not_json"}


@pytest.mark.parametrize("packing", [".gz", ".zst"])
def test_an_archive_that_is_cut_off_anywhere_is_one_reject_and_never_silent(tmp_path, packing):
    path = write(tmp_path, DAY + packing, {"n": 1}, {"n": 2})
    whole, (file,) = path.read_bytes(), log_files(tmp_path)
    for size in range(1, len(whole)):
        path.write_bytes(whole[:size])
        assert [raw for _, raw in lines(file)][-1].endswith(b"\0")
    path.write_bytes(whole * 2)
    assert len(list(lines(file))) == 4


def test_an_archive_of_several_frames_is_cut_off_where_its_last_one_is(tmp_path):
    noise, packed = random.Random(0).randbytes(400_000).hex().encode(), zstandard.ZstdCompressor(write_checksum=True)
    skipped = (0x184D2A50).to_bytes(4, "little") + (5).to_bytes(4, "little") + b"12345"
    whole = skipped + packed.compress(noise + b"\n" + b"0" * 2**18 + b"\n") + packed.compress(b"last\n")
    path = tmp_path / f"{DAY}.zst"
    path.write_bytes(whole)
    (file,) = log_files(tmp_path)
    assert [raw[:4] for _, raw in lines(file)] == [noise[:4], b"0000", b"last"]
    for cut in (1, 3, 5, 20):
        path.write_bytes(whole[:-cut])
        found = [raw for _, raw in lines(file)]
        assert [raw[:4] for raw in found[:2]] == [noise[:4], b"0000"] and found[-1].endswith(b"\0")


def test_an_archive_that_is_none_is_one_reject(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / f"{DAY}.gz").write_bytes(b"not an archive")
    (tmp_path / "logs" / "2024-06-21-conv.json.zst").write_bytes(b"not an archive")
    store = ingested(tmp_path / "logs", tmp_path / "store")
    assert rejected(store) == {(DAY, 1): "not_json", ("2024-06-21-conv.json", 1): "not_json"}


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_windows_line_ends_and_a_missing_last_one_change_nothing(tmp_path, end):
    path = tmp_path / DAY
    path.write_bytes(b"\r\n".join([b"1", b"", b"2"]) + end)
    (file,) = log_files(tmp_path)
    assert list(lines(file)) == [(1, b"1"), (2, b""), (3, b"2")]


@pytest.mark.parametrize("first", [10, READ_BYTES - 1, READ_BYTES, READ_BYTES + 1])
def test_an_overlong_line_is_skipped_wherever_a_read_ends(tmp_path, first):
    rows = [b"a" * first, b"b" * (LINE_BYTES_MAX + READ_BYTES), b"c" * LINE_BYTES_MAX, b"", b"d" * (LINE_BYTES_MAX + 1)]
    (tmp_path / DAY).write_bytes(b"\n".join(rows) + b"\n")
    (file,) = log_files(tmp_path)
    found = list(lines(file))
    assert [number for number, _ in found] == [1, 2, 3, 4, 5]
    assert [len(raw) > LINE_BYTES_MAX for _, raw in found] == [False, True, False, False, True]
    assert [raw for _, raw in found if len(raw) <= LINE_BYTES_MAX] == [rows[0], rows[2], rows[3]]


def test_images_that_only_file_names_link_are_found_again_when_one_more_was_saved(tmp_path):
    folder = tmp_path / "input_images"
    folder.mkdir()
    for number, stamp in enumerate((10**18, 2 * 10**18)):
        (folder / f"input_image_{'a' * 32}_{number}.5.png").write_bytes(b"")
        os.utime(folder, ns=(stamp, stamp))
        (images,) = linked_images(tmp_path).values()
        assert [seconds for seconds, _ in images] == [0.5, 1.5][: number + 1]
