"""Images from the side of ingest: what a name leads to, where an image stands, and what hostile files come to."""

import base64
import hashlib
import json
import os
import random
import socket

import numpy as np
import PIL.Image
import pytest

from schemas.errors import BadInput
from tasks.ingest.formats.adapter import messages
from tasks.ingest.image_files import logged_name
from tasks.ingest.log_line import Place
from tasks.ingest.take_in import FILE_BYTES_MAX
from tests.builders import image_bytes
from tests.tasks.ingest.logs import (
    DAY,
    chat,
    conv_id,
    conversations_of,
    image_name,
    ingested,
    rejected,
    served,
    state,
    vote,
    write,
)

P, Q = image_name("p"), image_name("q")


def put(logs, name: str, content: bytes, folder: str = "serve_images"):
    path = logs / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def only(store, table: str = "conversations") -> dict:
    (row,) = store.read(table).to_dicts()
    return row


def test_a_large_image_that_two_files_show_is_stored_and_measured_once(tmp_path, monkeypatch):
    monkeypatch.setattr("tasks.ingest.take_in.PIXELS_AT_ONCE", 1)
    logs, looked = tmp_path / "logs", []
    for name in (P, Q):
        put(logs, f"{name}.png", image_bytes(1))
    write(logs, DAY, chat("a", images=[P]), chat("b", images=[Q]))
    assert ingested(logs, tmp_path / "store", looked).read("images")["image_id"].to_list() == looked
    assert len(looked) == 1


def test_the_exact_png_of_a_later_era_is_preferred_to_the_jpeg_of_an_earlier_one(tmp_path):
    logs = tmp_path / "logs"
    put(logs, f"{P}.jpg", image_bytes(1, file_format="JPEG"))
    put(logs, f"{P}.png", image_bytes(1))
    write(logs, DAY, chat("a", images=[P]))
    assert only(ingested(logs, tmp_path / "store"), "images")["format"] == "png"


def test_an_image_file_of_another_container_is_taken_in_or_refused_for_what_it_is_and_never_called_missing(tmp_path):
    logs = tmp_path / "logs"
    put(logs, f"{P}.bmp", image_bytes(1, file_format="BMP"))
    put(logs, f"{Q}.tiff", image_bytes(1, file_format="TIFF"))
    write(logs, DAY, chat("a", images=[P]), chat("b", images=[Q]))
    store = ingested(logs, tmp_path / "store")
    assert store.read("images").height == 1
    refused = only(store, "rejects")
    assert (refused["source"].partition(".")[0], refused["reason"]) == (Q, "not_an_image")


HOSTILE = {
    "image_empty": b"",
    "not_an_image": b"<svg onload=alert(1)>",
    "image_truncated": image_bytes(1, (200, 200))[:2000],
}


@pytest.mark.parametrize("reason", HOSTILE)
def test_a_hostile_image_is_a_reject_and_a_problem_of_its_conversation(tmp_path, reason):
    logs = tmp_path / "logs"
    put(logs, f"{P}.png", HOSTILE[reason])
    write(logs, DAY, chat("a", images=[P]))
    store = ingested(logs, tmp_path / "store")
    assert only(store)["image_problems"] == [reason]
    assert [(row["source"], row["line"], row["reason"]) for row in store.read("rejects").to_dicts()] == [
        (f"{P}.png", None, reason)
    ]


def test_an_image_name_that_is_none_is_a_reject_that_says_where_it_stands_and_costs_no_line(tmp_path):
    write(tmp_path / "logs", DAY, chat("a", images=["../../etc/passwd"]), chat("b", images=["me@example.com", P]))
    for _ in range(2):
        store = ingested(tmp_path / "logs", tmp_path / "store")
        rejects = store.read("rejects").sort("reason").to_dicts()
        assert [(row["source"], row["line"], row["reason"], row["evidence"]) for row in rejects] == [
            (P, None, "image_missing", "no such file"),
            (DAY, None, "image_name_invalid", "an image name on line 2"),
            (DAY, None, "image_path_escape", "an image name on line 1"),
        ]
    assert [row["image_problems"] for row in store.read("conversations").to_dicts()] == [
        ["image_path_escape"],
        ["image_name_invalid", "image_missing"],
    ]


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    with put(tmp_path / "logs", f"{Q}.png", b"").open("wb") as stream:
        stream.truncate(FILE_BYTES_MAX + 1)
    write(tmp_path / "logs", DAY, chat("b", images=[Q]))
    assert only(ingested(tmp_path / "logs", tmp_path / "store"), "rejects")["reason"] == "image_too_large"


