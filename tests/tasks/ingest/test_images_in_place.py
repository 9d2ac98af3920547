"""Which message brought an image, and where it stands among the words, from the log line to the table."""

import base64

import pytest

from tasks.ingest.formats.adapter import messages
from tasks.ingest.log_line import Place
from tests.builders import image_bytes
from tests.tasks.ingest.logs import (
    DAY,
    chat,
    conversations_of,
    image_name,
    ingested,
    rejected,
    served,
    state,
    vote,
    write,
)

NAMES = [image_name(f"picture {n}") for n in range(3)]
PLACE = Place("rows.jsonl", 1)


@pytest.fixture
def pictures(tmp_path):
    """The folder of a server with three pictures."""
    served(tmp_path / "logs", *NAMES)
    return tmp_path


def places(row):
    """(image, character) of every message."""
    return [[(each["image"], each["character"]) for each in turn["images"]] for turn in row["turns"]]


def said(name, *contents):
    """A state with these contents of messages."""
    whole = [["user" if place % 2 == 0 else "assistant", content] for place, content in enumerate(contents)]
    return state(name, messages=whole)


def test_images_of_one_turn_and_of_later_turns_stay_with_their_turn(pictures):
    first, second, third = NAMES
    growing = [["Compare them.", [first, second]], "A", ["And this one with the first?", [third, first]], "B"]
    lines = chat(state=said("a", *growing[:2])), chat(state=said("a", *growing), at=9)
    (row,) = conversations_of(pictures, *lines).to_dicts()
    assert len(row["image_ids"]) == 3
    assert places(row) == [[(0, 0), (1, 0)], [], [(2, 0), (0, 0)], []]


def test_both_sides_of_a_vote_have_the_images_in_place(pictures):
    contents = [["One.", [NAMES[0]]], "A", ["Two.", [NAMES[1]]], "B"]
    rows = conversations_of(pictures, vote(said("left", *contents), said("right", *contents)))
    assert [places(row) for row in rows.to_dicts()] == [[[(0, 0)], [], [(1, 0)], []]] * 2


def test_marks_in_a_text_say_where_each_image_stands(pictures):
    contents = ["<image>\nIs <image> the same as <image>?", NAMES]
    (row,) = conversations_of(pictures, chat(state=said("a", contents, "No."))).to_dicts()
    assert row["turns"][0]["content"] == "Is  the same as ?"
    assert places(row) == [[(0, 0), (1, 3), (2, 16)], []]


def test_marks_that_a_user_typed_beside_other_images_are_words(pictures):
    contents = ["What does <image> or <image> mean?", NAMES[:1]]
    (row,) = conversations_of(pictures, chat(state=said("a", contents, "A tag."))).to_dicts()
    assert row["turns"][0]["content"] == contents[0]
    assert places(row) == [[(0, 0)], []]


def test_an_image_that_cannot_be_used_takes_no_number(pictures):
    contents = ["Which?", ["../x", NAMES[0], image_name("missing"), NAMES[1]]]
    (row,) = conversations_of(pictures, chat(state=said("a", contents, "B."))).to_dicts()
    assert (len(row["image_ids"]), places(row)) == (2, [[(0, 0), (1, 0)], []])


def test_an_image_beside_the_state_stands_in_the_first_message(pictures):
    records = [chat("a", "Q", "A", beside=NAMES[:1]), vote(state("a", "Q", "A"), state("b", "Q", "B"))]
    rows = conversations_of(pictures, *records).sort("conversation_id").to_dicts()
    assert [places(row) for row in rows] == [[[(0, 0)], []], [[], []]]


def test_typed_parts_keep_their_order(pictures):
    urls = [f"data:image/png;base64,{base64.b64encode(image_bytes(seed)).decode()}" for seed in range(3)]
    shown = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    parts = [{"type": "text", "text": "This"}, shown[0], {"type": "text", "text": "or this?"}, shown[1]]
    talk = [{"role": "user", "content": parts}, {"role": "assistant", "content": "Yes."}]
    talk += [{"role": "user", "content": [shown[2]]}, {"role": "assistant", "content": "No."}]
    assert messages(talk, PLACE, [{}, {}, {}])[0][1][2] == [5, 13]
    (row,) = conversations_of(pictures, {"messages": talk}, name="rows.jsonl").to_dicts()
    assert row["turns"][0]["content"] == "This\nor this?"
    assert places(row) == [[(0, 5), (1, 13)], [], [(2, 0)], []]


def test_rows_of_a_release_are_read_back_in_place():
    talk = [
        {"role": "user", "content": "A", "images": [{"image": 1, "character": 1}]},
        {"role": "assistant", "content": "B", "images": []},
        {"role": "user", "content": "", "images": [{"image": 0, "character": 0}, {"image": 1, "character": 0}]},
    ]
    names = [{"path": f"{name}.png"} for name in NAMES[:2]]
    found = [content for _, content in messages(talk, PLACE, names)]
    assert found == [["A", [NAMES[1]], [1]], "B", ["", NAMES[:2], [0, 0]]]


@pytest.mark.parametrize("characters", [[0], [0, 9], [0, -1], [0, True], "ab"])
def test_places_that_do_not_fit_reject_the_line(tmp_path, characters):
    write(tmp_path / "logs", DAY, chat(state=said("a", ["two", NAMES[:2], characters], "A")))
    assert list(rejected(ingested(tmp_path / "logs", tmp_path / "store")).values()) == ["bad_messages"]
