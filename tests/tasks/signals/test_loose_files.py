"""Files of prompts, labels and texts that people type or other tools write: read, or refused in one line."""

import json

import pytest

from schemas.errors import BadInput
from tasks.providers import Providers
from tasks.signals.loose_files import inspect_file, read_documents, read_tag_labels
from tests.builders import image_bytes

MARK = "\ufeff"


def file_of(folder, name, text):
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def providers():
    return Providers()


@pytest.mark.parametrize("row", ["1,true,foo,extra", "1,true,yes,extra,more"])
def test_a_line_of_a_csv_file_with_more_cells_than_its_header_is_named(tmp_path, row):
    file = file_of(tmp_path, "labels.csv", f"id,ocr,note\n{row}\n")
    with pytest.raises(BadInput, match=r"line 2: more cells than the header"):
        read_tag_labels(file, ["ocr"], texts=False)


def test_blank_cells_beyond_the_header_of_a_csv_file_are_none(tmp_path):
    file = file_of(tmp_path, "labels.csv", "id,ocr\n1,true,,\n")
    assert read_tag_labels(file, ["ocr"], texts=False) == {"1": {"ocr": True}}


def test_a_long_prompt_in_a_csv_file_is_read(tmp_path, providers):
    prompt = "long " * 40_000 + "end"
    file = file_of(tmp_path, "prompts.csv", f"id,prompt\n1,{prompt}\n")
    (document,) = read_documents(file, providers, with_images=False, measured=False)
    assert document.prompt == prompt


def test_a_csv_file_that_cannot_be_read_is_named(tmp_path, providers):
    file = file_of(tmp_path, "prompts.csv", f"id,prompt\n1,{'long ' * 4_000_000}\n")
    with pytest.raises(BadInput, match="cannot be read as CSV"):
        read_documents(file, providers, with_images=False, measured=False)


@pytest.mark.parametrize("before", ["", MARK])
def test_lines_of_labels_may_begin_with_a_byte_order_mark(tmp_path, before):
    file = file_of(tmp_path, "labels.jsonl", before + '{"id": "1", "ocr": true}\n')
    assert read_tag_labels(file, ["ocr"], texts=False) == {"1": {"ocr": True}}


def test_lines_of_texts_may_begin_with_a_byte_order_mark(tmp_path, counting):
    (seen,) = inspect_file(file_of(tmp_path, "texts.jsonl", MARK + '{"text": "What is it?"}\n'), counting)
    assert seen["signals"]["tokens"] == {"tokens": 11}


def test_a_text_whose_id_is_null_is_named_by_its_line(tmp_path, counting):
    file = file_of(tmp_path, "texts.jsonl", '{"id": null, "text": "What is it?"}\n')
    assert [seen["item"] for seen in inspect_file(file, counting)] == [f"{file}:1"]


def test_lines_of_texts_are_known_by_an_ending_in_capitals(tmp_path, counting):
    (seen,) = inspect_file(file_of(tmp_path, "TEXTS.JSONL", '{"text": "What is it?"}\n'), counting)
    assert seen["signals"]["tokens"] == {"tokens": 11}


@pytest.mark.parametrize("labels", [None, [], "humor", 5], ids=repr)
def test_labels_that_are_no_object_are_none(tmp_path, labels):
    file = file_of(tmp_path, "labels.jsonl", json.dumps({"id": "1", "ocr": True, "labels": labels}))
    assert read_tag_labels(file, ["ocr"], texts=False) == {"1": {"ocr": True}}


@pytest.mark.parametrize("named", [True, False], ids=["with an id", "without"])
@pytest.mark.parametrize("images", [5, True, {"a.png": 1}, [5], "a\0b.png"], ids=repr)
def test_images_that_are_no_names_of_files_are_refused_with_their_line(tmp_path, providers, images, named):
    (tmp_path / "a.png").write_bytes(image_bytes())
    row = {"prompt": "What is it?", "images": images} | ({"id": "1"} if named else {})
    with pytest.raises(BadInput, match="line 1"):
        read_documents(file_of(tmp_path, "prompts.jsonl", json.dumps(row)), providers, False, measured=False)


def test_an_id_that_two_prompts_have_is_refused(tmp_path, providers):
    file = file_of(tmp_path, "prompts.jsonl", '{"id": "1", "prompt": "a"}\n{"id": "1", "prompt": "b"}\n')
    with pytest.raises(BadInput, match="line 2: id '1' occurs twice"):
        read_documents(file, providers, with_images=False, measured=False)