def test_a_missing_image_that_turns_up_later_is_taken_in_then(tmp_path):
    logs = tmp_path / "logs"
    write(logs, DAY, chat("a", images=[P]))
    assert only(ingested(logs, tmp_path / "store"))["image_problems"] == ["image_missing"]
    put(logs, f"{P}.png", image_bytes(1))
    store = ingested(logs, tmp_path / "store")
    assert (only(store)["image_problems"], len(only(store)["image_ids"])) == ([], 1)
    assert store.read("rejects").is_empty()


def test_a_link_out_of_the_image_folder_is_not_followed(tmp_path):
    secret = put(tmp_path, "secret.png", image_bytes(9), folder="elsewhere")
    link = tmp_path / "logs" / "serve_images" / f"{P}.png"
    link.parent.mkdir(parents=True)
    link.symlink_to(secret)
    write(tmp_path / "logs", DAY, chat("a", images=[P]))
    store = ingested(tmp_path / "logs", tmp_path / "store")
    assert store.read("images").is_empty()
    assert only(store, "rejects")["reason"] == "image_path_escape"


def a_socket(path):
    with socket.socket(socket.AF_UNIX) as bound, pytest.MonkeyPatch.context() as patch:
        patch.chdir(path.parent)  # the address of a socket is short
        bound.bind(path.name)


ODD = {
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to a link to itself": lambda path: (
        path.with_name(f"{path.name}-next").symlink_to(path.name),
        path.symlink_to(f"{path.name}-next"),
    ),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a link to a name that cannot be": lambda path: path.symlink_to("x" * 300),
    "a link to this folder": lambda path: path.symlink_to("."),
    "a link to the folder above": lambda path: path.symlink_to(".."),
    "a link into a log": lambda path: path.symlink_to(f"../{DAY}"),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a pipe": os.mkfifo,
    "a link to a pipe": lambda path: (os.mkfifo(path.with_name(f"{path.name}-p")), path.symlink_to(f"{path.name}-p")),
    "a socket": a_socket,
    "a folder": lambda path: path.mkdir(),
    "an empty file": lambda path: path.touch(),
    "an unreadable file": lambda path: (path.touch(), path.chmod(0)),
    "bytes that are no UTF-8": lambda path: os.mkfifo(os.fsencode(path.with_suffix("")) + b"-\xff\n.png"),
    "a name of two lines": lambda path: os.mkfifo(path.with_name(f"{path.stem}\n{path.name}")),
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("folder", ["serve_images", "input_images"])
@pytest.mark.parametrize("seed", range(3))
def test_whatever_lies_in_an_image_folder_is_at_most_a_reject_and_nothing_waits_for_it(tmp_path, capfd, seed, folder):
    chance, logs = random.Random(seed), tmp_path / "logs"
    kinds = [*ODD, *chance.choices(list(ODD), k=12)]
    names = [image_name(f"odd{number}") for number in range(len(kinds))]
    put(logs, f"{P}.png", image_bytes(1), folder)
    for name, kind in zip(names, kinds, strict=True):
        ODD[kind](logs / folder / (name + chance.choice([".png", ".jpg", ".jpeg", ".webp"])))
    for number, ending in enumerate((b"1.5.png", b"2\xff.png", b"3\n.png")):
        os.mkfifo(os.fsencode(logs / folder) + b"/input_image_" + conv_id(f"linked{number}").encode() + b"_" + ending)
    rows = [chat(f"c{number}", images=[name]) for number, name in enumerate(chance.sample(names, len(names)))]
    rows += [chat(f"linked{number}") for number in range(3)]
    write(logs, DAY, *rows, chat("good", images=[P]))
    store = ingested(logs, tmp_path / "store")
    assert store.read("conversations").height == len(rows) + 1 and store.read("images").height == 1
    assert sum(reject["source"].partition(".")[0] in names for reject in store.read("rejects").to_dicts()) == len(names)
    shown = [*capfd.readouterr(), *map(str, store.read("rejects").rows())]
    assert not [text for text in shown if str(tmp_path) in text or "/dev" in text]


