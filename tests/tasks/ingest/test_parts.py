"""Every part of a message is read, missing, or named: parts in = texts + pictures + parts of another kind."""

import base64
import json
import os
import re
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.ingest.formats import BUILT_IN
from tasks.ingest.formats.adapter import FormatAdapter, chat
from tasks.ingest.formats.pictures import path_of, picture_bytes, picture_of, relative_path
from tasks.ingest.log_line import Place
from tasks.ingest.read_logs import LogContent
from tasks.storage.keyed_ids import Pseudonyms
from tasks.storage.records import funnel, unread_parts
from tests.builders import image_bytes
from tests.older_store import without_column
from tests.places import DATA, needs_data
from tests.tasks.ingest.logs import ingested, rejected, texts
from tests.tasks.ingest.spelled_parts import ENCODED, OTHERS, PICTURES, SPELLED_ADDRESSES, Drawn

TEXT, ANSWER = {"type": "text", "text": "What?"}, {"role": "assistant", "content": "A cat."}
PICTURE = image_bytes(1)
BASE64 = base64.b64encode(PICTURE).decode()
PLACE = Place("rows.jsonl", 1, "/data")


def row(*parts, **columns):
    """A row of one question with these parts and an answer."""
    return {"messages": [{"role": "user", "content": [*parts]}, ANSWER], **columns}


def table_of(*rows):
    """An Arrow table, in which every content is a list."""
    answers = [{"role": "assistant", "content": [{"type": "text", "text": "A cat."}]}]
    return pa.Table.from_pylist([each | {"messages": [each["messages"][0], *answers]} for each in rows])


def read(values, adapter=BUILT_IN["openai-messages"]):
    """What becomes of one row, before pictures are looked for."""
    content = LogContent()
    content.add_row(json.dumps(values).encode(), PLACE, False, adapter, Pseudonyms(b"k" * 16))
    return content


def kinds(sighting):
    """Kinds of a sighting's parts that were not read."""
    return [each["kind"] for each in sighting.unread_parts]


def by_line(store):
    """Line -> conversation."""
    return {each["line"]: each for each in store.read("conversations").to_dicts()}


