"""Published datasets as people really have them: written by `datasets`, with marks, broken lines and odd files."""

import json

import datasets
import pytest

from schemas.errors import BadInput
from tasks.ingest.formats.data_files import source_files
from tests.tasks.ingest.logs import ingested, rejected, texts
from tests.tasks.ingest.test_formats import IMAGE, PICTURED, ROWS

CHAT, BATTLE = json.dumps(ROWS["openai-messages"]), ROWS["human-preference"]


def put(tmp_path, content: bytes, name: str = "rows.jsonl"):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize("name", PICTURED)
def test_a_dataset_with_images_that_datasets_itself_saved_is_known_and_read(tmp_path, name):
    column = "image" if "image" in ROWS[name] else "images"
    row = ROWS[name] | {column: IMAGE if column == "image" else [IMAGE, IMAGE]}
    made = datasets.Dataset.from_list([row, row | {column: None if column == "image" else []}])
    feature = datasets.Image() if column == "image" else datasets.List(datasets.Image())
    datasets.DatasetDict(train=made.cast_column(column, feature)).save_to_disk(tmp_path / "data")
    assert {found for _, found in source_files(tmp_path / "data")} == {name}
    store = ingested(tmp_path / "data", tmp_path / "store")
    assert rejected(store) == {}
    assert store.read("images").height == 1
    assert store.read("sightings").height == (4 if "winner" in row else 2)


def test_what_is_read_and_as_what_is_said_before_it_is(tmp_path, capsys):
    data = put(tmp_path, CHAT.encode())
    (data / "more.jsonl").write_text(json.dumps(BATTLE))
    ingested(data, tmp_path / "store")
    both = "reading 1 file as human-preference, 1 file as openai-messages"
    assert capsys.readouterr().err.splitlines() == [f"{both}, recognized by their columns (--format overrides)"]
    ingested(data / "rows.jsonl", tmp_path / "other", format="openai-messages")
    assert capsys.readouterr().err.splitlines() == ["reading 1 file as openai-messages"]


def test_a_file_with_a_byte_order_mark_is_known_and_keeps_its_first_row(tmp_path):
    data = put(tmp_path, b"\xef\xbb\xbf" + CHAT.encode() + b"\n")
    store = ingested(data, tmp_path / "store")
    assert (store.read("conversations").height, rejected(store)) == (1, {})


def test_a_file_that_begins_with_broken_lines_is_known_by_its_first_row(tmp_path):
    data = put(tmp_path, b"\n{broken\n[1]\n" + CHAT.encode() + b"\n")
    store = ingested(data, tmp_path / "store")
    reasons = ["blank_line", "not_json", "not_a_record"]
    assert rejected(store) == {("rows.jsonl", number): reason for number, reason in enumerate(reasons, 1)}
    assert store.read("conversations")["line"].to_list() == [4]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("rows.json", json.dumps([BATTLE], indent=1).encode(), "columns: none; JSON Lines hold an object a line"),
        ("train.parquet", b"PAR1 and no more", r"'train.parquet' cannot be read \(ArrowInvalid\)"),
        ("data.arrow", b"no table", r"'data.arrow' cannot be read"),
    ],
)
def test_a_file_that_holds_no_rows_is_one_clear_line(tmp_path, name, content, says):
    with pytest.raises(BadInput, match=says):
        source_files(put(tmp_path, content, name))


def test_an_image_among_the_parts_of_a_text_dataset_is_missing_and_not_forgotten(tmp_path):
    asked = {"role": "user", "content": [{"type": "text", "text": "Who?"}, {"type": "image", "image": "a.png"}]}
    row = BATTLE | {f"conversation_{side}": [asked, BATTLE["conversation_a"][1]] for side in "ab"}
    store = ingested(put(tmp_path, json.dumps(row).encode()), tmp_path / "store")
    rows = store.read("conversations").to_dicts()
    assert [(texts(each), each["image_problems"]) for each in rows] == [(["Who?", "A cat."], ["image_missing"])] * 2