def test_every_server_below_the_log_folder_has_its_own_images(tmp_path):
    logs = tmp_path / "logs"
    for number, name in enumerate((P, Q)):
        put(logs, f"{name}.png", image_bytes(number), folder=f"server{number}/serve_images")
        write(logs, f"server{number}/{DAY}", chat(f"c{number}", images=[name]))
    store = ingested(logs, tmp_path / "store")
    assert [len(ids) for ids in store.read("conversations")["image_ids"]] == [1, 1]


def test_wildvision_images_are_found_by_the_conversation_and_time_in_their_names(tmp_path):
    logs, a = tmp_path / "logs", conv_id("a")
    for seed, at in enumerate((0, 100)):
        put(logs, f"input_image_{a}_{1718884800 + at}.png", image_bytes(seed), folder="input_images")
    put(logs, f"input_image_{conv_id('b')}_1718884800.png", image_bytes(2), folder="input_images")
    put(logs, f"input_video_{a}.mp4", b"", folder="input_videos")
    records = [chat("a", at=5), vote("a", "b", at=9), chat("a", "Another question", "A", at=105), chat("none", at=6)]
    write(logs, "2024-06-20-conv.json", *records)
    store = ingested(logs, tmp_path / "store")
    images = {row["line"]: row["image_ids"] for row in store.read("conversations").to_dicts()}
    assert [len(images[number]) for number in (1, 2, 3, 4)] == [1, 1, 1, 0]
    assert len({image for ids in images.values() for image in ids}) == 3
    assert store.read("rejects").is_empty()


def test_a_preset_is_known_by_the_name_the_server_logs_for_it(tmp_path):
    logs, presets = tmp_path / "logs", tmp_path / "presets"
    drawn = put(presets, "meme.jpg", image_bytes(3, (40, 30), "JPEG"), folder="memes")
    (presets / "presets.json").write_text(json.dumps([{"dataset": "Memes", "question": "", "path": "memes/meme.jpg"}]))
    write(logs, DAY, chat("a", images=[logged_name(drawn)]))
    preset = only(ingested(logs, tmp_path / "store"), "presets")
    assert (preset["dataset"], preset["logged_name"]) == ("Memes", logged_name(drawn))
    assert preset["image_id"] is not None


def test_a_preset_outside_its_collection_is_refused(tmp_path):
    write(tmp_path / "logs", DAY, chat("a"))
    put(tmp_path, "presets.json", b'[{"dataset": "x", "path": "../secret.png"}]', folder="presets")
    with pytest.raises(BadInput, match="leads out of"):
        ingested(tmp_path / "logs", tmp_path / "store")
    (tmp_path / "secret.png").symlink_to("secret.png")
    with pytest.raises(BadInput, match="is a link to itself"):
        ingested(tmp_path / "logs", tmp_path / "store")


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


# What FastChat's `resize_image_and_return_image_in_bytes` made of each size when it was run.
SIZES = {
    (800, 600): (800, 600), (1024, 1024): (1024, 1024), (61, 7): (60, 7), (7, 61): (7, 60), (230, 7): (229, 7),
    (1500, 1024): (1023, 699), (1500, 1500): (1024, 1024), (2000, 100): (1020, 51), (3000, 2000): (1023, 682),
    (2000, 3000): (682, 1023),
}  # fmt: skip


def name_of(image: PIL.Image.Image) -> str:
    return hashlib.md5(image.tobytes()).hexdigest()


@pytest.mark.parametrize(("size", "logged"), SIZES.items(), ids=str)
def test_a_preset_of_any_size_is_named_as_the_server_scales_it(tmp_path, size, logged):
    file = tmp_path / "preset.jpg"
    file.write_bytes(image_bytes(1, size, "JPEG"))
    image = PIL.Image.open(file).convert("RGBA")
    assert logged_name(file) == name_of(image if size == logged else image.resize(logged))


def test_a_preset_that_is_still_a_large_png_is_scaled_once_more(tmp_path):
    noise = np.random.default_rng(1).integers(0, 256, (1024, 1024, 4), np.uint8)
    image, file = PIL.Image.fromarray(noise), tmp_path / "preset.png"
    image.save(file)  # 4.2 MB, of which the server keeps 5 / 1.5
    factor = (5 / 1.5 * 2**20 / file.stat().st_size) ** 0.5
    side = int(1024 * factor)
    assert side < 1024
    assert logged_name(file) == name_of(image.resize((side, side)))
