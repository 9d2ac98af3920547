"""What a server flagged is never opened, whatever else says otherwise."""

import os
import sys

import pytest

from tests.tasks.ingest.logs import DAY, chat, conv_id, image_name, ingested, line, rejected, served, state, vote, write

CSAM_DAY = "vision-csam-2024-06-20-conv.json"
BAD, GOOD = image_name("bad"), image_name("good")
OPENED: list[str] = []
sys.addaudithook(
    lambda event, given: (
        OPENED.append(os.fsdecode(given[0]))
        if event == "open" and isinstance(given[0], (str, bytes, os.PathLike))
        else None
    )
)


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
