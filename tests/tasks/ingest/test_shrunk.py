"""A log file that lost lines keeps its earlier rows, and holds the release until it is whole or that is accepted."""

import gzip
import random
from collections.abc import Callable, Iterable
from pathlib import Path

import polars as pl
import pytest

from schemas.errors import LogsHeld
from schemas.items.reject import REQUESTS_FILE
from schemas.settings import Settings
from tasks.ingest.shrunk import require_whole, shrunk_files
from tasks.storage.tables import Store
from tasks.takedown.steps import apply_requests
from tests.tasks.ingest.logs import chat, conv_id, ingested, line, vote, write

TABLES = ("sightings", "rejects", "conversations", "battles", "log_files")
EMPTY = (2, 4)
"""Places of the lines that hold nothing."""
Lines = list[bytes]


def lines_of(file: str) -> Lines:
    """Eight lines, whose conversations no other file has."""
    names = {name: f"{file[8:10]}{name}" for name in "abclrst"}
    records = [
        chat(names["a"], "Q1", "A1"), vote(names["l"], names["r"], at=20), b"{broken",
        chat(names["b"], "Q2", "A2", at=30), b"", chat(names["a"], "Q1", "A1", "Q3", "A3", at=40),
        chat(names["c"], "Q4", "A4", at=50), vote(names["s"], names["t"], at=60),
    ]  # fmt: skip
    return [line(record) + b"\n" for record in records]


def put(log: Path, lines: Iterable[bytes]) -> None:
    log.write_bytes(b"".join(lines))


def pack(log: Path, content: bytes) -> None:
    log.unlink()
    log.with_name(f"{log.name}.gz").write_bytes(content)


def _unended(log: Path) -> None:
    log.write_bytes(log.read_bytes().rstrip())


def other_conversation(lines: Lines) -> bytes:
    return b"".join(lines).replace(b"Q4", b"Q5")


LOSING: dict[str, tuple[Callable[[Path, Lines], object], int, int]] = {
    "2024-06-01-conv.json": (lambda log, lines: put(log, lines[:3]), 3, 4),
    "2024-06-02-conv.json": (lambda log, lines: put(log, [*lines[:6], lines[6][:40]]), 7, 2),
    "2024-06-03-conv.json": (lambda log, lines: put(log, []), 0, 6),
    # by a rotation that copies and empties, after which the server went on
    "2024-06-04-conv.json": (lambda log, lines: write(log.parent, log.name, *map(chat, "mnopqrstuvw")), 11, 6),
    "2024-06-05-conv.json": (lambda log, lines: log.write_bytes(other_conversation(lines)), 8, 1),
    # the last state of a conversation, whose first one stays
    "2024-06-06-conv.json": (lambda log, lines: put(log, lines[:5] + lines[6:]), 7, 1),
    "2024-06-07-conv.json": (lambda log, lines: pack(log, gzip.compress(b"".join(lines[:4]))), 4, 3),
    # its last line had no end, was read all the same, and is gone
    "2024-06-08-conv.json": (lambda log, lines: put(log, lines[:-1]), 7, 1),
    "2024-06-09-conv.json": (lambda log, lines: log.write_bytes(lines[7] * 9), 9, 5),
}
"""File -> (what happens to it, its lines then, lines with chats or votes that are gone)."""
KEEPING: dict[str, Callable[[Path, Lines], object]] = {
    "2024-06-11-conv.json": lambda log, lines: log.unlink(),
    "2024-06-12-conv.json": lambda log, lines: pack(log, gzip.compress(b"".join(lines))),
    "2024-06-13-conv.json": lambda log, lines: put(log, [*lines, line(chat("13d", at=90)), b"\n"]),
    "2024-06-14-conv.json": lambda log, lines: put(log, (each for n, each in enumerate(lines) if n not in EMPTY)),
    "2024-06-15-conv.json": lambda log, lines: put(log, reversed(lines)),
    "2024-06-16-conv.json": lambda log, lines: log.write_bytes(b"".join(lines).replace(b'"A4"', b'"another"')),
    "2024-06-17-conv.json": lambda log, lines: (put(log, lines[:4]), put(log.with_suffix(".jsonl"), lines[4:])),
    "2024-06-18-conv.json": lambda log, lines: put(log, lines * 2),
    # a line was flagged late: what it shows is quarantined
    "2024-06-10-conv.json": lambda log, lines: log.write_bytes(
        b"".join(lines).replace(b'{"tstamp": 1718884850.0', b'{"has_csam_image": true, "tstamp": 1718884850.0')
    ),
    # its last line had no end, and became another one
    "2024-06-19-conv.json": lambda log, lines: put(log, [*lines[:-1], lines[-1][:-1], b"x\n"]),
}
"""File -> what happens to it; no chat and no vote is lost."""


