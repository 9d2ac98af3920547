"""What a server flagged is found in every place, spelling and format, and never opened."""

import gzip
import json
import os
import sys
import time

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from tasks.ingest import read_new
from tasks.ingest.log_files import LINE_BYTES_MAX, READ_BYTES
from tasks.ingest.quarantine import ids_in, line_is_flagged
from tests.tasks.ingest.logs import DAY, chat, conv_id, image_name, ingested, line, rejected, served, state, vote, write
from tests.tasks.ingest.test_formats import ROWS

BAD = image_name("bad")
FLAG = {"has_csam_image": True}
YES = [True, 1, "maybe", "yes", "true", [False, True], {"found": 1}, {"by": "scan", "found": False}, -1.5, 1e-9]
NO = [False, None, 0, 0.0, "", " ", "false", "No", "0", "none", [], {}, [False, None], {"found": False}]
KINDS = {
    **{kind: chat("bad", kind=kind, images=[BAD]) for kind in ("chat", "upvote", "downvote", "flag")},
    **{
        kind: vote(state("bad", images=[BAD]), "b", kind)
        for kind in ("leftvote", "rightvote", "tievote", "bothbad_vote", "share")
    },
    "unknown": chat("bad", kind="load", images=[BAD]),
}


def states_of(record: dict) -> list[dict]:
    return record.get("states") or [record["state"]]


def changed(record: dict, **more) -> dict:
    return json.loads(line(record)) | more


def in_state(record: dict, **more) -> dict:
    record = json.loads(line(record))
    states_of(record)[-1].update(more)
    return record


def in_message(record: dict, part) -> dict:
    record = json.loads(line(record))
    states_of(record)[0]["messages"].append(["user", part])
    return record