def put(folder, rows):
    """A folder with rows.jsonl and a picture pics/a.png."""
    (folder / "pics").mkdir(parents=True)
    (folder / "pics" / "a.png").write_bytes(PICTURE)
    (folder / "rows.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows), encoding="utf-8")
    return folder


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_parts_in_are_texts_and_pictures_and_parts_of_another_kind_by_name(seed):
    drawn = Drawn(seed)
    content = read(drawn.row)
    assert not content.rejects, drawn.row
    seen = content.sightings[-1]
    said = re.findall(r"\bt\d+\b", " ".join(text or "" for text in seen.texts))
    # what was thought stands in `served` of a sighting up to its answer, as in a log
    thoughts = re.findall(r"\bt\d+\b", str([each.served for each in content.sightings]))
    assert Counter([*said, *thoughts]) == Counter(drawn.words("t")), drawn.row
    assert sorted(thoughts) == sorted(re.findall(r'"thinking": "(t\d+)', json.dumps(drawn.row)))
    assert len(seen.image_places) + len(seen.name_problems) == len(drawn.words("p")), drawn.row
    assert Counter(kinds(seen)) == Counter(drawn.others), drawn.row
    assert len(drawn.others) == len(drawn.words("o"))


KEYS = (
    "role", "from", "content", "value", "text", "parts", "type", "image", "images", "image_url", "url", "source",
    "data", "bytes", "path", "file", "video", "tool_calls", "refusal", "thinking", "character", "choices", "message",
)  # fmt: skip
WORDS = (
    "user",
    "assistant",
    "tool",
    "system",
    "text",
    "image",
    "file",
    "thinking",
    "a.png",
    "data:,x",
    "",
    "\0",
    "../a",
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.floats(allow_nan=False) | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(anything, anything, anything)
def test_no_row_stops_the_reading(content, messages, beside):
    asked = {"messages": [{"role": "user", "content": content}, ANSWER], "images": beside, "other": messages}
    for values in (asked, asked | {"messages": messages}, {"conversations": messages, "choices": beside}):
        found = read(values, BUILT_IN["sharegpt" if "conversations" in values else "openai-messages"])
        assert len(found.sightings) + len(found.rejects) == 1
        for picture in map(picture_of, (content, messages, beside)):
            picture_bytes(picture)
            assert path_of(picture) is None or relative_path(PLACE, path_of(picture)) != "../a"


def test_a_picture_in_every_spelling_is_read_and_stands_before_its_text(tmp_path):
    paths = ("pics/a.png", "./pics//a.png", "pics\\a.png", "x/../pics/a.png", (tmp_path / "data/pics/a.png").as_uri())
    shown = [PICTURES["qwen"](path) for path in (*paths, str(tmp_path / "data" / "pics" / "a.png"))]
    shown += [make("data:image/png;base64," + BASE64) for make in PICTURES.values()]
    shown += [make("pics/a.png") for name, make in PICTURES.items() if name != "file"]
    shown += [make(BASE64) for make in ENCODED.values()]
    shown += [PICTURES["openai"](make(BASE64)) for make in SPELLED_ADDRESSES.values()]
    beside = ["pics/a.png", {"bytes": None, "path": "pics/a.png"}, {"bytes": BASE64, "path": "b.png"}, BASE64]
    rows = [row(each, TEXT) for each in shown]
    rows += [row({"type": "image"}, TEXT, images=[each]) for each in beside]
    rows += [row(TEXT, images="pics/a.png"), row(TEXT, image={"bytes": BASE64, "path": None})]
    marked = [{"from": "human", "value": "<image>\nWhat?"}, {"from": "gpt", "value": "A cat."}]
    data = put(tmp_path / "data", rows)
    (data / "marked.jsonl").write_text(json.dumps({"conversations": marked, "images": ["pics/a.png"]}))
    store = ingested(data, tmp_path / "store")
    assert rejected(store) == {}
    found = store.read("conversations").to_dicts()
    assert len(found) == len(rows) + 1
    for each in found:
        what = (texts(each), each["unread_parts"], len(each["image_ids"]), each["turns"][0]["images"])
        assert what == (["What?", "A cat."], [], 1, [{"image": 0, "character": 0}]), rows[each["line"] - 1]
    assert store.read("images").height == 1


def test_a_picture_that_cannot_be_read_says_why_and_none_outside_the_folder_is_opened(tmp_path):
    broken = "data:image/png;base64,"
    wrong = {
        "https://example.org/a.png": "image_missing", "../secret.png": "image_path_escape", "pics": "image_missing",
        "/etc/hostname": "image_path_escape", "pics/link.png": "image_missing", "pics/none.png": "image_missing",
        "pics/../../secret.png": "image_path_escape", "file:///etc/hostname": "image_path_escape",
        "\0": "image_path_escape",
        f"{broken}{BASE64[:50]}!": "not_an_image", f"{broken}????": "not_an_image", broken: "image_empty",
        "data:text/plain,hello": "not_an_image", "pics/pipe": "image_missing",
    }  # fmt: skip
    rows = [row({"type": "image", "image": where}, TEXT) for where in wrong]
    data = put(tmp_path / "data", [*rows, row({"type": "image"}, TEXT), row({"type": "image"}, TEXT, images=[None])])
    (tmp_path / "secret.png").write_bytes(image_bytes(2))
    (data / "pics" / "link.png").symlink_to(tmp_path / "secret.png")
    os.mkfifo(data / "pics" / "pipe")
    store = ingested(data, tmp_path / "store")
    found = by_line(store)
    reasons = [*wrong.values(), "image_missing", "image_missing"]
    assert [found[line]["image_problems"] for line in range(1, len(reasons) + 1)] == [[each] for each in reasons]
    assert store.read("images").height == 0
    assert store.read("rejects").filter(evidence="0 bytes").height == 1
    assert "secret" not in str(store.read("rejects").to_dicts())


def test_a_part_of_another_kind_is_named_with_its_place_and_marks_its_conversation(tmp_path):
    rows = [row(TEXT, make("x")) for make in OTHERS.values()]
    rows += [row({"type": "video"}, TEXT, videos=["a.mp4"]), row(TEXT, page=[{"bytes": BASE64, "path": "a"}])]
    rows += [row(TEXT)]
    store = ingested(put(tmp_path / "data", rows), tmp_path / "store")
    found = by_line(store)
    assert [found[line + 1]["unread_parts"] for line in range(len(rows))] == [
        *([kind] for kind in OTHERS), ["video"], ["page"], [],
    ]  # fmt: skip
    told = store.read("rejects").filter(reason="part_not_read")
    assert set(told["line"]) == {None} and set(told["source"]) == {"rows.jsonl"}
    places = [f"{kind} in message 1 of line {number}" for number, kind in enumerate([*OTHERS, "video"], 1)]
    assert told["evidence"].to_list() == [*places, f"page beside the messages of line {len(rows) - 1}"]
    assert unread_parts(store) == dict(Counter([*OTHERS, "video", "page"]).most_common(1)) | dict.fromkeys(
        sorted({*OTHERS, "page"} - {"video"}), 1
    )
    assert funnel(store).rejected == 0  # the line itself is kept


def test_a_store_from_before_parts_were_counted_is_read_as_if_none_was_lost_and_grows(tmp_path):
    data = put(tmp_path / "data", [row(TEXT, id="a" * 32)])
    store = ingested(data, tmp_path / "store")
    for table in ("sightings", "conversations"):
        without_column(store, table, "unread_parts")
    assert store.read("conversations")["unread_parts"].to_list() == [None]
    with (data / "rows.jsonl").open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(row(TEXT, OTHERS["video"]("x"), id="b" * 32)) + "\n")
    found = by_line(ingested(data, tmp_path / "store"))
    assert {line: each["unread_parts"] for line, each in found.items()} == {1: None, 2: ["video"]}


def test_what_tools_did_is_no_turn_and_what_is_said_around_it_is_one_answer():
    call = {"role": "assistant", "content": "Let me see.", "tool_calls": [{"id": "1", "function": {"name": "f"}}]}
    openai = [{"role": "user", "content": "What?"}, call, {"role": "tool", "content": "42"}, ANSWER]
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "42"}]}
    use = {"role": "assistant", "content": ["Let me see.", {"type": "tool_use", "id": "1", "name": "f"}]}
    for talk in (openai, [openai[0], use, result, ANSWER]):
        (seen,) = read({"messages": talk}).sightings
        assert seen.texts == ["What?", "Let me see.\n\nA cat."]
        assert len(seen.unread_parts) == 2
    assert read({"messages": [openai[0], ANSWER, ANSWER]}).rejects[0].reason == "bad_messages"