def rows_of(store: Store, *sources: str) -> dict[str, pl.DataFrame]:
    """Tables, of some files or of all, with their rows in one order."""
    tables = {name: store.read(name).drop("texts", strict=False) for name in TABLES}
    chosen = pl.col("source").is_in(sources) if sources else pl.lit(value=True)
    return {name: rows.filter(chosen).sort(rows.columns[:3]) for name, rows in tables.items()}


def differing(one: dict[str, pl.DataFrame], other: dict[str, pl.DataFrame]) -> list[str]:
    return [name for name in TABLES if not one[name].equals(other[name])]


@pytest.fixture
def logs(tmp_path, monkeypatch) -> Path:
    """A log folder, for stores with the same key."""
    monkeypatch.setenv("CURATE_USER_KEY", "the key of every store here")
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs"


def test_files_that_lost_lines_keep_their_rows_and_hold_until_they_are_whole_or_the_loss_is_accepted(logs, tmp_path):
    for file in LOSING:
        put(logs / file, lines_of(file))
    _unended(logs / "2024-06-08-conv.json")
    put(logs / "2024-06-20-conv.json", lines_of("2024-06-20-conv.json")[:4])
    before = rows_of(store := ingested(logs, tmp_path / "store"), *LOSING)
    require_whole(store)

    for file, (lose, _, _) in LOSING.items():
        lose(logs / file, lines_of(file))
    put(logs / "2024-06-20-conv.json", lines_of("2024-06-20-conv.json"))
    store = ingested(logs, tmp_path / "store")
    assert differing(before, rows_of(store, *LOSING)) == []
    assert rows_of(store, "2024-06-20-conv.json")["log_files"]["lines"].item() == 8, "other files are read"
    shrunk = {file.source: (file.lines_before, file.lines_now, file.lines_lost) for file in shrunk_files(store)}
    assert shrunk == {file: (8, now, lost) for file, (_, now, lost) in LOSING.items()}
    first = r"log file '2024-06-01-conv.json' had 8 lines and has 3: 4 with chats or votes are gone"
    with pytest.raises(LogsHeld, match=rf"^held before the release: {first}; .*; and 6 more\. .*accept_shrunk=True$"):
        require_whole(store)

    accepted = ingested(logs, tmp_path / "store", accept_shrunk=True)
    require_whole(accepted)
    assert differing(rows_of(accepted), rows_of(ingested(logs, tmp_path / "alone"))) == []
    for file in LOSING:
        logs.joinpath(f"{file}.gz").unlink(missing_ok=True)
        put(logs / file, lines_of(file))
    require_whole(store := ingested(logs, tmp_path / "store", accept_shrunk=True))
    assert rows_of(store, *LOSING)["battles"].height == before["battles"].height


def test_files_that_lost_no_chat_and_no_vote_hold_nothing(logs, tmp_path):
    for file in KEEPING:
        put(logs / file, lines_of(file))
    _unended(logs / "2024-06-19-conv.json")
    before = ingested(logs, tmp_path / "store")
    ids, battles = before.read("conversations")["conversation_id"], before.read("battles").height
    for file, change in KEEPING.items():
        change(logs / file, lines_of(file))
    store = ingested(logs, tmp_path / "store")
    require_whole(store)
    gone = ids.filter(~ids.is_in(store.read("conversations")["conversation_id"].implode()))
    assert gone.sort().to_list() == [conv_id("10c"), conv_id("19s"), conv_id("19t")]
    assert store.read("battles").height == battles - 1, "the vote whose line was not finished"


