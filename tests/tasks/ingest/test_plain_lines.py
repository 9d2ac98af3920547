"""Lines that are scanned together become what they become one by one; only their speed differs."""

import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.ingest import read_pieces
from tasks.ingest.line_block import block_of, joined
from tasks.ingest.log_files import LINE_BYTES_MAX, LogFile
from tasks.ingest.log_line import Place
from tasks.ingest.people import KEY_VARIABLE, Pseudonyms
from tasks.ingest.plain_lines import PlainLines
from tasks.ingest.read_logs import LogContent, read_line
from tasks.ingest.read_plan import Piece
from tasks.ingest.sighting_frame import sighting_table
from tests.tasks.ingest.logs import DAY, chat, conv_id, ingested, line, picture, state, vote, write

PEOPLE, FIRST = Pseudonyms(b"k" * 16), Place("log", 5)
TURNS = ("Q1", 'A\n"1"', "Q2 \u00e9\u2028\U0001f600", "", "Q3", None)
USUAL = [
    chat("a", *TURNS[:2]),
    chat("a", *TURNS[:4], kind="upvote", at=5, pictures=[picture("p")]),
    chat("a", *TURNS, kind="flag", at=9, model="m \u00fc"),
    chat("b", *TURNS[:2], pictures=[picture("p"), picture("q"), "../x"]),
    chat("b", "few", "shot", *TURNS[:2], offset=2, pictures=[picture("r")]),
    chat("c", images=[picture("p")], ip=None, has_csam_image=False),
    chat("c", images=json.dumps([picture("p"), 3]), has_csam_image=None),
    vote(state("a", *TURNS[:4]), state("b", *TURNS[:2], model_name="y")),
    vote("b", "a", "bothbad_vote", models=["### Model A: x", "<h3>Model B: y</h3>"]),
    vote("b", "c", "share", models=["x", "y"]),
]
ODD = [
    chat("a", has_csam_image=True),
    chat("a") | {"has_csam_image": False},
    vote("a", "a"),
    vote("a", "b", models=["x", ""]),
    chat("a", offset=9),
    chat("a", model=3),
    chat("a") | {"tstamp": "1"},
    chat("a") | {"type": "else"},
    chat("a") | {"state": json.dumps(state("a", "said by a remote logger", "yes"))},
    b"",
    b'{"tstamp": NaN}',
    b"\xff" + line(chat("a")),
    line(chat("a", "\u00e9")).replace(b"\\u00e9", b"\xff"),
    line(chat("b")).replace(b'"type"', b'"type": "vote", "type"'),
    line(chat("b", "half \ud83d")),
]
ENCODINGS = (
    line,
    lambda record: (
        record
        if isinstance(record, bytes)
        else json.dumps(record, ensure_ascii=False, indent=1).replace("\n", "\r").encode("utf-8", "surrogatepass")
    ),
)
tokens = st.sampled_from(
    [b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"null", b"1e999", b"\\ud83d", b"\xff", b" ", b"-0", b"\0"]
)


@st.composite
def lines(draw):
    """Log lines, usual and odd, some of them damaged."""
    found = []
    for record in draw(st.lists(st.sampled_from(USUAL * 3 + ODD), min_size=1, max_size=12)):
        raw = bytearray(draw(st.sampled_from(ENCODINGS))(record))
        if draw(st.integers(0, 3)) == 0:
            start = draw(st.integers(0, len(raw)))
            raw[start : start + draw(st.integers(0, 3))] = draw(tokens | st.binary(max_size=3))
        found.append(bytes(raw).replace(b"\n", b"") + b"\n")
    return found


def one_by_one(found: list[bytes], linked) -> tuple[LogContent, pa.Table]:
    content = LogContent()
    for number, raw in enumerate(found):
        read_line(raw, Place(FIRST.source, FIRST.line + number), False, PEOPLE, linked, content)
    return content, sighting_table(content.sightings)


def together(found: list[bytes], linked) -> tuple[LogContent, pa.Table]:
    piece = Piece(LogFile(None, FIRST.source, None, False), "arena-logs", 0, 0, 0, 0)
    return read_pieces._read_lines(joined(found), FIRST, piece, PEOPLE, linked)


@settings(max_examples=300)
@given(found=lines(), linked=st.sampled_from([{}, {conv_id("a"): [(0.0, "x"), (2e9, "y")]}]))
def test_any_lines_become_the_same_rows_and_rejects_as_one_by_one(found, linked):
    (content, rows), (other, expected) = together(found, linked), one_by_one(found, linked)
    assert (content.rejects, content.line_count) == (other.rejects, other.line_count)
    assert content.flagged_conv_ids == other.flagged_conv_ids and content.flagged_pictures == other.flagged_pictures
    assert rows.drop(["texts"]).equals(expected.drop(["texts"]))
    whole = {(seen.line, seen.side): seen.texts for seen in other.sightings}
    for row, least in zip(rows.to_pylist(), expected["texts"].to_pylist(), strict=True):
        assert row["texts"] in (least, whole[row["line"], row["side"]])


def test_usual_lines_are_all_understood_and_odd_ones_none():
    for encode in ENCODINGS:
        found = [encode(record) + b"\n" for record in (*USUAL, *ODD)]
        assert PlainLines(joined(found), FIRST).odd == list(range(len(USUAL), len(found)))
    assert together([line(record) + b"\n" for record in USUAL], {})[1].equals(one_by_one(map(line, USUAL), {})[1])


def test_conversations_are_the_same_however_the_lines_were_read(tmp_path, monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, "the key of every store here")
    remote = chat("b", *TURNS[:4], at=50)
    # without the flagged line, which would take every conversation along
    mixed = [*USUAL, remote | {"state": json.dumps(remote["state"])}, chat("b", *TURNS[:5], at=60), *ODD[1:], *USUAL]
    write(tmp_path / "logs", DAY, *mixed)
    write(tmp_path / "logs", "2024-06-21-conv.json.gz", *mixed)
    stores = []
    for least in (0, read_pieces.PIECE_BYTES_MIN):
        monkeypatch.setattr(read_pieces, "PIECE_BYTES_MIN", least)
        stores.append(ingested(tmp_path / "logs", tmp_path / f"store-{least}"))
    for table in ("conversations", "battles", "rejects", "quarantine"):
        assert stores[0].read(table).equals(stores[1].read(table))
    assert stores[0].read("conversations").height > 3


@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_line_that_is_too_long_is_rejected_and_its_neighbours_are_read(end):
    found = [line(chat("a")) + b"\n", line(chat("b", "x" * LINE_BYTES_MAX)) + b"\n", line(chat("c")) + end]
    content, rows = read_pieces._read_lines(block_of(b"".join(found)), FIRST, None, PEOPLE, {})
    assert [(row.line, row.reason.value) for row in content.rejects] == [(FIRST.line + 1, "line_too_long")]
    assert rows["line"].to_pylist() == [FIRST.line, FIRST.line + 2]


def test_a_line_that_ends_anywhere_is_odd():
    for whole in map(line, USUAL):
        assert PlainLines(block_of(whole), FIRST).odd == []
        for end in range(1, len(whole)):
            assert PlainLines(block_of(whole[:end]), FIRST).odd == [0]