ASKED = {"role": "user", "content": "What?"}
REPLY = {"index": 0, "finish_reason": "stop", "message": ANSWER}


@pytest.mark.parametrize(
    ("columns", "said", "lost"),
    [
        ({"choices": [REPLY]}, ["What?", "A cat."], []),
        ({"response": {"choices": [REPLY], "usage": {}}}, ["What?", "A cat."], []),
        ({"choices": [{"message": ANSWER | {"reasoning_content": "Hm."}}]}, ["What?", "A cat."], []),
        ({"choices": []}, ["What?"], []),
        ({"role": "assistant", "content": [{"type": "text", "text": "A cat."}]}, ["What?"], ["text"]),
        ({"output": {"messages": [{"role": "assistant", "content": "A cat."}]}}, ["What?"], ["text"]),
    ],
)
def test_the_answer_of_a_log_of_requests_is_read_and_one_that_is_not_is_named(columns, said, lost):
    (seen,) = read({"messages": [ASKED], **columns}).sightings
    assert (seen.texts, kinds(seen)) == (said, lost)


def test_an_adapter_that_forgets_a_column_or_a_text_is_noticed_and_one_that_changes_texts_is_not():
    def forgetful(values, place):
        return chat({"model": "x", "conversation": [*values["messages"][:1], ANSWER]}, place, ())

    def shouting(values, place):
        told = [message | {"content": message["content"].upper()} for message in values["messages"]]
        return chat({"model": "x", "conversation": told}, place)

    more = [ASKED, {"role": "assistant", "content": "A bird."}, {"role": "user", "content": "Sure?"}, ANSWER]
    values = {"messages": more, "images": ["a.png"]}
    (seen,) = read(values, FormatAdapter("x", frozenset({"messages"}), forgetful)).sightings
    assert sorted(kinds(seen)) == ["image", "text", "text"]
    (seen,) = read({"messages": more}, FormatAdapter("x", frozenset({"messages"}), shouting)).sightings
    assert seen.unread_parts == []


