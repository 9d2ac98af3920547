"""What one line says: every record type, era and spelling; and the reason when it says nothing usable."""

import json

import pytest

from schemas.items.reject import RejectReason
from tasks.ingest.log_line import Place
from tasks.ingest.read_logs import LogContent
from tasks.storage.keyed_ids import Pseudonyms
from tests.tasks.ingest.logs import chat, image_name, line, state, vote

PEOPLE = Pseudonyms(b"0123456789abcdef")
HASH = image_name("p")


def read(record, number: int = 2) -> LogContent:
    content = LogContent()
    content.add_line(line(record), Place("log", number), False, PEOPLE, {})
    return content


def reason_of(record) -> str:
    (reject,) = read(record).rejects
    return str(reject.reason)


@pytest.mark.parametrize(
    "record",
    [
        chat("a", beside=[HASH]),
        chat("a", beside=[f"https://storage.example.com/bucket/{HASH}.jpg"]),
        chat("a", beside=json.dumps([HASH])),
        chat("a", images=[HASH]),
        chat("a", images=[HASH], has_csam_image=False),
    ],
    ids=["early", "early with an address", "early and stringified", "in the message", "with a flag that is off"],
)
def test_every_era_names_its_image(record):
    (seen,) = read(record).sightings
    assert (seen.images, seen.name_problems, seen.texts) == ([HASH], [], ["What is this?", "A cat."])


def test_a_follow_up_in_plain_text_keeps_the_image_of_the_first_turn():
    (seen,) = read(chat("a", "Q1", "A1", "Q2", "A2", images=[HASH])).sightings
    assert (seen.texts, seen.images) == (["Q1", "A1", "Q2", "A2"], [HASH])


def test_records_of_the_remote_logger_are_the_same_records():
    for record in (chat("a", images=[HASH]), vote("a", "b")):
        nested = {key: json.dumps(value) if isinstance(value, dict | list) else value for key, value in record.items()}
        inner = dict(record, states=[json.dumps(s) for s in record["states"]]) if "states" in record else nested
        assert read(nested).sightings == read(inner).sightings == read(record).sightings


@pytest.mark.parametrize(
    ("names", "anonymous"),
    [
        (["", ""], True), (["Model A", "Model B"], True), (["<h3>Model A: x</h3>\n", "<h3>Model B: y</h3>\n"], True),
        (["### Model A: x", "### Model B: y"], True), (["## Model A: x", "## Model B: y"], True), (["x", "y"], False),
    ],
)  # fmt: skip
def test_every_spelling_of_shown_names_is_known(names, anonymous):
    assert [seen.anonymous for seen in read(vote(models=names)).sightings] == [anonymous, anonymous]


def test_half_a_surrogate_pair_does_not_cost_the_line():
    (seen,) = read(line(chat("a", "broken \ud83d emoji", "A \\ud83d backslash"))).sightings
    assert seen.texts == ["broken � emoji", "A \\ud83d backslash"]


def test_a_byte_order_mark_does_not_cost_the_first_line():
    assert read(b"\xef\xbb\xbf" + line(chat("a")), number=1).sightings


BAD = {
    RejectReason.BLANK_LINE: b"  ",
    RejectReason.NOT_JSON: line(chat("a"))[:-5],
    RejectReason.NOT_A_RECORD: b'["chat"]',
    RejectReason.LINE_TOO_LONG: b"x" * (16 * 1024 * 1024 + 1),
    RejectReason.UNKNOWN_TYPE: chat("a", kind="regenerate"),
    RejectReason.BAD_TIMESTAMP: chat("a") | {"tstamp": 1e30},
    RejectReason.BAD_STATE: vote() | {"states": [state("a")]},
    RejectReason.BAD_CONVERSATION_ID: chat(state=state("a", conv_id="../../etc")),
    RejectReason.BAD_MODEL: chat("a", model="x\x1b[2J"),
    RejectReason.BAD_MESSAGES: chat(state=state("a") | {"messages": [["user", {"text": "Q"}]]}),
    RejectReason.BAD_OFFSET: chat("a", offset=-1),
    RejectReason.NO_MESSAGES: chat("a", offset=2),
    RejectReason.HALF_ANONYMOUS: vote(models=["", "y"]),
    RejectReason.MODEL_MISMATCH: vote(models=["x", "z"]),
    RejectReason.CSAM_FLAGGED: chat("a", has_csam_image=True),
}


@pytest.mark.parametrize(("reason", "record"), BAD.items(), ids=map(str, BAD))
def test_a_line_that_cannot_be_used_is_rejected_by_name(reason, record):
    content = read(record)
    assert [row.reason for row in content.rejects] == [reason]
    assert (content.sightings, content.line_count) == ([], 1)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (chat("a") | {"type": ["chat"]}, "unknown_type"), (chat("a") | {"tstamp": None}, "bad_timestamp"),
        (chat("a") | {"tstamp": float("nan")}, "bad_timestamp"), (chat("a") | {"tstamp": 1e17}, "bad_timestamp"),
        (chat("a") | {"tstamp": True}, "bad_timestamp"), (chat("a") | {"tstamp": 12.0}, "bad_timestamp"),
        (chat("a") | {"state": "{not json"}, "bad_state"), (vote("a", "a"), "bad_state"),
        (vote(models=None), "bad_model"), (vote(state("a", model_name=None), "b"), "bad_model"),
        (chat(state=state("a") | {"messages": [["user", "Q", "extra"]]}), "bad_messages"),
        (chat(state=state("a") | {"messages": "Q"}), "bad_messages"), (chat("a", offset=True), "bad_offset"),
        (b'{"tstamp": NaN', "not_json"), (b"[" * 100_000, "not_json"), (b"\xff\xfe{}", "not_json"),
    ],
)  # fmt: skip
def test_other_shapes_of_the_same_mistakes(record, reason):
    assert reason_of(record) == reason


def test_image_names_that_are_no_names_are_problems_of_the_conversation_and_no_paths():
    (seen,) = read(chat("a", images=["../../etc/passwd", 7, "x.png", HASH])).sightings
    assert seen.images == [HASH]
    assert seen.name_problems == ["image_path_escape", "image_name_invalid", "image_name_invalid"]


def test_evidence_never_quotes_the_line():
    secret = "alice@example.com"
    for record in (*BAD.values(), chat(secret, state=state("a", conv_id=secret)), chat("a", kind=secret, ip=secret)):
        rejects = read(record).rejects
        assert rejects, record
        for row in rejects:
            assert secret not in row.evidence and "203.0.113" not in row.evidence