PLACES = {
    "the record": lambda record: changed(record, **FLAG),
    "a state": lambda record: in_state(record, **FLAG),
    "gen_params": lambda record: changed(record, gen_params=FLAG),
    "deep in objects and lists": lambda record: changed(record, a={"b": [[1, {"c": [FLAG]}]]}),
    "a message": lambda record: in_message(record, FLAG),
    "a picture of a message": lambda record: in_message(record, ["What?", [FLAG]]),
    "one more state": lambda record: changed(record, more=state("more", **FLAG)),
    "stringified gen_params": lambda record: changed(record, gen_params=json.dumps(FLAG)),
    "a string in a string": lambda record: changed(record, gen_params=json.dumps([json.dumps(json.dumps(FLAG))])),
    "stringified states": lambda record: changed(
        record, **{key: json.dumps([json.dumps(each) for each in states_of(in_state(record, **FLAG))])
                   for key in ("state", "states") if key in record}
    ),
}  # fmt: skip
SPELLINGS = {
    "as usual": lambda raw: raw,
    "without spaces": lambda raw: json.dumps(json.loads(raw), separators=(",", ":")).encode(),
    "with an escape": lambda raw: raw.replace(b"has_csam_image", b"has_csam\\u005fimage"),
    "with escapes alone": lambda raw: raw.replace(
        b"has_csam_image", b"".join(b"\\u%04X" % letter for letter in b"has_csam_image")
    ),
    "beside other letters": lambda raw: raw.replace(b"{", b'{"\\u00e9": "\\u00A0", ', 1),
    "no before yes": lambda raw: raw.replace(b'"has_csam_image":', b'"has_csam_image": false, "has_csam_image":'),
    "yes before no": lambda raw: raw.replace(b'"has_csam_image": true', b'"has_csam_image": 1, "has_csam_image": null'),
    "in a broken line": lambda raw: raw[:-1] + b", ]",
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_flag_is_found_in_every_record_at_every_place_in_every_spelling(kind):
    for place, flagged in PLACES.items():
        raw = line(flagged(KINDS[kind]))
        for spelling, spelled in SPELLINGS.items():
            assert line_is_flagged(spelled(raw)), (place, spelling)
            conversations, images = ids_in(spelled(raw))
            assert BAD in images and conv_id("bad") in conversations, (place, spelling)


@pytest.mark.parametrize("value", YES, ids=repr)
def test_whatever_is_not_a_plain_no_is_a_yes(value):
    assert line_is_flagged(line(chat("a") | {"gen_params": {"has_csam_image": value}}))
    assert line_is_flagged(line(chat("a") | {"gen_params": json.dumps({"has_csam_image": value})}))


UNITS = [
    b"\\", b"\\u005c", b"u005c", b'"{', b"has_csam_image", b"\\u00cc", b"c_s-a ", b"c" + b" " * 40, b"sexual/",
    b"csam\\",
]  # fmt: skip


@pytest.mark.parametrize("unit", UNITS, ids=repr)
def test_a_line_that_is_made_to_take_long_does_not(unit):
    hostile = b'{"a": "\\' + unit * (2_000_000 // len(unit))
    started = time.process_time()
    for raw in (hostile, hostile + b'"}'):
        line_is_flagged(raw)
        ids_in(raw)
    assert time.process_time() - started < 5


def flagged_lines() -> list[bytes]:
    """One flagged line for every place and spelling, of all record types in turn."""
    kinds = list(KINDS.values())
    made = [
        spelled(line(place(kinds[number % len(kinds)])))
        for number, (place, spelled) in enumerate((p, s) for p in PLACES.values() for s in SPELLINGS.values())
    ]
    return [raw for raw in made if b"\n" not in raw]


@pytest.mark.parametrize(
    ("megabytes", "packing"), [(0, ""), (5, ""), (20, ""), (0, ".gz"), (20, ".gz"), (0, ".zst"), (20, ".zst")]
)
def test_flags_are_found_in_logs_of_every_size_and_packing(tmp_path, megabytes, packing):
    """Files of more than 4, 8 and 16 MB were or are read in other ways than small ones."""
    padding = [chat(f"c{number}", "Q", os.urandom(500_000).hex()) for number in range(megabytes)]
    flagged = flagged_lines()
    content = b"\n".join([*map(line, padding), *flagged, line(chat("good")), *map(line, padding[:1]), b""])
    (tmp_path / "logs").mkdir()
    packed = {".gz": lambda raw: gzip.compress(raw, 1), ".zst": zstandard.ZstdCompressor(1).compress}
    (tmp_path / "logs" / (DAY + packing)).write_bytes(packed[packing](content) if packing else content)
    write(tmp_path / "logs", "2024-06-21-conv.json", chat("other", images=[BAD]))
    store = ingested(tmp_path / "logs", tmp_path / "store")
    lines = {(DAY, megabytes + number): "csam_flagged" for number in range(1, len(flagged) + 1)}
    assert rejected(store) == lines | {("2024-06-21-conv.json", 1): "csam_flagged"}
    assert BAD in set(store.read("quarantine").filter(kind="image")["key"])
    assert store.read("conversations").height == megabytes + 1


def test_flags_are_found_whatever_the_pieces_are(tmp_path, monkeypatch):
    monkeypatch.setattr(read_new, "LINES_BYTES", 1000)
    write(tmp_path / "logs", DAY, *flagged_lines(), chat("good"))
    store = ingested(tmp_path / "logs", tmp_path / "store", workers=2)
    assert set(rejected(store).values()) == {"csam_flagged"}
    assert store.read("conversations")["conversation_id"].to_list() == [conv_id("good")]


@pytest.mark.parametrize(
    ("behind", "spelling"),
    [
        (-10, b'"has_csam_image": true'),
        (READ_BYTES - 16, b'"has_csam\\u005fimage":1'),
        (3 * READ_BYTES, b'"has_csam_image": true'),
    ],
)
def test_a_flag_behind_the_end_of_what_is_kept_of_an_overlong_line_is_found(tmp_path, behind, spelling):
    before = LINE_BYTES_MAX + behind
    path = tmp_path / "logs" / DAY
    path.parent.mkdir()
    path.write_bytes(b'{"a": "' + b"x" * before + b'", ' + spelling + b', "p": "' + BAD.encode() + b'"}\n[]\n')
    store = ingested(tmp_path / "logs", tmp_path / "store")
    assert rejected(store) == {(DAY, 1): "csam_flagged", (DAY, 2): "not_a_record"}
    assert BAD in set(store.read("quarantine")["key"])


ROW_PLACES = {
    "a column": lambda row: row | FLAG,
    "a nested column": lambda row: row | {"conv_metadata": {"x": [{"y": 1, **FLAG}]}},
    "a stringified column": lambda row: row | {"conv_metadata": json.dumps({"x": [FLAG]})},
}


def test_a_flag_in_a_map_column_is_found_and_its_image_is_held(tmp_path):
    rows = [ROWS["vision-arena-chat"], ROWS["vision-arena-chat"] | {"conversation_id": "d" * 32}]
    labels = pa.array([[("has_csam_image", flag)] for flag in (True, False)], pa.map_(pa.string(), pa.bool_()))
    table = pa.Table.from_pylist(rows).append_column("labels", labels)
    (tmp_path / "data").mkdir()
    pq.write_table(table, tmp_path / "data" / "rows.parquet")
    store = ingested(tmp_path / "data", tmp_path / "store")
    assert set(rejected(store).values()) == {"csam_flagged"} and len(rejected(store)) == 2
    assert store.read("quarantine").filter(pl.col("kind") == "image").height == 1
    assert store.read("images").is_empty()


CSAM_DAY = "vision-csam-2024-06-20-conv.json"
GOOD = image_name("good")
OPENED: list[str] = []
sys.addaudithook(
    lambda event, given: (
        OPENED.append(os.fsdecode(given[0]))
        if event == "open" and isinstance(given[0], (str, bytes, os.PathLike))
        else None
    )
)


@pytest.mark.parametrize("key", [7, b"7", 7.5], ids=lambda key: type(key).__name__)
def test_a_flagged_row_with_a_map_whose_keys_are_no_texts_is_held(tmp_path, key):
    rows = [ROWS["openai-messages"] | {"id": f"row-0000{number}"} for number in range(2)]
    table = pa.Table.from_pylist(rows)
    table = table.append_column("csam", pa.array([True, False]))
    table = table.append_column("scores", pa.array([[(key, 1)]] * 2, pa.map_(pa.scalar(key).type, pa.int64())))
    (tmp_path / "data").mkdir()
    pq.write_table(table, tmp_path / "data" / "rows.parquet")
    store = ingested(tmp_path / "data", tmp_path / "store")
    assert rejected(store) == {("rows.parquet", 1): "csam_flagged"}
    assert store.read("conversations")["line"].to_list() == [2]


@pytest.fixture
def arena(tmp_path):
    folder = served(tmp_path / "logs", BAD, GOOD)
    OPENED.clear()
    return folder


def opened_images() -> set[str]:
    return {path.rsplit("/", 1)[-1].removesuffix(".png") for path in OPENED if path.endswith(".png")}


FLAGGED = {
    "a flagged file": (CSAM_DAY, chat("bad", images=[BAD])),
    "a flagged chat": (DAY, chat("bad", images=[BAD], has_csam_image=True)),
    "a flag on the right side": (DAY, vote("b", state("bad", images=[BAD], has_csam_image=True))),
    "a broken line with a flag": (DAY, line(chat("bad", images=[BAD], has_csam_image=True))[:-9]),
    "a broken line of a flagged file": (CSAM_DAY, line(chat("bad", images=[BAD]))[:-30]),
    "a flagged record of an unknown type": (DAY, chat("bad", kind="load", images=[BAD], has_csam_image=True)),
    "a flag in a state that a vote has too many": (
        DAY,
        vote("b", "d") | {"state": state("bad", images=[BAD], has_csam_image=True)},
    ),
}


@pytest.mark.parametrize(("name", "record"), FLAGGED.values(), ids=FLAGGED)
def test_a_flagged_image_is_not_opened_even_when_another_line_shows_it(arena, tmp_path, name, record):
    write(arena, name, record)
    write(arena, "vision-tmp-2024-06-21-conv.json", chat("other", images=[BAD]), chat("good", images=[GOOD]))
    store = ingested(arena, tmp_path / "store")
    assert opened_images() == {GOOD}
    assert store.read("conversations")["conversation_id"].to_list() == [conv_id("good")]
    assert set(rejected(store).values()) == {"csam_flagged"}
    assert BAD in set(store.read("quarantine").filter(kind="image")["key"])
    assert BAD not in set(store.read("sightings")["images"].explode())


def test_the_other_side_of_a_flagged_battle_goes_too_and_everything_it_touches(arena, tmp_path):
    write(
        arena,
        DAY,
        chat("b", images=[GOOD]),
        chat("bad", images=[BAD], has_csam_image=True),
        vote("e", "d"),
        vote("b", "d"),
        vote("b", state("bad", images=[BAD])),
        chat("c"),
    )
    store = ingested(arena, tmp_path / "store")
    assert store.read("conversations")["conversation_id"].to_list() == [conv_id("c")]
    assert rejected(store) == {(DAY, number): "csam_flagged" for number in range(1, 6)}


def test_a_flag_from_before_holds_new_lines(arena, tmp_path):
    write(arena, CSAM_DAY, chat("bad", images=[BAD]))
    ingested(arena, tmp_path / "store")
    write(arena, DAY, chat("new", images=[BAD]), chat("bad", "other", "text"))
    store = ingested(arena, tmp_path / "store")
    assert store.read("sightings").is_empty()
    assert opened_images() == set()


def test_what_a_server_flagged_on_another_day_is_not_opened_in_any_window(arena, tmp_path):
    write(arena, "vision-csam-2024-07-01-conv.json", chat("bad", images=[BAD]))
    write(arena, DAY, chat("bad", images=[BAD]), chat("good", images=[GOOD]))
    store = ingested(arena, tmp_path / "store", since="2024-06-20", until="2024-06-20")
    assert opened_images() == {GOOD}
    assert store.read("conversations")["conversation_id"].to_list() == [conv_id("good")]