def test_what_moved_into_a_file_that_is_held_itself_stays_and_a_flag_in_it_counts(logs, tmp_path):
    moved_from, held = "2024-06-20-conv.json", "2024-06-21-conv.json"
    for file in (moved_from, held):
        put(logs / file, lines_of(file))
    before = rows_of(ingested(logs, tmp_path / "store"))
    put(logs / moved_from, lines_of(moved_from)[:4])
    flagged = line(chat("21c", "Q4", "A4", at=50, has_csam_image=True)) + b"\n"
    put(logs / held, [*lines_of(held)[:3], *lines_of(moved_from)[4:], flagged])
    store = ingested(logs, tmp_path / "store")
    assert {file.source: file.lines_lost for file in shrunk_files(store)} == {moved_from: 3, held: 3}
    gone = before["conversations"].join(store.read("conversations"), on="conversation_id", how="anti")
    assert gone["conversation_id"].to_list() == [conv_id("21c")]


def test_a_shrunk_file_that_is_put_back_or_removed_holds_nothing_any_more_and_its_rows_are_as_before(logs, tmp_path):
    files = [f"2024-06-{day}-conv.json" for day in (20, 21, 22)]
    for file in files:
        put(logs / file, lines_of(file))
    before = rows_of(ingested(logs, tmp_path / "store"))
    for file in files[:2]:
        put(logs / file, lines_of(file)[:2])
    ingested(logs, tmp_path / "store")
    store = ingested(logs, tmp_path / "store", since="2024-06-22")
    assert [file.source for file in shrunk_files(store)] == files[:2], "they were not looked at"
    put(logs / files[0], lines_of(files[0]))
    (logs / files[1]).unlink()
    require_whole(store := ingested(logs, tmp_path / "store"))
    assert differing(before, rows_of(store)) in ([], ["log_files"])  # which holds the time of the file


def test_lines_that_a_takedown_named_may_go_and_others_may_not(logs, tmp_path):
    file = "2024-06-20-conv.json"
    lines = lines_of(file)
    put(logs / file, lines)
    store = ingested(logs, tmp_path / "store")
    (logs / REQUESTS_FILE).write_text(f"{conv_id('20b')}\n")
    apply_requests.fn(Settings(store=store.root, logs=str(logs)))
    put(logs / file, lines[:3] + lines[4:])
    require_whole(store := ingested(logs, tmp_path / "store"))
    assert store.read("log_files")["lines"].to_list() == [7]
    put(logs / file, lines[:3] + lines[5:6])
    with pytest.raises(LogsHeld, match="had 7 lines and has 4: 2 with chats or votes are gone"):
        require_whole(ingested(logs, tmp_path / "store"))


def test_of_any_lines_that_go_those_with_a_chat_or_a_vote_are_counted(logs, tmp_path):
    draw, lost = random.Random(57), dict[str, int]()
    for day in range(1, 31):
        put(logs / f"2024-06-{day:02}-conv.json", lines_of(f"2024-06-{day:02}-conv.json"))
    ids = ingested(logs, tmp_path / "store").read("conversations")["conversation_id"].sort()
    for path in sorted(logs.iterdir()):
        gone = draw.sample(range(8), draw.randint(1, 4))
        put(path, (each for n, each in enumerate(lines_of(path.name)) if n not in gone))
        lost[path.name] = len({*gone} - {*EMPTY})
    store = ingested(logs, tmp_path / "store")
    counted = {file.source: file.lines_lost for file in shrunk_files(store)}
    assert counted == {file: count for file, count in lost.items() if count}
    assert len(counted) < 30, "some lost only lines that hold nothing"
    assert ids.equals(store.read("conversations")["conversation_id"].sort())