def test_a_side_of_a_battle_is_marked_for_its_own_parts():
    left = [{"role": "user", "content": [TEXT, OTHERS["video"]("x"), PICTURES["qwen"]("a.png")]}, ANSWER]
    right = [{"role": "user", "content": [TEXT]}, ANSWER]
    values = {"model_a": "x", "model_b": "y", "winner": "tie", "conversation_a": left, "conversation_b": right}
    repeated = [{"user": ASKED, "model_side_a": ANSWER}]
    a, b = read(values | {"full_conversation": repeated}, BUILT_IN["human-preference"]).sightings
    assert (kinds(a), kinds(b)) == (["video"], [])
    assert (len(a.images), len(b.images)) == (1, 0)
    both = [read(values | {"images": ["b.png"], "question_id": None}, BUILT_IN["vision-arena-battle"])]
    a, b = both[0].sightings
    assert (len(a.images), len(b.images), a.images[0]) == (2, 1, b.images[0])


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_pictures_of_a_table_are_read_in_the_messages_and_beside_them(tmp_path, kind):
    bytes_alone = [{"bytes": PICTURE}]
    tables = {
        "beside": row({"type": "image"}, TEXT, images=[{"bytes": PICTURE, "path": "same.png"}]),
        "bytes": row({"type": "image"}, TEXT, images=[PICTURE]),
        "struct": row({"type": "image"}, TEXT, images=bytes_alone),
        "no part": row(TEXT, images=bytes_alone),
        "path": row({"type": "image"}, TEXT, images=[{"bytes": None, "path": "pics/a.png"}]),
        "in parts": row({"type": "image", "image": {"bytes": PICTURE, "path": None}}, TEXT),
        "in bare parts": row({"image": {"bytes": PICTURE, "path": "x.png"}}, {"text": "What?"}),
        "in parts, bytes": row({"type": "image", "image": {"bytes": PICTURE}}, TEXT),
    }
    data = put(tmp_path / "data", [])
    (data / "rows.jsonl").unlink()
    for number, values in enumerate(tables.values()):
        table = table_of(values, values)
        if kind == "parquet":
            pq.write_table(table, data / f"{number}.parquet")
        else:
            with pa.OSFile(str(data / f"{number}.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as out:
                out.write_table(table)
    store = ingested(data, tmp_path / "store")
    names = list(tables)
    found = store.read("conversations").to_dicts()
    told = {names[int(each["source"][0])]: (len(each["image_ids"]), each["unread_parts"]) for each in found}
    assert told == dict.fromkeys(tables, (1, []))
    assert len(found) == 2 * len(tables)


def test_a_file_that_a_flagged_row_shows_is_opened_for_no_other_row(tmp_path):
    flagged = {"has_csam_image": True}
    part = row(PICTURES["qwen"]("pics/a.png"), TEXT)
    data = put(tmp_path / "lines", [part, row(PICTURES["openai"]("./pics/a.png"), TEXT) | flagged])
    looked: list[str] = []
    ingested(data, tmp_path / "store of lines", looked)
    struct = row({"type": "image"}, TEXT, images=[{"bytes": None, "path": "pics/a.png"}])
    rows = [struct | {"has_csam_image": False}, struct | flagged]
    data = put(tmp_path / "table", [])
    (data / "rows.jsonl").unlink()
    pq.write_table(table_of(*rows), data / "rows.parquet")
    store = ingested(data, tmp_path / "store of a table", looked)
    assert looked == []
    assert store.read("images").height == 0


SPELLINGS = [
    "pics/Bl\u00e5 kaf\u00e9.PNG",
    "pics/Bla\u030a kafe\u0301.PNG",
    "PICS/bl\u00e5 KAF\u00c9.png",
    ".\\pics\\Bl\u00e5 kaf\u00e9.png",
]


def spelled(folder, *, with_file=True):
    """A folder with one row for each of `SPELLINGS`, and a file that all of them mean."""
    data = put(folder, [row({"type": "image", "image": spelling}, TEXT) for spelling in SPELLINGS])
    if with_file:
        (data / SPELLINGS[0]).write_bytes(image_bytes(2))
    return data


def test_every_spelling_of_a_path_shows_the_one_file(tmp_path):
    store = ingested(spelled(tmp_path / "data"), tmp_path / "store")
    conversations = store.read("conversations")
    assert conversations["image_problems"].to_list() == [[]] * len(SPELLINGS)
    assert conversations["image_ids"].explode().n_unique() == store.read("images").height == 1
    assert store.read("sightings")["images"].explode().n_unique() == 1, "one name, which quarantine and takedowns know"


def test_a_file_that_comes_after_its_rows_is_the_same_image_as_if_it_had_been_there(tmp_path):
    data = spelled(tmp_path / "data", with_file=False)
    assert ingested(data, tmp_path / "store").read("images").height == 0
    (data / SPELLINGS[0]).write_bytes(image_bytes(2))
    late = ingested(data, tmp_path / "store").read("conversations")
    assert late["image_problems"].to_list() == [[]] * len(SPELLINGS)
    there = ingested(spelled(tmp_path / "whole"), tmp_path / "other store").read("conversations")
    assert late["image_ids"].to_list() == there["image_ids"].to_list()


@pytest.mark.parametrize("flagged", range(len(SPELLINGS)))
def test_a_file_that_a_flagged_row_shows_is_opened_under_no_spelling(tmp_path, flagged):
    rows = [row({"type": "image", "image": spelling}, TEXT) for spelling in SPELLINGS]
    rows[flagged] |= {"has_csam_image": True}
    data = put(tmp_path / "data", rows)
    (data / SPELLINGS[0]).write_bytes(image_bytes(2))
    looked: list[str] = []
    store = ingested(data, tmp_path / "store", looked)
    assert (looked, store.read("images").height, store.read("conversations").height) == ([], 0, 0)


@needs_data
def test_the_pictures_of_a_public_report_stand_before_their_texts(tmp_path):
    store = ingested(DATA / "public-reports" / "images-column-beside-messages", tmp_path / "store")
    found = store.read("conversations").to_dicts()
    assert [(each["image_problems"], each["turns"][0]["images"]) for each in found] == [
        ([], [{"image": 0, "character": 0}])
    ] * 3
    assert (store.read("images").height, rejected(store)) == (3, {})


def test_a_pdf_of_which_nothing_is_at_hand_is_named(tmp_path):
    address = {"type": "file", "file": {"filename": "a.pdf", "file_url": "https://example.org/a.pdf"}}
    (seen,) = read(row(address, TEXT)).sightings
    assert kinds(seen) == ["pdf"]
